"""Why a chat model of LangChain's stopped, as its message says under its provider's names."""

from typing import Any, Final

from langchain_core.messages import AIMessage

_REFUSALS: Final = ("refusal", "non_standard")
_FINISHES: Final = ("finish_reason", "stop_reason", "stopReason", "done_reason")


def finish_of(answer: object) -> str | None:
    """Return why the model stopped, in its provider's word; `None` where the message does not say."""
    if not isinstance(answer, AIMessage):
        return None
    metadata: dict[str, Any] = answer.response_metadata
    cut = metadata.get("incomplete_details") or {}  # OpenAI's Responses, and what they say when they end well
    said = next((metadata[key] for key in _FINISHES if metadata.get(key)), None)
    return said or cut.get("reason") or metadata.get("status")


def refusal_of(answer: AIMessage) -> str | None:
    """Return the text in which a model refused to answer, in Chat Completions or in a content block."""
    blocks = [block for block in answer.content if isinstance(block, dict)]
    found = [block.get("value", block).get("refusal") for block in blocks if block.get("type") in _REFUSALS]
    return answer.additional_kwargs.get("refusal") or "".join(map(str, filter(None, found))) or None
