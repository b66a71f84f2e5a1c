"""Writes the page of `podium.toml`: each table with its keys, from the models that check the file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from podium.config.sections import AsTable, Sections
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
    for name, info in Sections.model_fields.items():
        for path, kind, omit in _nested(name, info.rebuild_annotation()):
            yield from _with_inner(path, kind, omit)


def configuration_page() -> str:
    """Return the page, in Markdown."""
    parts = [
        "# podium.toml",
        "The tables and keys of the file. A key without a default is required.",
    ]
    for table in dict.fromkeys(tables()):
        parts += [f"## {_heading(table)}", _summary(table.model), _rows(table)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _nested(path: str, kind: Any) -> Iterator[tuple[str, type, tuple[str, ...]]]:
    """Yield the path, the class and the omitted fields of each table that a field is written as."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        omit = next((mark.omit for mark in args[1:] if isinstance(mark, AsTable)), ())
        for name, found, inner in _nested(path, args[0]):
            yield name, found, omit or inner
    elif origin in (dict, Mapping):
        yield from _nested(f"{path}.NAME", args[1])
    elif origin in (list, Sequence):
        yield from _nested(f"[{path}]", args[0])
    elif origin in (Union, UnionType):
        for each in args:
            yield from _nested(path, each)
    elif isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind)):
        yield path, kind, ()


def _with_inner(path: str, model: type, omit: tuple[str, ...]) -> Iterator[Table]:
    keys = tuple(key for key in _keys(model) if key.name not in omit)
    inner = {key.name: list(_nested(f"{path}.{key.name}", key.kind)) for key in keys}
    yield Table(path, model, keys)
    for found in inner.values():
        for name, kind, left_out in found:
            yield from _with_inner(name, kind, left_out)


def _keys(model: Any) -> Iterator[Key]:
    docs = attribute_docs(model)
    if is_dataclass(model):
        for each in fields(model):
            made = each.default_factory
            default = each.default if made is MISSING else made()
            default = PydanticUndefined if default is MISSING else default
            yield Key(each.name, each.type, default, docs.get(each.name, ""))
    else:
        for name, info in model.model_fields.items():
            default = info.get_default(call_default_factory=True)
            yield Key(name, info.rebuild_annotation(), default, docs.get(name, ""))


def _heading(table: Table) -> str:
    kind = next((key.kind for key in table.keys if key.name == "type"), None)
    told = f" of type {get_args(kind)[0]}" if kind is not None else ""
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
