"""Estimates the tokens of a request."""

import json

from podium.types.messages import estimate_usage
from podium.usage import estimate_tokens
from podium_server.api.messages.request import CountRequest

_PER_MESSAGE = 4
_PER_ATTACHMENT = 1_600
"""Tokens of an image of 1.15 megapixels, Anthropic's largest; also counted for a file."""


def count_tokens(request: CountRequest) -> int:
    """Return an estimate of the tokens that one model reads for a request.

    Raises:
        BadRequest: a message or a tool is invalid.
        ConfigError: the tool choice is invalid.
    """
    messages = request.chat_messages()
    parts = [part for message in messages if isinstance(message.content, tuple) for part in message.content]
    attached = len([part for part in parts if part["type"] != "text"])
    tools = request.offered().offered
    of_tools = estimate_tokens(json.dumps(tools, ensure_ascii=False)) if tools else 0
    of_frames = _PER_MESSAGE * len(messages) + _PER_ATTACHMENT * attached
    return estimate_usage(messages, "").input_tokens + of_tools + of_frames
