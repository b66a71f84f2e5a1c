"""Computes digests of messages in exports, and short excerpts of them without secrets.

Messages may have the form of OpenAI, LangChain or OpenTelemetry. Ids and metadata are ignored, so that a
message has the same digest each time it is sent.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from podium.secrets import printable, scrub
from podium.types.messages import storable
from podium_evals.audit.span import DIGEST_BYTES

EXCERPT = 100
"""Length of an excerpt in characters."""
_READ = 4000
"""Number of characters that are searched for secrets before the excerpt is cut."""
_IGNORED = frozenset(
    {"id", "tool_call_id", "call_id", "response_metadata", "usage_metadata", "additional_kwargs", "lc"}
    | {"annotations", "status", "logprobs", "cache_control", "phase"}
)
_USERS = ("user", "human")
_DEEPEST = 50


def digest(value: object) -> str:
    """Return the digest of a JSON value in hex."""
    spelled = json.dumps(_essence(value), sort_keys=True, default=str)
    return blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def digests(messages: Iterable[object]) -> str:
    """Return the digests of the messages of a prompt, joined."""
    return "".join(digest(unwrapped(message)) for message in messages)


def unwrapped(message: object) -> object:
    """Return a message without the envelope of LangChain's serialization."""
    if isinstance(message, Mapping) and isinstance(inner := message.get("kwargs"), Mapping):
        return inner
    if isinstance(message, list | tuple) and len(message) == 2 and all(isinstance(x, str) for x in message):
        return {"role": message[0], "content": message[1]}
    return message


def question_of(messages: Iterable[object]) -> str:
    """Return an excerpt of the last message of the user; empty if there is none."""
    found = ""
    for message in map(unwrapped, messages):
        if isinstance(message, str):
            found = message
        elif isinstance(message, Mapping) and _role(message) in _USERS:
            found = text_of(message) or found
    return excerpt(found)


def text_of(value: object, depth: int = 0) -> str:
    """Return the text of a message, of a message's content, or of a part of the content."""
    if isinstance(value, str):
        return value
    if depth > _DEEPEST:
        return ""
    if isinstance(value, Mapping):
        for key in ("content", "parts", "text", "value"):
            if value.get(key):
                return text_of(value[key], depth + 1)
        return ""
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, (text_of(each, depth + 1) for each in value)))
    return ""


def excerpt(text: str, length: int = EXCERPT) -> str:
    """Return the beginning of a text on one line, without secrets and control characters."""
    line = " ".join(printable(scrub(storable(text[:_READ]))).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _role(message: Mapping[str, Any]) -> str:
    return str(message.get("role") or message.get("type") or "")


def _essence(value: object, depth: int = 0) -> object:
    if depth > _DEEPEST:
        return str(type(value))
    if isinstance(value, Mapping):
        return {
            str(key): _essence(item, depth + 1)
            for key, item in value.items()
            if key not in _IGNORED and item not in (None, "", [], {})
        }
    if isinstance(value, list | tuple):
        return [_essence(item, depth + 1) for item in value]
    return value
