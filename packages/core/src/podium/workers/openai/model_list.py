"""Asks an endpoint which models it has, and chooses one to start with."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.known_models import look_up_model

_NO_CHAT = re.compile(
    "(?<![a-z])(?:embed|audio|realtime|speech|tts|whisper|transcri|translat|image|dall-e|banana|"
    "sora|video|veo|imagen|lyria|music|live|robotics|moderation|guard|rerank|search|research|computer-use|instruct|davinci|"
    "babbage|aqa|preview|exp|codex|cyber|decision|ft:)"
)
"""Words in names of models that are for other things than chat, for one trade, or not finished."""
_SMALL = re.compile("(?<![a-z])(?:mini|nano|micro|lite|small|tiny|gemma|oss)")
"""Words in names of the small models of a family."""
_NUMBER = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d+)?(?![\d.])")
"""A version in a name; longer numbers are dates."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as its endpoint lists it."""

    name: str
    created: float
    """Seconds since 1970; 0 where the endpoint does not say."""


async def list_models(endpoint: Endpoint, *, deadline: float | None = None) -> list[ListedModel]:
    """Return the models that an endpoint lists.

    Args:
        endpoint: the server.
        deadline: when the list must be complete, in seconds on the event loop's clock; `None` leaves
            that to the endpoint's timeouts.

    Raises:
        WorkerError: the server gave no list.
    """
    raw = await endpoint.get("/models", deadline=deadline)
    rows = raw.get("data")
    return [model for row in rows if (model := _read(row))] if isinstance(rows, list) else []


def choose_model(models: Iterable[ListedModel], base_url: str) -> str | None:
    """Return the name of the newest general chat model; `None` where none is listed.

    Models that their provider advises against are left out, and small ones unless there are no others.
    Where the endpoint does not say when models were made, the versions in their names decide.

    Args:
        models: what the endpoint lists.
        base_url: its URL, by which known models are looked up.
    """
    chat = [model for model in models if not _NO_CHAT.search(model.name.lower())]
    current = [model for model in chat if not _is_deprecated(base_url, model.name)]
    large = [model for model in current if not _SMALL.search(model.name.lower())]
    return max(large or current, key=_newness).name if current else None


def _newness(model: ListedModel) -> tuple[float, list[float], int, str]:
    versions = [float(number) for number in _NUMBER.findall(model.name)]
    return model.created, versions, -len(model.name), model.name


def _is_deprecated(base_url: str, name: str) -> bool:
    known = look_up_model(base_url, name)
    return known is not None and known.is_deprecated


def _read(row: object) -> ListedModel | None:
    """Return a row of the list; `None` for one that names no model as text fit for a file."""
    if not isinstance(row, Mapping):
        return None
    name = row.get("id")
    if not isinstance(name, str) or not name or not name.isprintable() or any(c in name for c in '"\\\0'):
        return None
    return ListedModel(name.removeprefix("models/"), _created(row))


def _created(row: Mapping[str, object]) -> float:
    number, text = row.get("created"), row.get("created_at")
    if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 2**53:
        return float(number)
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
