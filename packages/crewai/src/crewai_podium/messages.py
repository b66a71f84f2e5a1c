"""Convert CrewAI's messages to Podium's."""

from collections.abc import Mapping, Sequence
from typing import Any

from podium.types import Message
from podium.types.messages import storable


def from_crewai(messages: str | Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return an LLM's messages as a conversation.

    After a tool has run, CrewAI adds an instruction as a user message. It is not a new question, so it
    becomes part of the tool's result.

    Raises:
        QueryError: a message is invalid.
    """
    if isinstance(messages, str):
        return (Message("user", storable(messages)),)
    found: list[Mapping[str, Any]] = []
    for message in messages:
        last = found[-1] if found else {}
        if message["role"] == "user" and last.get("role") == "tool":
            found[-1] = {**last, "content": f"{last['content']}\n\n{message['content']}"}
        else:
            found.append(message)
    return tuple(Message.from_wire(message) for message in found)
