"""What a conductor's node writes to the state of the graph around it.

That is the answer, the view of the run, fields of typed outputs that the node was asked to write, and updates
by the steps themselves.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_origin

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels import BinaryOperatorAggregate, DeltaChannel
from langgraph.types import Command

from langchain_podium.graph.around import UNDECLARED, Around, Data
from langchain_podium.graph.state import VIEW, of_result
from langchain_podium.response_format import ResponseFormat
from langchain_podium.workers.commands import updates_of
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import Partial
from podium.hosts.results import answered, check_partial, run_failed, text_answer
from podium.run.approval import REFUSED, UNANSWERED
from podium.secrets import scrub
from podium.types import Outcome, Problem, Result
from podium.types.result import steps_of
from podium.types.schemas import Form
from podium.types.steps import AnyStep, step_at, worker_of
from podium.workers import Pool

MESSAGES: Final = "messages"
STRUCTURED: Final = "structured_response"
"""The key of the structured answer, as in LangChain's agents."""

_CONSEQUENCES: Final = ("dependency", "items", "turn", "too_few")
"""Codes of problems that another step, an item or a turn has caused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a node writes."""

    key: str
    """The state key of the answer."""
    name: str
    """The name on the message with the answer."""
    partial: Partial = "return"
    """Whether an incomplete answer is returned or raised, such as when the last step failed."""
    response_format: ResponseFormat | None = None
    """The schema of the answer, which is then also under `structured_response`; `None` means text."""
    writes: Mapping[str, str] = field(default_factory=dict)
    """The keys of the state that get fields of typed outputs."""

    def __post_init__(self) -> None:
        check_partial(self.partial)

    def check(self, config: RunnableConfig, conductor: Conductor) -> None:
        """Check the keys against the node's graph, and the fields, before anything is paid for."""
        self.fields(conductor.pool)
        if self.response_format is not None and Around(config).held(STRUCTURED) is UNDECLARED:
            told = f"the graph's state has no key {STRUCTURED!r}, which response_format needs"
            raise ConfigError(f"{told}: declare it, of any type")
        for argument, key in (("output", self.key), *(("writes", key) for key in self.writes)):
            if Around(config).held(key) is UNDECLARED:
                raise ConfigError(
                    f"the graph's state has no key {key!r}, so LangGraph would drop what the conductor "
                    f"writes there: declare it, or set another key with conductor_node(..., {argument}=...)"
                )

    def fields(self, pool: Pool) -> Mapping[str, "_Field"]:
        """Return the fields that are written, by the key of the state; raise `ConfigError` without one."""
        return {key: _field(key, told, pool, self.response_format) for key, told in self.writes.items()}

    def update(self, result: Result, config: RunnableConfig, conductor: Conductor) -> Any:
        """Return what the node returns to LangGraph at the end of a run.

        If a key holds a list, its value is appended by the reducer that the state must declare. Raises
        `RunFailed` without an answer.
        """
        is_strict = self.partial == "raise" or self.response_format is not None
        refused = _refused_plan(result) or (None if is_strict else _refused_step(result))
        graph, answer, data = Around(config), None, Data()
        if refused is None:
            answered(result, partial=self.partial)
        else:
            result = replace(result, problem=refused)
        said = text_answer(result)
        if self.response_format is not None:
            if refused is None:
                answer = self.response_format.read(result)
                said = self.response_format.text(answer)
            data[STRUCTURED] = answer
        view, held, shown = of_result(result, conductor), graph.held(self.key), graph.held(VIEW)
        if self.key == MESSAGES:
            data[self.key] = [self._message(said or (refused.message if refused else ""), view)]
        elif isinstance(held, list):
            is_of_messages = any(isinstance(item, BaseMessage) for item in held)
            data[self.key] = [self._message(said, view) if is_of_messages else said]
        else:
            data[self.key] = said
        if shown is not UNDECLARED:
            data[VIEW] = [view] if isinstance(shown, list) else view
        updates = [*updates_of(result.outcomes), *self._written(result, answer, conductor.pool, graph)]
        return _joined(updates, data, graph.channels)

    def _message(self, text: str, view: Data) -> AIMessage:
        """Return the message with an answer; its id is the id of the streamed message."""
        finish = "length" if view["status"] == "partial" else "stop"
        facts = {"finish_reason": finish, "podium_run_id": view["run_id"], "podium_status": view["status"]}
        facts["podium_labels"] = view["labels"]
        return AIMessage(text, name=self.name, id=view["message_id"], response_metadata=facts)

    def _written(self, result: Result, answer: Any, pool: Pool, graph: Around) -> Iterator[tuple[str, Any]]:
        """Yield the fields of a run, with the keys of the state."""
        for key, found in self.fields(pool).items():
            if found.worker is None:
                yield key, found.of(answer)
                continue
            values = [found.of(value) for value in _outputs(result, found.worker, pool)]
            if _is_list(graph, key):
                yield key, values
            elif values:
                yield key, values[-1]


