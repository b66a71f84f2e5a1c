"""Checks that each tool result of a conversation belongs to a tool call."""

from collections.abc import Sequence

from podium.errors import QueryError
from podium.types import Message


def check_tool_results(messages: Sequence[Message]) -> None:
    """Check the tool results of a conversation.

    Raises:
        QueryError: a result names no call, or a call that is not in an earlier message.
    """
    called = set[str]()
    for number, message in enumerate(messages):
        called.update(str(call.get("id")) for call in message.tool_calls)
        if message.role != "tool":
            continue
        if message.tool_call_id is None:
            raise QueryError(
                f"message {number} is a tool result without tool_call_id: add the id of its call"
            )
        if message.tool_call_id not in called:
            told = f"message {number} is the result of the tool call {message.tool_call_id!r:.100}"
            raise QueryError(
                f"{told}, which is in no earlier message: send the message with this call before it"
            )
