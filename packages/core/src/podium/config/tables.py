"""Reads a table of the file into one of Podium's own records.

The record's fields, types and defaults are the table's keys, so a new limit is a new key
without a second list of limits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field as RecordField, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from podium.errors import ConfigError


class Section(BaseModel):
    """A table of the file: unknown keys are refused, and no type is converted to another."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class AsTable:
    """Marks a field whose value is a record, written as a table.

    Args:
        positive: whether numbers must be above 0; else 0 is allowed too.
        zero: fields whose numbers may be 0 even so.
        omit: fields that are no keys of the table.
    """

    positive: bool = False
    zero: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, record: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a table with the record's fields, which becomes the record."""
        section = create_model(record.__name__, __base__=Section, **self._keys(record))

        def build(table: Section) -> Any:
            try:
                return record(**{name: getattr(table, name) for name in type(table).model_fields})
            except ConfigError as error:
                raise PydanticCustomError("refused", "{told}", {"told": str(error)}) from error

        return core_schema.no_info_after_validator_function(build, handler.generate_schema(section))

    def _keys(self, record: type[Any]) -> dict[str, Any]:
        return {
            field.name: (self._kind(field), _default(field))
            for field in fields(record)
            if field.name not in self.omit
        }

    def _kind(self, field: RecordField[Any]) -> Any:
        bound = Field(gt=0) if self.positive and field.name not in self.zero else Field(ge=0)
        is_number = field.type in (int, float, int | None, float | None)
        return Annotated[field.type, bound] if is_number else _written(field.type)


def _written(kind: Any) -> Any:
    """Return how a value of this type is written: tuples and sets as lists, records as tables."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (tuple, frozenset):
        return Annotated[kind, Field(strict=False)]  # what it is made of stays strict
    if origin is Sequence:
        return list.__class_getitem__(args[0])
    if origin is Mapping:
        return dict.__class_getitem__((args[0], _written(args[1])))
    if origin in (Union, UnionType):
        return Union[tuple(_written(arg) for arg in args)]  # noqa: UP007 - made of what was found
    return Annotated[kind, AsTable()] if is_dataclass(kind) else kind


def _default(field: RecordField[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return ... if field.default_factory is MISSING else Field(default_factory=field.default_factory)
