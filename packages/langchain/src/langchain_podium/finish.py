"""Read the finish reason and the refusal from a chat model's message."""

from typing import Any, Final

from langchain_core.messages import AIMessage

_REFUSALS: Final = ("refusal", "non_standard")
_FINISHES: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")


def finish_of(answer: object) -> str | None:
    """Return the provider's finish reason; `None` if the message has none."""
    if not isinstance(answer, AIMessage):
        return None
    metadata: dict[str, Any] = answer.response_metadata
    # OpenAI's Responses API; its status is the finish reason of a complete answer
    cut = metadata.get("incomplete_details") or {}
    said = next((metadata[key] for key in _FINISHES if metadata.get(key)), None)
    return said or cut.get("reason") or metadata.get("status")


def refusal_of(answer: AIMessage) -> str | None:
    """Return the text of a refusal, from Chat Completions or from a content block."""
    blocks = [block for block in answer.content if isinstance(block, dict)]
    found = [block.get("value", block).get("refusal") for block in blocks if block.get("type") in _REFUSALS]
    return answer.additional_kwargs.get("refusal") or "".join(map(str, filter(None, found))) or None
