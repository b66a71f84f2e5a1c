"""Store the continuation of a turn in the message with its tool calls."""

from collections.abc import Sequence
from typing import Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole

CONTINUATION: Final = "podium_continuation"
"""The key in a message's `additional_kwargs`."""


def latest_continuation(messages: Sequence[ChatMessage]) -> object:
    """Return the continuation in the model's last message; `None` if there is none."""
    for message in reversed(messages):
        if message.role == MessageRole.ASSISTANT:
            return message.additional_kwargs.get(CONTINUATION)
    return None
