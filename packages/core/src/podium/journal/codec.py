"""Events as they are recorded: plain JSON in typed records, and back.

A record holds its schema, the name of its event's type and the event's fields. Which type
a name stands for is said by a closed table of ours; nothing in a record picks a class,
and what is not exactly as it was written is refused.
"""

import json
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Generic, TypeVar, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticSerializationError

from podium.errors import JournalBroken, PodiumError
from podium.types.events import (
    SCHEMA,
    AnswerDelta,
    Event,
    PlanDelta,
    PlannerEnded,
    RunEnded,
    StepDelta,
    StepEnded,
)
from podium.types.messages import storable

PIECES = (PlanDelta, StepDelta, AnswerDelta)
"""Events that are not recorded: what they hold comes again, whole."""
TYPES: dict[str, type[Event]] = {kind.type: kind for kind in get_args(Event) if kind not in PIECES}

_FOREIGN = (StepEnded, PlannerEnded)
"""Events that hold what workers and planners gave, and so are read back before they are recorded:
`None`, for one, is written whatever a field's type is."""

_Facts = TypeVar("_Facts")


@with_config(ConfigDict(extra="forbid", strict=True, ser_json_inf_nan="constants"))
@dataclass(slots=True)
class _Record(Generic[_Facts]):
    schema: int
    type: str
    event: _Facts


_FORMS: dict[type[Any], TypeAdapter[Any]] = {}


def _form(kind: type[Any]) -> TypeAdapter[Any]:
    """Return the reader and writer of one type's records, made when it is first needed."""
    form = _FORMS.get(kind)
    if form is None:
        generic: Any = _Record
        form = _FORMS[kind] = TypeAdapter(generic[kind])
    return form


def prepare() -> None:
    """Make all readers and writers of events, so that no run waits for it."""
    for kind in TYPES.values():
        _form(kind)


def encode(event: Event) -> str:
    """Write an event in JSON.

    A result is written without its rounds, which the events before it tell.

    Raises:
        TypeError: it holds what JSON cannot, or a value of another type than its fields say.
    """
    if isinstance(event, RunEnded):
        event = replace(event, result=replace(event.result, rounds=()))
    return write(event, event.type)


def decode(text: str) -> Event:
    """Read what `encode` wrote.

    Raises:
        JournalBroken: it is something else, or of a version that is not read.
    """
    envelope = _json(text)
    if not isinstance(envelope, dict) or not {"schema", "type"} <= envelope.keys():
        raise JournalBroken(f"a record is no event: {text:.80}")
    schema, name = envelope["schema"], envelope["type"]
    if type(schema) is not int or schema != SCHEMA:
        raise JournalBroken(
            f"a record is of schema {schema!r:.40}; this version of Podium reads {SCHEMA}: "
            "use the version that wrote it"
        )
    kind = TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise JournalBroken(f"a record is of the type {name!r:.40}, which is none")
    event: Event = read(text, kind, name)
    return event


def write(facts: object, name: str) -> str:
    """Write a record of ours in JSON, under the name its type is known by.

    Raises:
        TypeError: it holds what JSON cannot, or a value of another type than its fields say.
    """
    form = _form(type(facts))
    try:
        written = form.serializer.to_json(_Record(SCHEMA, name, facts), warnings="error").decode()
    except (PydanticSerializationError, UnicodeError):
        plain = {"schema": SCHEMA, "type": name, "event": _plain(facts)}
        written = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    else:
        if not isinstance(facts, _FOREIGN):
            return written
    try:
        form.validate_json(written)
    except (ValidationError, PodiumError) as error:
        raise TypeError(_told(error) if isinstance(error, ValidationError) else str(error)) from error
    return written


def read(text: str, kind: type[Any], name: str) -> Any:
    """Read a record of one type.

    Raises:
        JournalBroken: it is something else.
    """
    try:
        return _form(kind).validate_json(text).event
    except (ValidationError, PodiumError) as error:
        told = _told(error) if isinstance(error, ValidationError) else str(error)
        raise JournalBroken(f"a record of type {name} is not what was written: {told}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JournalBroken(f"a record is not JSON: {text:.80}") from error


def _told(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _plain(value: object) -> object:
    """Return the JSON data of what is not storable as it is: lone surrogates, mappings of other kinds."""
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
    raise TypeError(f"{type(value).__name__} is no JSON")
