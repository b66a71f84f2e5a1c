"""Convert a step's sampling to settings and output types of the SDK."""

import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from agents import AgentOutputSchemaBase, ModelSettings, UserError
from agents.strict_schema import ensure_strict_json_schema
from openai.types.shared import Reasoning

from podium.hosts import sampling_arguments
from podium.types import Constraint, Sampling

_EXTRA = ("seed", "stop")
"""Options without an SDK setting; the SDK's chat completions models pass them on."""


def model_settings(sampling: Sampling, beside: ModelSettings | None = None) -> ModelSettings:
    """Return the settings for a step."""
    said = sampling_arguments(sampling)
    extra = {name: said.pop(name) for name in _EXTRA if name in said}
    settings = ModelSettings(include_usage=True).resolve(beside).resolve(ModelSettings(**said))
    if sampling.effort is not None:
        settings = replace(settings, reasoning=Reasoning.model_validate({"effort": sampling.effort}))
    return replace(settings, extra_args={**(settings.extra_args or {}), **extra}) if extra else settings


class SchemaOutput(AgentOutputSchemaBase):
    """An output type that is a JSON schema."""

    def __init__(self, constraint: Constraint) -> None:
        assert isinstance(constraint.value, Mapping)  # a grammar is not a JSON schema
        self._schema = dict(constraint.value)

    def is_plain_text(self) -> bool:
        """Return `False`."""
        return False

    def name(self) -> str:
        """Return the name of the type."""
        return "answer"

    def json_schema(self) -> dict[str, Any]:
        """Return the schema."""
        return self._schema

    def is_strict_json_schema(self) -> bool:
        """Return whether the schema is in the form that strict decoding requires."""
        try:
            return ensure_strict_json_schema(deepcopy(self._schema)) == self._schema
        except UserError:
            return False

    def validate_json(self, json_str: str) -> Any:
        """Return the JSON value of an answer."""
        return json.loads(json_str)
