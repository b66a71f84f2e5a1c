"""The base of the tables of `podium.toml`, and the types of their values."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetPydanticSchema
from pydantic_core import CoreSchema, core_schema

from podium.budget.limits import MAX_COST
from podium.errors import ConfigError
from podium.types.messages import Sampling
from podium.workers.worker import Price


class Section(BaseModel):
    """A table of the file. Unknown keys are errors, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _checked(value: Any) -> Any:
    try:
        value.__post_init__()
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return value


def _record(kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    schema: Any = handler.resolve_ref_schema(handler(kind))
    schema["post_init"] = False  # it raises `ConfigError`, which pydantic does not collect
    return core_schema.no_info_after_validator_function(_checked, schema)


RECORD = GetPydanticSchema(_record)
"""Marks a field whose value is a dataclass that checks its fields and raises `ConfigError`."""
VARIABLE = "^[A-Z_][A-Z0-9_]*$"
"""Names of environment variables; it rejects most API keys that are written here by mistake."""
VariableName = Annotated[str, Field(pattern=VARIABLE)]
Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0)]
Usd = Annotated[float, Field(ge=0, lt=MAX_COST)]
Names = tuple[str, ...]


class PriceSection(Section):
    """A price, in USD per million tokens."""

    input: Usd
    """Price of the tokens of a prompt."""
    output: Usd
    """Price of the tokens of an answer, including reasoning."""
    cached_input: Usd | None = None
    """Price of input from the provider's prompt cache; default: the price of other input."""


def price_of(section: PriceSection | None) -> Price | None:
    """Return the price of a table."""
    return None if section is None else Price(**dict(section))


class SamplingSection(Section):
    """The sampling settings of a model; default: those of the server."""

    temperature: Annotated[float, Field(ge=0)] | None = None
    """Randomness of the text, from 0."""
    top_p: Annotated[float, Field(ge=0)] | None = None
    """Nucleus sampling, from 0 to 1."""
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    """Maximum tokens of the answer, including reasoning."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Random seed, if the server supports one."""
    effort: str | None = None
    """Reasoning effort, in the provider's own words (`low`, `high`, `xhigh`, …)."""

    def sampling(self) -> Sampling:
        """Return the settings."""
        return Sampling(**dict(self))