def _refused_plan(result: Result) -> Problem | None:
    """Return the problem of a run whose latest plan a person has refused; `None` for other runs."""
    problems = [step.problem for step in steps_of(result.rounds[-1])] if result.rounds else []
    is_refused = bool(problems) and all(each is not None and each.code == REFUSED for each in problems)
    return problems[0] if is_refused else None


def _refused_step(result: Result) -> Problem | None:
    """Return the refused actions and questions of a run, if only these left it without an answer."""
    outcomes = result.rounds[-1].outcomes if result.status == "failed" and result.rounds else ()
    ended = [each.problem for each in outcomes if each.status != "ok" and not each.is_dropped]
    causes = [each for each in ended if each is not None and each.code not in _CONSEQUENCES]
    if not causes or any(each.code not in (REFUSED, UNANSWERED) for each in causes):
        return None
    return Problem(causes[0].code, "; ".join(dict.fromkeys(each.message for each in causes)))


def _joined(updates: Sequence[tuple[str, Any]], own: Data, channels: Mapping[str, Any]) -> Any:
    """Return updates as LangGraph takes them.

    A key with a reducer gets each update; another key gets the last one, by the order of the plan.
    """
    commands, single = list[Command[Any]](), Data()
    for key, value in updates:
        if isinstance(channels.get(key), BinaryOperatorAggregate | DeltaChannel):
            commands.append(Command(update={key: value}))
        else:
            single[key] = value
    return [*commands, {**single, **own}] if commands else {**single, **own}


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


def _field(key: str, told: str, pool: Pool, response_format: ResponseFormat | None) -> _Field:
    """Return a field; raise `ConfigError` if there is none."""
    worker = next((name for name in pool.names if told.startswith(f"{name}.")), None)
    if worker is not None:
        path, form = told.removeprefix(f"{worker}."), _form_of(pool, worker)
        of, hint = f"worker {worker!r}", "give it a card with `returns`, as in as_worker(..., returns={...})"
    else:
        path, form = told, None if response_format is None else Form.of(response_format.schema)
        of, hint = "the answer", "set response_format, or name a worker's field, as in 'clerk.total'"
        if "." in told:
            of += f" (no worker is named {told.partition('.')[0]!r}, only {', '.join(pool.names)})"
    if form is None:
        raise ConfigError(f"writes: {key!r} is to get {told!r}, and the output of {of} is text: {hint}")
    at: Form | None = form
    for part in path.split("."):
        at = None if at is None else at.field(part)
    if at is None:
        raise ConfigError(f"writes: {key!r} is to get {told!r}, and the output of {of} has no such field")
    return _Field(worker, tuple(path.split(".")))


def _form_of(pool: Pool, worker: str) -> Form | None:
    """Return the form of a worker's outputs; `None` for text."""
    return pool.cards[pool.names.index(worker)].form


def _outputs(result: Result, worker: str, pool: Pool) -> list[Any]:
    """Return a worker's outputs in the latest round that has any, in the order of the plan."""
    for current in reversed(result.rounds):
        steps = () if current.plan is None else current.plan.steps
        done = [
            each
            for each in current.outcomes
            if each.status == "ok" and _is_of(worker, step_at(steps, each.name), each, result.workers)
        ]
        if done:
            return [_read(result, worker, each, pool) for each in sorted(done, key=_place)]
    return []


def _is_of(worker: str, step: AnyStep, outcome: Outcome, workers: Sequence[str]) -> bool:
    """Return whether an execution is of a worker's step; the list of a map is not, but each item is."""
    is_map = step.each is not None and not outcome.name.endswith("]")
    return worker_of(step, workers) == worker and not is_map


def _place(outcome: Outcome) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", outcome.name)]


def _read(result: Result, worker: str, outcome: Outcome, pool: Pool) -> Any:
    """Return a typed output; raise `RunFailed` if it does not fit, which the worker's card promises."""
    form = _form_of(pool, worker)
    try:
        value = json.loads(outcome.text)
    except ValueError:
        value = None
    if value is None or form is None or not form.fits(value):
        told = f"the output of step {outcome.name} does not fit the schema on the card of {worker!r}"
        raise run_failed(f"{told}: {scrub(outcome.text)!r:.200}", result)
    return value


def _is_list(graph: Around, key: str) -> bool:
    """Return whether a key of the state is declared as a list."""
    kind = getattr(graph.channels.get(key), "typ", None)
    return (get_origin(kind) or kind) is list
