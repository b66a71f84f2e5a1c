"""Reads a table of the file straight into one of Podium's own records.

The record says which fields there are, of which type and with which default; so a new
limit is a new key, without a second list of them.
"""

from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema


class Section(BaseModel):
    """A table of the file: unknown keys are refused, and no type is taken for another."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class AsTable:
    """Marks a field whose value is a record, written as a table.

    Args:
        positive: whether numbers must be above 0; else they may be 0.
        omit: fields that cannot be written.
    """

    positive: bool = False
    omit: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, record: type[Any], handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a table with the record's fields, which becomes the record."""
        section = create_model(record.__name__, __base__=Section, **self._keys(record))

        def build(table: Section) -> Any:
            return record(**table.model_dump())

        return core_schema.no_info_after_validator_function(build, handler.generate_schema(section))

    def _keys(self, record: type[Any]) -> dict[str, Any]:
        bound = Field(gt=0) if self.positive else Field(ge=0)
        keys: dict[str, Any] = {}
        for field in fields(record):
            if field.name not in self.omit:
                is_number = field.type in (int, float, int | None, float | None)
                kind = Annotated[field.type, bound] if is_number else field.type
                keys[field.name] = (kind, ... if field.default is MISSING else field.default)
        return keys
