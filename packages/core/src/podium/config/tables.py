"""Reads a table of the file into a dataclass of Podium.

The fields, types and defaults of the dataclass define the keys of the table. So a new field of `Limits`
becomes a new key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field as RecordField, dataclass, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from podium.errors import ConfigError


class Section(BaseModel):
    """A table of the file. Unknown keys are errors, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class AsTable:
    """Marks a field whose value is a dataclass, written as a table.

    Args:
        positive: whether numbers must be above 0; otherwise 0 is allowed too.
        zero: fields that may be 0 although `positive` is true.
        omit: fields that are not keys of the table.
    """

    positive: bool = False
    zero: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, record: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a table with the fields of the dataclass, which builds the dataclass.

        It writes a dataclass as this table.
        """
        section = create_model(record.__name__, __base__=Section, **self._keys(record))

        def build(table: Section) -> Any:
            try:
                return record(**{name: getattr(table, name) for name in type(table).model_fields})
            except ConfigError as error:
                raise PydanticCustomError("refused", "{told}", {"told": str(error)}) from error

        def written(value: Any) -> dict[str, Any]:
            return {name: getattr(value, name) for name in section.model_fields}

        return core_schema.no_info_after_validator_function(
            build,
            handler.generate_schema(section),
            serialization=core_schema.plain_serializer_function_ser_schema(written),
        )

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
    """Return the type to validate: lists for tuples and sets, tables for dataclasses."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (tuple, frozenset):
        return Annotated[kind, Field(strict=False)]  # the items stay strict
    if origin is Sequence:
        return list.__class_getitem__(args[0])
    if origin is Mapping:
        return dict.__class_getitem__((args[0], _written(args[1])))
    if origin in (Union, UnionType):
        return Union[tuple(_written(arg) for arg in args)]  # noqa: UP007 - built from a list
    return Annotated[kind, AsTable()] if is_dataclass(kind) else kind


def _default(field: RecordField[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return ... if field.default_factory is MISSING else Field(default_factory=field.default_factory)
