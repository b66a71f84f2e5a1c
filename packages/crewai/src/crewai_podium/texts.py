"""What CrewAI's things are given and give back, as text. It knows no worker."""

import json
from typing import Any

from pydantic import BaseModel

from podium.types import Message, storable


def prompt_of(messages: tuple[Message, ...]) -> str:
    """Return what a worker is sent as one text, for one that takes no messages."""
    if len(messages) == 1:
        return messages[0].text
    return "\n\n".join(f"{message.role}: {message.text}" for message in messages)


def text_of(value: Any) -> str:
    """Return what somebody gave as text: a model as its JSON, anything else as JSON or as it prints."""
    if value is None:
        return ""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, BaseModel):
        return storable(value.model_dump_json())
    return storable(json.dumps(value, ensure_ascii=False, default=str))
