"""Encodes events as JSON records, and decodes them.

A record has its schema version, the name of the event's type and the event's fields. A fixed table maps names
to types, so that a record cannot name any other class. Decoding an invalid record raises an error.
"""

import json
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticSerializationError

from podium.errors import JournalBroken, JournalVersion, PodiumError
from podium.secrets import escaped
from podium.types.events import PIECES, SCHEMA, Event, PlannerEnded, RunEnded, StepEnded
from podium.types.messages import storable

TYPES: dict[str, type[Event]] = {kind.type: kind for kind in get_args(Event) if kind not in PIECES}

_FOREIGN = (StepEnded, PlannerEnded)
"""Events with foreign values: they are validated too, because the encoder accepts `None` in any field."""

_FORMER = ',"hosted_usage":null,"hosted_cost":null'
_Facts = TypeVar("_Facts")


@with_config(ConfigDict(extra="forbid", strict=True, ser_json_inf_nan="constants"))
@dataclass(slots=True)
class _Record(Generic[_Facts]):
    schema: int
    type: str
    event: _Facts


_FORMS: dict[type[Any], TypeAdapter[Any]] = {}


def _form(kind: type[Any]) -> TypeAdapter[Any]:
    """Return the encoder and decoder for one type of record; it is built once."""
    if kind not in _FORMS:
        generic: Any = _Record
        _FORMS[kind] = TypeAdapter(generic[kind])
    return _FORMS[kind]


def prepare() -> None:
    """Build the encoders and decoders of all events, so that no run waits for this."""
    for kind in TYPES.values():
        _form(kind)


def encode(event: Event) -> str:
    """Encode an event as JSON; raise `TypeError` for a value that is not data of its type."""
    if isinstance(event, RunEnded):
        event = replace(event, result=replace(event.result, rounds=()))
    return write_record(event, event.type)


def decode(text: str) -> Event:
    """Decode what `encode` returned; raise `JournalBroken`, or `JournalVersion` for another schema."""
    try:
        envelope = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JournalBroken(f"a record is not JSON: {text!r:.80}") from error
    if not isinstance(envelope, dict) or not {"schema", "type"} <= envelope.keys():
        raise JournalBroken(f"the journal has a record that is not an event: {text:.80}")
    schema, name = envelope["schema"], envelope["type"]
    if type(schema) is not int or schema != SCHEMA:
        raise JournalVersion(
            f"a record has schema {schema!r:.40}; this version of Podium reads {SCHEMA}: "
            "use the version that wrote it"
        )
    kind = TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise JournalBroken(f"a record has the unknown type {name!r:.40}")
    # Older records have these keys, always null.
    event: Event = read_record(text.replace(_FORMER, ""), kind, name)
    return event


def write_record(facts: object, name: str) -> str:
    """Encode a dataclass as a record without control characters; raise `TypeError` as in `encode`."""
    form = _form(type(facts))
    try:
        written = form.serializer.to_json(_Record(SCHEMA, name, facts), warnings="error").decode()
    except (PydanticSerializationError, UnicodeError):
        plain = {"schema": SCHEMA, "type": name, "event": _plain(facts)}
        written = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    else:
        if not isinstance(facts, _FOREIGN):
            return escaped(written)
    try:
        form.validate_json(written)
    except (ValidationError, PodiumError) as error:
        raise TypeError(_told(error)) from error
    return escaped(written)


def read_record(text: str, kind: type[Any], name: str) -> Any:
    """Decode what `write_record` returned; raise `JournalBroken` for another text."""
    try:
        return _form(kind).validate_json(text).event
    except (ValidationError, PodiumError) as error:
        raise JournalBroken(f"a record of type {name} is invalid: {_told(error)}") from error


def _told(error: ValidationError | PodiumError) -> str:
    if isinstance(error, PodiumError):
        return str(error)
    first = error.errors(include_url=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _plain(value: object) -> object:
    """Return JSON data for a value that pydantic cannot encode: lone surrogates, custom mappings."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, frozenset):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if hasattr(value, "items"):
        return {storable(str(key)): _plain(item) for key, item in value.items()}
    raise TypeError(f"{type(value).__name__} is not JSON data")
