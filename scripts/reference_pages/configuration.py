"""Writes the page of `podium.toml`: each table with its keys, from the models that check the file.

The entry points in the group `podium.config` are the tables of other packages.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from importlib.metadata import entry_points
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import RootModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from podium.config.complaints import keys_of
from podium.config.sections import Sections
from scripts.reference_pages.attribute_docs import attribute_docs

WORDS: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table."""

    name: str
    kind: Any = field(hash=False)
    default: Any = field(hash=False)
    """`PydanticUndefined` for a required key."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the file, or one type of a table."""

    name: str
    model: type
    keys: tuple[Key, ...]


def tables() -> Iterator[Table]:
    """Yield the tables of the file in the order of `Sections`, each followed by its nested tables."""
    kinds = {name: info.rebuild_annotation() for name, info in Sections.model_fields.items()}
    kinds |= {each.name: each.load() for each in sorted(entry_points(group="podium.config"))}
    for name, field_kind in kinds.items():
        for path, kind in _nested(name, field_kind):
            yield from _with_inner(path, kind)


def configuration_page() -> str:
    """Return the page, in Markdown."""
    parts = [
        "# podium.toml",
        "The tables and keys of the file. A key without a default is required.",
    ]
    for table in dict.fromkeys(tables()):
        parts += [f"## {_heading(table)}", _summary(table.model), _rows(table)]
    parts += [f"## `[{key.name}]`\n\n{key.meaning}" for key in _keys(Sections) if key.kind == dict[str, str]]
    return "\n\n".join(part for part in parts if part) + "\n"


def _nested(path: str, kind: Any) -> Iterator[tuple[str, type]]:
    """Yield the path and the class of each table that a field is written as."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _nested(path, args[0])
    elif origin is dict:
        yield from _nested(f"{path}.NAME", args[1])
    elif origin is tuple:
        yield from _nested(f"[{path}]", args[0])
    elif origin in (Union, UnionType):
        for each in args:
            yield from _nested(path, each)
    elif isinstance(kind, type) and issubclass(kind, RootModel):
        yield from _nested(path, kind.model_fields["root"].rebuild_annotation())
    elif keys_of(kind):
        yield path, kind


def _with_inner(path: str, model: type) -> Iterator[Table]:
    keys = tuple(_keys(model))
    yield Table(path, model, keys)
    for key in keys:
        for name, kind in _nested(f"{path}.{key.name}", key.kind):
            yield from _with_inner(name, kind)


def _keys(model: Any) -> Iterator[Key]:
    docs = attribute_docs(model)
    defaults = {each.name: each for each in fields(model)} if is_dataclass(model) else model.model_fields
    for name, kind in keys_of(model).items():
        found = defaults[name]
        if isinstance(found, FieldInfo):
            default = found.get_default(call_default_factory=True)
        else:
            default = found.default if found.default_factory is MISSING else found.default_factory()
        yield Key(name, kind, PydanticUndefined if default is MISSING else default, docs.get(name, ""))


def _heading(table: Table) -> str:
    kind = next((key.kind for key in table.keys if key.name == "type"), None)
    told = f" of type {', '.join(get_args(kind))}" if kind is not None else ""
    return f"`[{table.name}]`{told}"


def _summary(model: type) -> str:
    text = " ".join((model.__doc__ or "").split("\n\n", maxsplit=1)[0].split())
    text = re.sub(r"^`\[.*?\]+`(?: of type `\w+`)?(?:, which is the default)?: ", "", text)
    return text[:1].upper() + text[1:]


def _rows(table: Table) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key in table.keys:
        cells = (f"`{key.name}`", _value(key.kind), _default(key.default), key.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _value(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _value(args[0])
    if origin is Literal:
        return ", ".join(f'`"{each}"`' for each in args)
    if origin in (Union, UnionType):
        return " or ".join(_value(each) for each in args if each is not NoneType)
    if origin in (dict, Mapping):
        return f"table of {_value(args[1])}"
    if origin is not None:
        return f"list of {_value(args[0])}"
    return WORDS.get(kind, "table")


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None or value == () or (isinstance(value, Mapping | Sequence) and not value):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, frozenset | set):
        return ", ".join(f'`"{each}"`' for each in sorted(value))
    return (
        f'`"{value}"`' if isinstance(value, str) else f"`{value}`" if isinstance(value, int | float) else ""
    )
