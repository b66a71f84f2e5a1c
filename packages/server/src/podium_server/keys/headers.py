"""The headers that tell a client its limits, with OpenAI's names."""

from math import ceil

from podium_server.keys.account import Bucket
from podium_server.keys.batch import Grant


def limit_headers(grant: Grant) -> dict[str, str]:
    """Return the headers of an admitted request."""
    headers: dict[str, str] = {}
    for name, bucket in (("requests", grant.requests), ("tokens", grant.tokens)):
        if bucket is not None:
            headers |= _of_bucket(name, bucket)
    return headers


def _of_bucket(name: str, bucket: Bucket) -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{name}": str(bucket.size),
        f"x-ratelimit-remaining-{name}": str(max(int(bucket.left), 0)),
        f"x-ratelimit-reset-{name}": _duration(bucket.reset),
    }


def _duration(seconds: float) -> str:
    """Return a time span as OpenAI writes it: 120ms, 3.5s or 1m2s."""
    if seconds < 1:
        return f"{ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{int(minutes)}m{rest:g}s" if minutes else f"{rest:g}s"
