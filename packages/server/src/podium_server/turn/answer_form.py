"""Checks that an answer has the form that its request asked for: JSON, according to a JSON schema.

`podium.types.schemas` says what is checked.
"""

import json
from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for

from podium.errors import ConfigError
from podium.types import Constraint, Problem
from podium.types.schemas import NotChecked, fault_of


class AnswerForm:
    """The form of an answer.

    Args:
        constraint: the JSON schema of the request; a grammar is not checked.

    Raises:
        ConfigError: the schema is invalid.
    """

    def __init__(self, constraint: Constraint) -> None:
        self._schema: Mapping[str, Any] | None = None
        if isinstance(constraint.value, Mapping):
            self._schema = constraint.value
            kind: Any = validator_for(self._schema, default=Draft202012Validator)
            try:
                kind.check_schema(self._schema)
            except SchemaError as error:
                raise ConfigError(
                    f"the JSON schema of the answer is invalid: {error.message:.300}"
                ) from error
            except RecursionError as error:
                raise ConfigError("the JSON schema of the answer is nested too deeply") from error

    def problem(self, answer: str) -> Problem | None:
        """Return why an answer does not have the form; `None` if it has."""
        if self._schema is None:
            return None
        try:
            data = json.loads(answer)
        except (ValueError, RecursionError):
            return Problem("not_json", "the request asked for JSON, and the answer is not JSON")
        try:
            fault = fault_of(self._schema, self._schema, data)
        except NotChecked as error:
            told = f"the answer was not checked, because its JSON schema {error}"
            return Problem("not_checked", told)
        if not fault:
            return None
        return Problem("not_schema", f"the answer does not fit the JSON schema at {fault}")
