"""Short notation for tests of workflows: steps, scripted answers, and how executions end."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import anyio
from core.actors import ONCE, Actor

from podium import Card, Conductor, Limits, Plan, Result, parse_plan
from podium.errors import WorkerRefused
from podium.planners import FixedPlanner
from podium.types import Completion, Outcome
from podium.usage import Usage
from podium.workers import FREE, Request

NO = WorkerRefused("no")
"""The answer of a worker that fails."""


def call(subtask: str, *access: int | str, worker: int | str = 0, **keys: Any) -> dict[str, Any]:
    """Return a step that calls a worker; `as_` is written for `as`."""
    step = {"worker": worker, "subtask": subtask, "access": list(access)}
    return step | {key.rstrip("_"): value for key, value in keys.items()}


def block(*steps: dict[str, Any], access: Sequence[int | str] = (), **keys: Any) -> dict[str, Any]:
    return {"steps": [*steps], "access": [*access]} | {key.rstrip("_"): each for key, each in keys.items()}


def when(ref: str, **tests: Any) -> dict[str, Any]:
    """Return a condition; `is_`, `in_` and `not_` are written for `is`, `in` and `not`."""
    return {"ref": ref} | {key.rstrip("_"): value for key, value in tests.items()}


def plan_of(*steps: dict[str, Any]) -> Plan:
    return parse_plan(json.dumps({"steps": steps}), workers=2, strict=True)


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def compact(text: str) -> str:
    """Return JSON data in its shortest form, and other text as it is."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return as_json(json.loads(text))
    except ValueError:
        return text


class Player(Actor):
    """Answers a subtask from a table; `did` and the subtask without an entry.

    Data are answered as JSON, an exception is raised, and a tuple has the answers one after the other.
    """

    def __init__(
        self, name: str, answers: Mapping[str, Any], seconds: Mapping[str, float], labels: Any
    ) -> None:
        super().__init__(Card(name=name, price=FREE, labels=frozenset(labels)), self._answer)
        self._left = {key: [*each] if isinstance(each, tuple) else [each] for key, each in answers.items()}
        self._seconds = seconds

    async def _answer(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        subtask = asked_of(request)
        left = self._left.get(subtask, [f"did {subtask}"])
        reply = left.pop(0) if len(left) > 1 else left[0]
        await anyio.sleep(self._seconds.get(subtask, 0.0))
        if isinstance(reply, Exception):
            raise reply
        yield Completion(reply if isinstance(reply, str) else as_json(reply), usage=Usage(10, 5))


def asked_of(request: Request) -> str:
    return compact(request.step_input.subtask.partition("\n\nAnswer only with JSON")[0])


def saw_of(request: Request) -> list[str]:
    return [shown.output for shown in request.step_input.visible if not shown.gap]


def team(
    answers: Mapping[str, Any] | None = None,
    seconds: Mapping[str, float] | None = None,
    *,
    acts: bool = False,
    prose: bool = True,
    labels: Sequence[Sequence[str]] = ((), ()),
) -> list[Player]:
    """Return two workers of one script; `acts` and `prose` are about the second."""
    names = zip(("ann", "bob"), labels, strict=True)
    ann, bob = (Player(name, answers or {}, seconds or {}, own) for name, own in names)
    bob.acts, bob.reads_prose = acts, prose
    return [ann, bob]


class Ran(NamedTuple):
    result: Result
    workers: list[Player]

    @property
    def requests(self) -> list[Request]:
        return [request for worker in self.workers for request in worker.requests]

    @property
    def asked(self) -> list[str]:
        return sorted(map(asked_of, self.requests))

    @property
    def ends(self) -> dict[str, str]:
        return {name_of(outcome): told(outcome) for outcome in self.result.outcomes}

    def outcome(self, name: str) -> Outcome:
        return next(each for each in self.result.outcomes if name_of(each) == name)


def name_of(outcome: Any) -> str:
    return str(outcome.name)


def conductor(workers: Sequence[Player], plan: Plan, **options: Any) -> Conductor:
    """Return a conductor of these workers, without retries."""
    options.setdefault("retry", ONCE)
    return Conductor(FixedPlanner(plan), workers, **options)


async def carry_out(*steps: Any, workers: Any = None, run: Any = None, **options: Any) -> Ran:
    """Run a plan of these steps; `run` has the options of the run, `options` those of the conductor."""
    workers, plan = [*(workers or team())], plan_of(*steps)
    return Ran(await conductor(workers, plan, **options).run(plan, **(run or {})), workers)


def told(end: Outcome | Result) -> str:
    """Return how an execution or a run ended: status, code of the problem, and `=` with the text."""
    text = end.answer if isinstance(end, Result) else end.text
    code = "" if end.problem is None else f" {end.problem.code}"
    return f"{end.status}{code} = {text}" if text and end.status in ("ok", "partial") else end.status + code


def fits(expected: str, end: str) -> bool:
    """Return whether an end is as expected: a status, or with its code (`?` is any), or with its text."""
    head, mark, text = expected.partition(" = ")
    actual, _, found = end.partition(" = ")
    if head.endswith(" ?"):
        head, actual = head[:-2], actual.split(" ")[0]
    elif not mark and " " not in head:
        actual = actual.split(" ")[0]
    return head == actual and (not mark or text == found)


@dataclass(frozen=True)
class Case:
    """A plan, its scripted answers, and what must come of it."""

    steps: Sequence[dict[str, Any]]
    answers: Mapping[str, Any] = field(default_factory=dict)
    ends: Mapping[str, str] = field(default_factory=dict)
    """By name: how executions end; see `fits`."""
    run: str = "ok"
    asked: Sequence[str] | None = None
    """All subtasks that workers read, in any order."""
    saw: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By subtask: the outputs that its worker saw."""
    limits: Limits | None = None
    acts: bool = False
    """Whether the second worker acts."""

    async def check(self) -> Ran:
        ran = await carry_out(*self.steps, workers=team(self.answers, acts=self.acts), limits=self.limits)
        ends = ran.ends | {"run": told(ran.result)}
        expected = {**self.ends, "run": self.run}
        found = {name: (end, ends.get(name, "none")) for name, end in expected.items()}
        wrong = {name: each for name, each in found.items() if not fits(*each)}
        assert not wrong, f"expected and got: {wrong}"
        if self.asked is not None:
            assert ran.asked == sorted(self.asked)
        for subtask, outputs in self.saw.items():
            found = [saw_of(request) for request in ran.requests if asked_of(request) == subtask]
            assert found == [list(outputs)], subtask
        return ran
