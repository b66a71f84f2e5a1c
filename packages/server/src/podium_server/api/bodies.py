"""Reads the JSON body of a request into the model of its API."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar, get_origin
from urllib.parse import parse_qs

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from podium_server.http import BadRequest

_Model = TypeVar("_Model", bound=BaseModel)
_MOST_TOLD = 3
"""Maximum number of errors in a message."""


class Body(BaseModel):
    """The body of a request. Types are not converted, and unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def read_body(raw: bytes, model: type[_Model]) -> _Model:
    """Return the body of a request.

    Raises:
        BadRequest: it is not a JSON object of this form; the message names the fields.
    """
    return _validated(lambda: model.model_validate_json(raw))


def _validated(read: Callable[[], _Model]) -> _Model:
    try:
        return read()
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        told = "; ".join(_told(details) for details in found[:_MOST_TOLD])
        more = f"; and {len(found) - _MOST_TOLD} more errors" if len(found) > _MOST_TOLD else ""
        first = found[0]
        code = "unknown_parameter" if first["type"] == "extra_forbidden" else None
        raise BadRequest(f"{told}{more}", code=code, param=_path(first["loc"]) or None) from None


def read_query(query: str, model: type[_Model]) -> _Model:
    """Return the parameters of a URL. A field of the type `list` may be given several times.

    Raises:
        BadRequest: a parameter is unknown or invalid; the message names it.
    """
    given = parse_qs(query, keep_blank_values=True)
    lists = {name for name, field in model.model_fields.items() if get_origin(field.annotation) is list}
    values = {name: each if name in lists else each[-1] for name, each in given.items()}
    return _validated(lambda: model.model_validate(values, strict=False))


def fingerprint_of(path: str, raw: bytes) -> str:
    """Return the hash of a request, for its idempotency key."""
    return sha256(path.encode() + b"\0" + raw).hexdigest()


def _told(details: ErrorDetails) -> str:
    path = _path(details["loc"])
    match details["type"]:
        case "json_invalid":
            return f"the body is not JSON: {details['msg'].removeprefix('Invalid JSON: ')}"
        case "model_type" | "model_attributes_type" if not path:
            return "the body is not a JSON object"
        case "missing":
            return f"{path} is missing"
        case "extra_forbidden":
            return f"{path} is not a parameter of this server"
    return f"{path}: {details['msg']}"


def _path(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path
