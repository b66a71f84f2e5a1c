"""Read finish reasons from the raw responses of models' clients."""

from collections.abc import Mapping
from typing import Any, Final

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse

from podium.workers.openai.chat_response import joined_finish

_FINISHES: Final = ("finish_reason", "stop_reason", "done_reason")


class Ending:
    """The finish reason and the refusal of one answer, read from its chunks."""

    def __init__(self) -> None:
        self.refusal = ""
        """The text in which the model refused to answer."""
        self.finish: str | None = None
        """The provider's finish reason; `None` if no chunk had one."""
        self.states = False
        """Whether the provider always sends a finish reason: an answer without one was cut off."""

    @property
    def is_broken_off(self) -> bool:
        """Whether the answer ended without the finish reason that its provider always sends."""
        return self.states and self.finish is None

    def take(self, response: ChatResponse | CompletionResponse) -> None:
        """Read the whole answer, or its next chunk."""
        raw: Any = response.raw
        raw = raw.model_dump() if hasattr(raw, "model_dump") else raw
        raw = raw if isinstance(raw, Mapping) else {}
        self.states = self.states or "choices" in raw
        choice = (raw.get("choices") or [raw])[0]
        spoken = choice.get("message") or choice.get("delta") or {}
        self.refusal += str(spoken.get("refusal") or "") if isinstance(spoken, Mapping) else ""
        said = next((choice[key] for key in _FINISHES if choice.get(key)), None)
        self.finish = joined_finish(self.finish, said)
