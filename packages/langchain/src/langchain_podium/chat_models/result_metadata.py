"""Convert the answer of a run to a chat model's message, or to the last chunk of one."""

from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk

from langchain_podium.chat_models.tool_continuation import CONTINUATION
from langchain_podium.messages import PROVIDER, read_calls, write_usage
from podium.hosts import ChatAnswer, result_metadata
from podium.usage import Usage


def message_of(answer: ChatAnswer, usage: Usage, model: str) -> AIMessage:
    """Return the answer as a message.

    Args:
        answer: the answer of a run.
        usage: the tokens that the message reports.
        model: the name of the chat model.
    """
    calls, broken = read_calls(answer.tool_calls)
    return AIMessage(
        answer.text,
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=write_usage(usage),
        response_metadata=_metadata(answer, model),
    )


def last_chunk(answer: ChatAnswer, rest: str, usage: Usage, model: str) -> AIMessageChunk:
    """Return the last chunk of a stream: the unsent text, the tool calls, and the metadata.

    Args:
        answer: the answer of a run.
        rest: the unsent text.
        usage: the tokens that the message reports.
        model: the name of the chat model.
    """
    calls = [
        tool_call_chunk(
            name=call["function"].get("name"),
            args=call["function"].get("arguments") or "{}",
            id=call.get("id"),
            index=index,
        )
        for index, call in enumerate(answer.tool_calls)
    ]
    return AIMessageChunk(
        content=rest,
        tool_call_chunks=calls,
        usage_metadata=write_usage(usage),
        response_metadata=_metadata(answer, model),
        chunk_position="last",
    )


def problem_in(message: object) -> str | None:
    """Return why the answer in a message is incomplete; `None` for a complete answer, and other objects."""
    facts = message.response_metadata.get("podium") if isinstance(message, AIMessage) else None
    return facts["problem"]["message"] if facts and facts.get("problem") else None


def _metadata(answer: ChatAnswer, model: str) -> dict[str, Any]:
    """Return a message's `response_metadata`: plain JSON, without the outputs of the steps."""
    metadata = result_metadata(answer.result, usage=lambda usage: dict(write_usage(usage)))
    if answer.continuation is not None:
        metadata[CONTINUATION] = dict(answer.continuation)
    return {
        "model_name": model,
        "model_provider": PROVIDER,
        "finish_reason": answer.host_finish_reason,
        "podium": metadata,
    }
