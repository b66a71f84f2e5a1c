"""Typed outputs: how a worker is asked for one, and how it is read from its answer."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import anyio.to_thread

from podium.types.messages import Constraint, storable
from podium.types.references import compact, read_json
from podium.types.schemas import MOST_STEPS, NotChecked, fault_of
from podium.types.steps import Step
from podium.workers.worker import Worker

_WRAPPED = "value"
"""The name of a value in the object around it, where servers accept only schemas of objects."""
_FENCED = re.compile(r"```[a-z]*\n(.*?)```", re.IGNORECASE | re.DOTALL)


_FEW_STEPS = 2_000
"""Number of keywords of a schema that are applied to a value in a few milliseconds."""


class BadOutput(Exception):
    """An answer has no value that fits its schema; the argument is what it does, such as "does not fit"."""

    is_unchecked = False
    """Whether more steps may tell whether it fits."""


def is_asked(worker: Worker, step: Step) -> bool:
    """Return whether a worker is asked for the typed output of a step, or its value is taken as it is."""
    return step.returns is not None and worker.reads_prose and worker.card.returns is None


def constraint_of(worker: Worker, step: Step) -> Constraint | None:
    """Return the constraint that asks a worker for the typed output of a step; `None` if none does."""
    if not is_asked(worker, step) or "json" not in worker.constraint_kinds:
        return None
    schema = step.returns or {}
    return Constraint("json", schema if schema.get("type") == "object" else _wrapped(schema))


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with the value."""
    inner = {_WRAPPED: _moved(schema)}
    return {"type": "object", "properties": inner, "required": [_WRAPPED], "additionalProperties": False}


def _moved(schema: Any) -> Any:
    """Return a schema whose references lead to its parts inside of the object around it."""
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(each) for key, each in schema.items()}
    if str(schema.get("$ref", "")).startswith("#"):
        moved["$ref"] = f"#/properties/{_WRAPPED}{schema['$ref'][1:]}"
    return moved


async def read_output(answer: str, schema: Mapping[str, Any], constraint: Constraint | None) -> str:
    """Return what `output_in` returns, from a thread if the check may take seconds."""
    try:
        return output_in(answer, schema, constraint, _FEW_STEPS)
    except BadOutput as error:
        if not error.is_unchecked:
            raise
    read = partial(output_in, answer, schema, constraint)
    return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)


def output_in(
    answer: str, schema: Mapping[str, Any], constraint: Constraint | None, most_steps: int = MOST_STEPS
) -> str:
    """Return the value in an answer as compact JSON; `constraint` asked for it.

    The JSON may be fenced, and have words around it. Another answer is a string.

    Raises:
        BadOutput: the answer has no JSON, or the value does not fit the schema.
    """
    faults = []
    is_wrapped = constraint is not None and constraint.value == _wrapped(schema)
    for value in _values(answer):
        is_around = is_wrapped and isinstance(value, dict) and value.keys() == {_WRAPPED}
        found = value[_WRAPPED] if is_around else value
        try:
            fault = fault_of(schema, schema, found, most_steps)
        except NotChecked as error:
            bad = BadOutput(f"was not checked, because its JSON schema {error}")
            bad.is_unchecked = most_steps < MOST_STEPS
            raise bad from error
        if not fault:
            return storable(compact(found))
        faults.append(fault)
    raise BadOutput(f"does not fit its JSON schema: {faults[0]}")


def _values(answer: str) -> Iterator[Any]:
    """Yield the JSON value in an answer, if it has one, and the answer as a string."""
    bare = answer.strip()
    opening = sorted((at, end) for begin, end in ("{}", "[]") if (at := bare.find(begin)) >= 0)
    texts = [bare, *_FENCED.findall(bare), *(bare[at : bare.rfind(end) + 1] for at, end in opening)]
    for text in texts:
        try:
            yield read_json(text)
        except ValueError:
            continue
        break
    yield bare
