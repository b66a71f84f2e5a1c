"""The continuation of a turn in the message that holds its tool calls."""

from collections.abc import Sequence
from typing import Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole

CONTINUATION: Final = "podium_continuation"
"""Key of a message's `additional_kwargs`."""


def latest_continuation(messages: Sequence[ChatMessage]) -> object:
    """Return what the model's last message since the question holds; `None` where there is none."""
    for message in reversed(messages):
        if message.role == MessageRole.USER:
            return None
        if message.role == MessageRole.ASSISTANT:
            return message.additional_kwargs.get(CONTINUATION)
    return None
