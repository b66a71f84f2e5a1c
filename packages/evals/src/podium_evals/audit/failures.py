"""Reads the errors in exports of any format: a short code, and the first line of the message."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from podium_evals.audit.texts import excerpt

_RATE = re.compile(
    r"\b429\b|rate.?limit|too many requests|throttl|resource.?exhausted|insufficient_quota", re.IGNORECASE
)
_TYPE = re.compile(r"\s*([A-Za-z_][\w.]{0,80}?)\s*[(:]")
"""The class at the beginning of an error, as in `RateLimitError('…')` and `openai.RateLimitError: …`."""
_LENGTH = 200


class Failure(NamedTuple):
    """A short code and a message of an error, without secrets."""

    code: str
    text: str


def failure(error: object, status: object = None) -> Failure | None:
    """Return the code and message of an error in an export; `None` if there is no error.

    Args:
        error: a text, or an object with `type`, `code` and `message`.
        status: the HTTP status.
    """
    wrong = status if isinstance(status, int) and status >= 400 else None
    if isinstance(error, Mapping):
        return _of_object(error, wrong)
    if isinstance(error, str) and error.strip():
        line = next(line for line in error.splitlines() if line.strip())
        found = _TYPE.match(line)
        code = found[1].rpartition(".")[2] if found else f"http_{wrong}" if wrong else "error"
        return Failure(excerpt(code), excerpt(line, _LENGTH))
    if error not in (None, "", False):
        return Failure("error", excerpt(str(error), _LENGTH))
    return None if wrong is None else Failure(f"http_{wrong}", f"HTTP status {wrong}")


def is_rate_limit(code: str, text: str) -> bool:
    """Return whether an error says that there were too many calls or tokens."""
    return _RATE.search(code) is not None or _RATE.search(text) is not None


def _of_object(error: Mapping[str, Any], status: int | None) -> Failure | None:
    nested = error.get("error")
    if isinstance(nested, Mapping):
        return _of_object(nested, status)
    text = next((str(error[key]) for key in ("message", "detail", "error") if error.get(key)), "")
    code = next((str(error[key]) for key in ("code", "type", "name") if error.get(key)), "")
    if not text and not code and status is None:
        return None
    code = code or (f"http_{status}" if status else "error")
    return Failure(excerpt(code), excerpt(f"{status} {text}" if status else text, _LENGTH))
