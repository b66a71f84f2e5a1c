"""Where a message keeps what the turn after its calls of tools goes on from.

In the message that holds the calls, so that it is where the conversation is. What it is, is
`podium.resume.tool_continuation`'s business.
"""

from collections.abc import Sequence
from typing import Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole

TURN: Final = "podium_turn"
"""The key of a message's `additional_kwargs`."""


def latest_turn(messages: Sequence[ChatMessage]) -> object:
    """Return what the model's last message since the question keeps; `None` where there is none."""
    for message in reversed(messages):
        if message.role == MessageRole.USER:
            return None
        if message.role == MessageRole.ASSISTANT:
            return message.additional_kwargs.get(TURN)
    return None
