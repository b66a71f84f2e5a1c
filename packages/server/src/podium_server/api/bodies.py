"""Reads the JSON body of a request into the model of its API."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError

from podium.cli.screen import counted
from podium.errors import QueryError
from podium.hosts.body_errors import complaints_of
from podium.types import Message
from podium_server.http import BadRequest

_Model = TypeVar("_Model", bound=BaseModel)
_MOST_TOLD = 3
"""Maximum number of errors in a message."""


def read_body(raw: bytes, model: type[_Model]) -> _Model:
    """Return the body of a request."""
    return _validated(lambda: model.model_validate_json(raw))


def _validated(read: Callable[[], _Model]) -> _Model:
    try:
        return read()
    except ValidationError as error:
        found = error.errors(include_url=False)
        complaints = complaints_of(found)
        told = "; ".join(complaint.message for complaint in complaints[:_MOST_TOLD])
        more = len(complaints) - _MOST_TOLD
        told += f"; and {counted(more, 'more error')}" if more > 0 else ""
        code = "unknown_parameter" if found[0]["type"] == "extra_forbidden" else None
        raise BadRequest(told, code=code, param=complaints[0].param or None) from None


def read_query(query: str, model: type[_Model]) -> _Model:
    """Return the parameters of a URL. A field of the type `list` may be given several times."""
    given = parse_qs(query, keep_blank_values=True)
    lists = {name for name, field in model.model_fields.items() if get_origin(field.annotation) is list}
    values = {name: each if name in lists else each[-1] for name, each in given.items()}
    return _validated(lambda: model.model_validate(values, strict=False))


def read_messages(field: str, wires: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages of a conversation in the form of chat completions."""
    messages: list[Message] = []
    for number, wire in enumerate(wires):
        try:
            messages.append(Message.from_wire(wire))
        except QueryError as error:
            place = f"{field}[{number}]"
            raise BadRequest(f"{place}: {error}", code=error.code, param=place) from None
    return messages


def fingerprint_of(path: str, raw: bytes) -> str:
    """Return the hash of a request, for its idempotency key."""
    return sha256(path.encode() + b"\0" + raw).hexdigest()
