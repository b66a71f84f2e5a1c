"""Store the continuation of a turn in the message with its tool calls, in memory or in a checkpoint."""

from collections.abc import Sequence
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage

CONTINUATION: Final = "continuation"
"""The key in a message's `response_metadata["podium"]`."""


def latest_continuation(messages: Sequence[BaseMessage]) -> object:
    """Return the continuation in the model's last message; `None` if there is none."""
    for message in reversed(messages):
        if isinstance(message, AIMessage):
            podium = message.response_metadata.get("podium")
            return podium.get(CONTINUATION) if isinstance(podium, dict) else None
    return None
