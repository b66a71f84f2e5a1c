"""Why a model stopped, as the raw response of its client says."""

from collections.abc import Mapping
from typing import Any, Final

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse

from podium.hosts import joined_finish

_FINISHES: Final = ("finish_reason", "stop_reason", "done_reason")


class Ending:
    """What the pieces of one answer say of its end."""

    def __init__(self) -> None:
        self.refusal = ""
        """The text in which the model refused to answer."""
        self.finish: str | None = None
        """Why the model stopped, in its provider's word; `None` where no piece said."""
        self.states = False
        """Whether the provider is one that always says why: an answer without it was cut off."""

    @property
    def is_broken_off(self) -> bool:
        """Whether the answer ended without the finish reason that its provider always sends."""
        return self.states and self.finish is None

    def take(self, response: ChatResponse | CompletionResponse) -> None:
        """Read the whole answer, or its next piece."""
        raw: Any = response.raw
        raw = raw.model_dump() if hasattr(raw, "model_dump") else raw
        raw = raw if isinstance(raw, Mapping) else {}
        self.states = self.states or "choices" in raw
        choice = (raw.get("choices") or [raw])[0]
        spoken = choice.get("message") or choice.get("delta") or {}
        self.refusal += str(spoken.get("refusal") or "") if isinstance(spoken, Mapping) else ""
        said = next((choice[key] for key in _FINISHES if choice.get(key)), None)
        self.finish = joined_finish(self.finish, said)
