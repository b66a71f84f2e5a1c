"""Lists the models of an endpoint, and chooses one for a new config."""

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
"""Words in the names of models that are not for chat, are specialized, or are previews."""
_SMALL = re.compile("(?<![a-z])(?:mini|nano|micro|lite|small|tiny|gemma|oss)")
"""Words in the names of small models of a family."""
_NUMBER = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d+)?(?![\d.])")
"""A version number in a name; longer numbers are dates."""
_NO_TEXT = re.compile(
    "(?<![a-z])(?:embed|bge-|e5-|rerank|whisper|transcri|tts|speech|audio|dall-e|stable-diffusion|flux|moderation|guard)"
)
"""Words in the names of models that do not write text."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?)b(?![a-z0-9])")


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model in the list of an endpoint."""

    name: str
    created: float
    """In seconds since 1970; 0 if the endpoint does not report it."""
    owner: str = ""
    """Its `owned_by`; empty if the endpoint does not report it."""
    context_window: int | None = None
    """In tokens, as vLLM reports it; `None` if the endpoint does not report it."""

    @property
    def size(self) -> float:
        """The billions of parameters in its name, as in `qwen2.5-7b`; 0 if the name has none."""
        return max(map(float, _SIZE.findall(self.name.lower())), default=0.0)


async def list_models(endpoint: Endpoint, *, deadline: float | None = None) -> list[ListedModel]:
    """Return the models that an endpoint lists.

    Args:
        endpoint: the server.
        deadline: when the list must be complete, in seconds on the event loop's clock; `None` for the
            endpoint's timeouts only.

    Raises:
        WorkerError: the server did not return a list.
    """
    raw = await endpoint.get("/models", deadline=deadline)
    rows = raw.get("data")
    return [model for row in rows if (model := _read(row))] if isinstance(rows, list) else []


def choose_model(models: Iterable[ListedModel], base_url: str) -> str | None:
    """Return the name of the newest general chat model; `None` if there is none.

    Deprecated models are left out. Small models are left out too, if there are others. If the endpoint does
    not report when models were created, the versions in their names decide.

    Args:
        models: the models of the endpoint.
        base_url: the endpoint's URL, to look up known models.
    """
    chat = [model for model in models if not _NO_CHAT.search(model.name.lower())]
    current = [model for model in chat if not _is_deprecated(base_url, model.name)]
    large = [model for model in current if not _SMALL.search(model.name.lower())]
    return max(large or current, key=_newness).name if current else None


def rank_models(models: Iterable[ListedModel]) -> list[ListedModel]:
    """Return the models of a server that write text, by size (largest first) and age (newest first)."""
    chat = [model for model in models if not _NO_TEXT.search(model.name.lower())]
    return sorted(
        chat, key=lambda model: (-model.size, bool(_SMALL.search(model.name.lower())), -model.created)
    )


def _newness(model: ListedModel) -> tuple[float, list[float], int, str]:
    versions = [float(number) for number in _NUMBER.findall(model.name)]
    return model.created, versions, -len(model.name), model.name


def _is_deprecated(base_url: str, name: str) -> bool:
    known = look_up_model(base_url, name)
    return known is not None and known.is_deprecated


def _read(row: object) -> ListedModel | None:
    """Return a model of the list; `None` if its name is not text that a file can have."""
    if not isinstance(row, Mapping):
        return None
    name = row.get("id")
    if not isinstance(name, str) or not name or not name.isprintable() or any(c in name for c in '"\\\0'):
        return None
    owner, window = row.get("owned_by"), row.get("max_model_len")
    return ListedModel(
        name.removeprefix("models/"),
        _created(row),
        owner if isinstance(owner, str) else "",
        window if type(window) is int and window > 0 else None,
    )


def _created(row: Mapping[str, object]) -> float:
    number, text = row.get("created"), row.get("created_at")
    if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 2**53:
        return float(number)
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
