"""What a run writes to the state of the graph around it, beside its answer.

Two sources: fields of typed outputs that the node was asked to write, and updates by the steps themselves.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_origin

from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.types import Command

from langchain_podium.graph.around import Around, around
from langchain_podium.graph.graph_node import Data
from langchain_podium.response_format import ResponseFormat
from langchain_podium.workers.commands import updates_of
from podium.errors import ConfigError
from podium.hosts.results import run_failed
from podium.secrets import scrub
from podium.types import Outcome, Result
from podium.types.schemas import Form
from podium.types.steps import AnyStep, step_at, worker_of
from podium.workers import Pool

UPDATES: Final = "podium_updates"
"""The key of the updates in what the conductor's nodes return: pairs of a state key and a value, in order."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the answer, or of a worker's output."""

    worker: str | None
    """The name of the worker; `None` for the answer."""
    path: tuple[str, ...]

    def of(self, value: Any) -> Any:
        """Return the field of a value; `None` if a part of its path is missing or null."""
        for key in self.path:
            value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
        return value


class Writes:
    """The fields of typed outputs that a node writes to keys of the state."""

    def __init__(self, fields: Mapping[str, str], pool: Pool, response_format: ResponseFormat | None) -> None:
        self._pool = pool
        self._fields = {key: _field(key, told, pool, response_format) for key, told in fields.items()}

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the state."""
        return list(self._fields)

    def updates(self, result: Result, answer: Any) -> list[tuple[str, Any]]:
        """Return the updates of the state by a run: by its steps, then the fields."""
        graph, found = around(), updates_of(result.outcomes)
        for key, field in self._fields.items():
            if field.worker is None:
                found.append((key, field.of(answer)))
                continue
            values = [field.of(value) for value in self._outputs(result, field.worker)]
            if graph is not None and _is_list(graph, key):
                found.append((key, values))
            elif values:
                found.append((key, values[-1]))
        return found

    def _outputs(self, result: Result, worker: str) -> list[Any]:
        """Return a worker's outputs in the latest round that has any, in the order of the plan."""
        for current in reversed(result.rounds):
            steps = () if current.plan is None else current.plan.steps
            done = [
                each
                for each in current.outcomes
                if each.status == "ok" and _is_of(worker, step_at(steps, each.name), each, result.workers)
            ]
            if done:
                return [self._read(result, worker, each) for each in sorted(done, key=_place)]
        return []

    def _read(self, result: Result, worker: str, outcome: Outcome) -> Any:
        """Return a typed output; raise `RunFailed` if it does not fit, which the worker's card promises."""
        form = _form_of(self._pool, worker)
        try:
            value = json.loads(outcome.text)
        except ValueError:
            value = None
        if value is None or form is None or not form.fits(value):
            told = f"the output of step {outcome.name} does not fit the schema on the card of {worker!r}"
            raise run_failed(f"{told}: {scrub(outcome.text)!r:.200}", result)
        return value


def _is_of(worker: str, step: AnyStep, outcome: Outcome, workers: Sequence[str]) -> bool:
    """Return whether an execution is of a worker's step; the list of a map is not, but each item is."""
    is_map = step.each is not None and not outcome.name.endswith("]")
    return worker_of(step, workers) == worker and not is_map


def _place(outcome: Outcome) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", outcome.name)]


def _form_of(pool: Pool, worker: str) -> Form | None:
    """Return the form of a worker's outputs; `None` for text."""
    return pool.cards[pool.names.index(worker)].form


def _field(key: str, told: str, pool: Pool, response_format: ResponseFormat | None) -> _Field:
    """Return a field; raise `ConfigError` if there is none."""
    worker = next((name for name in pool.names if told.startswith(f"{name}.")), None)
    if worker is not None:
        path, form = told.removeprefix(f"{worker}."), _form_of(pool, worker)
        of, hint = f"worker {worker!r}", "give it a card with `returns`, as in as_worker(..., returns={...})"
    else:
        path, form = told, None if response_format is None else Form.of(response_format.schema)
        of, hint = "the answer", "set response_format, or name a worker's field, as in 'clerk.total'"
    if form is None:
        raise ConfigError(f"writes: {key!r} is to get {told!r}, and the output of {of} is text: {hint}")
    at: Form | None = form
    for part in path.split("."):
        at = None if at is None else at.field(part)
    if at is None:
        raise ConfigError(f"writes: {key!r} is to get {told!r}, and the output of {of} has no such field")
    return _Field(worker, tuple(path.split(".")))


def _is_list(graph: Around, key: str) -> bool:
    """Return whether a key of the state is declared as a list."""
    kind = getattr(graph.channels.get(key), "typ", None)
    return (get_origin(kind) or kind) is list


def written(data: Data, config: Any) -> Any:
    """Return what a node returns to LangGraph: its data, with the updates by the run applied.

    A key with a reducer gets each update; another key gets the last one, by the order of the plan.
    """
    channels, commands = Around(config).channels, list[Command[Any]]()
    own = {key: value for key, value in data.items() if key != UPDATES}
    single: Data = {}
    for key, value in data.get(UPDATES, ()):
        if isinstance(channels.get(key), BinaryOperatorAggregate | DeltaChannel):
            commands.append(Command(update={key: value}))
        else:
            single[key] = value
    return [*commands, {**single, **own}] if commands else {**single, **own}
