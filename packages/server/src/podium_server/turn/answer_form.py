"""Checks that an answer has the form that its request asked for: JSON, according to a JSON schema.

Schemas and answers come from outside. So a check has a maximum number of steps, it opens no URL, and it runs
no regular expression: `pattern`, `patternProperties` and `format` are not checked.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import ValidationError
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import Draft202012Validator, extend, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from podium.errors import ConfigError
from podium.types import Constraint, Problem

_MOST_STEPS = 100_000
"""Maximum number of keywords that are applied to an answer."""
_SKIPPED = ("pattern", "patternProperties")
_OF_PATTERNS = ("additionalProperties", "unevaluatedProperties")
"""Keywords whose meaning depends on `patternProperties`."""


class TooComplex(Exception):
    """A schema needs too many steps for an answer."""


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
            misfit: ValidationError | None = best_match(_validator(self._schema).iter_errors(data))
        except (TooComplex, RecursionError, Unresolvable) as error:
            why = {TooComplex: "needs too many steps", RecursionError: "is nested too deeply"}
            told = why.get(type(error), "has a reference that cannot be resolved")
            return Problem("not_checked", f"the answer was not checked, because its JSON schema {told}")
        if misfit is None:
            return None
        told = f"the answer does not fit the JSON schema at {misfit.json_path}: {misfit.message:.300}"
        return Problem("not_schema", told)


def _validator(schema: Mapping[str, Any]) -> Any:
    """Return a validator for one answer."""
    kind: Any = validator_for(schema, default=Draft202012Validator)
    skipped = {*_SKIPPED, *(_OF_PATTERNS if '"patternProperties"' in json.dumps(schema) else ())}
    left = iter(range(_MOST_STEPS))

    def counted(check: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
        def run(*arguments: Any) -> Iterator[ValidationError]:
            if next(left, None) is None:
                raise TooComplex
            yield from check(*arguments) or ()

        return run

    checks = {name: counted(check) for name, check in kind.VALIDATORS.items() if name not in skipped}
    bounded: Any = extend(kind, {**checks, **dict.fromkeys(skipped, _no_errors)})  # type: ignore[no-untyped-call]
    return bounded(schema, registry=Registry())


def _no_errors(*_: Any) -> tuple[ValidationError, ...]:
    return ()
