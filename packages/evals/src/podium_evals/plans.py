"""Recorded plans: what a planner wrote for each query, in a file that an arm scores later.

A file of JSON lines. The first line says which planner wrote the plans, and which workers were in its pool:

    {"type": "plans", "version": 1, "planner": "…", "workers": ["…", "vote"], "is_told": true, "source": "…"}
    {"type": "plan", "query": "…", "steps": [{"worker": "…", "subtask": "…", "access": []}], "text": "…",
     "problem": null, "calls": 1, "usage": {…}, "cost": 0.001, "seconds": 2.5}

A plan refers to its question or bundle by the content key. `steps` is `null` if the planner wrote no usable
plan; then `problem` has the code and the message.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from podium import Conductor, Plan
from podium.errors import PlanError, PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.usage import Usage
from podium_evals.arms import Answered, Asked, Fold, PlannerArm
from podium_evals.errors import ArmUnfit, RecordingInvalid
from podium_evals.recorded import Bundle, Question, Recordings, content_key
from podium_evals.recording.files import AppendedLines, read_lines

VERSION = 1
_BEGINS, _WHAT = '{"type": "plans"', "file of plans"
NoPlan = Literal["planner_unusable", "planner_refused"]
"""Why there is no plan: the planner's text is not a valid plan, or the planner refused the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlansAbout:
    """The planner that wrote the plans of a file, and its pool."""

    planner: str
    """The name of the planner or of its model."""
    workers: tuple[str, ...]
    """The workers of its pool, in the order of their numbers in the plans."""
    is_told: bool = True
    """Whether its prompt said which plans have recorded answers."""
    source: str = ""
    """A description of the questions, for readers of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPlan:
    """The plan that a planner wrote for one query, or the reason why there is none."""

    query: str
    """The content key of the query: `content_key` of the question or of `Bundle.text`."""
    plan: Plan | None
    """The plan. Its numbers of workers are places in `PlansAbout.workers`. `None` if there is no usable
    plan."""
    text: str = ""
    """The planner's last text."""
    problem: tuple[NoPlan, str] | None = None
    """The code and the message if there is no plan."""
    calls: int = 1
    """Number of calls of the planner's model, including repairs."""
    usage: Usage = Usage()
    cost: float | None = 0.0
    """The cost of the calls in USD; `None` if it is not known."""
    seconds: float | None = None
    """The seconds that planning needed; `None` if they are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The content of a file of plans."""

    about: PlansAbout
    of_query: Mapping[str, RecordedPlan] = field(default_factory=dict)
    """The plans by the key of their query. If a query has several plans, the first is used."""


class PlanFile:
    """A file of plans to append to. Use it as a context manager.

    Each plan is on the disk (fsync) before `append` returns.

    Args:
        path: the file; created if it is missing.
        about: the first line of a new file.

    Raises:
        RecordingInvalid: on entering: the file is not a file of plans, its plans are by another planner or
            for another pool, or another process appends to it.
    """

    def __init__(self, path: Path | str, about: PlansAbout) -> None:
        self.path = Path(path)
        self.queries: set[str] = set()
        """The keys of the queries that are in the file."""
        self._about = about
        self._file = AppendedLines(self.path, begins=_BEGINS, what=_WHAT)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._file)
            if self._file.lines:
                self._check(_read(self.path, self._file.lines))
            else:
                self._file.write([_line({"type": "plans", "version": VERSION} | asdict(self._about))])
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _check(self, before: Plans) -> None:
        for name in ("planner", "workers", "is_told"):
            old, new = getattr(before.about, name), getattr(self._about, name)
            if old != new:
                told = f"{self.path} has plans whose {name} is {old!r}, not {new!r}"
                raise RecordingInvalid(f"{told}: choose another file")
        self.queries = set(before.of_query)

    async def append(self, plan: RecordedPlan) -> None:
        """Append a plan, and wait until it is on the disk.

        Raises:
            RecordingInvalid: the file cannot be written.
        """
        usage = {name: count for name, count in asdict(plan.usage).items() if count}
        row: dict[str, Any] = {
            "type": "plan",
            "query": plan.query,
            "steps": None,
            "text": plan.text,
            "problem": plan.problem,
        }
        row |= {"calls": plan.calls, "usage": usage, "cost": plan.cost, "seconds": plan.seconds}
        if plan.plan is not None:
            steps = plan.plan.to_json()["steps"]
            row["steps"] = [step | {"worker": self._about.workers[step["worker"]]} for step in steps]
        await self._file.append([_line(row)])
        self.queries.add(plan.query)


def read_plans(path: Path | str) -> Plans:
    """Read a file of plans.

    A last line without a line end is left out: its writer was killed.

    Raises:
        RecordingInvalid: the file cannot be read, or is not a file of plans.
    """
    return _read(Path(path), read_lines(Path(path), begins=_BEGINS, what=_WHAT))


def _read(path: Path, lines: Sequence[bytes]) -> Plans:
    about: PlansAbout | None = None
    found: dict[str, RecordedPlan] = {}
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
            if about is None:
                about = _about(row)
            else:
                plan = _plan(row, about.workers)
                found.setdefault(plan.query, plan)
        except PlanError as error:
            raise RecordingInvalid(f"{where} has no valid plan: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordingInvalid(f"{where} cannot be read: {type(error).__name__}: {error}") from error
    assert about is not None  # the first line begins with it
    return Plans(about=about, of_query=found)


def _about(row: Mapping[str, Any]) -> PlansAbout:
    if row["version"] != VERSION:
        raise ValueError(f"its version is {row['version']!r}, and this package reads {VERSION}")
    facts = {name: row[name] for name in ("planner", "is_told", "source")}
    return PlansAbout(workers=tuple(row["workers"]), **facts)


def _plan(row: Mapping[str, Any], workers: tuple[str, ...]) -> RecordedPlan:
    steps, problem = row["steps"], row["problem"]
    if (steps is None) is (problem is None):
        raise ValueError("it must have either steps or a problem")
    numbered = [step | {"worker": workers.index(step["worker"])} for step in steps or ()]
    facts = {name: row[name] for name in ("query", "text", "calls", "cost", "seconds")}
    return RecordedPlan(
        plan=None if steps is None else Plan.from_json({"schema": 1, "steps": numbered}),
        problem=None if problem is None else (problem[0], problem[1]),
        usage=Usage(**row["usage"]),
        **facts,
    )


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


class RecordedPlansArm(PlannerArm):
    """An arm that reads its plans from a file.

    The plans are run over recorded workers. A question is unrecorded if it has no plan, or if its plan needs
    an answer that was not recorded. If the planner wrote no usable plan, the question scores 0. The calls,
    tokens, cost and time of the planner are added to those of the workers.

    Args:
        name: the name in tables.
        plans: the plans.
    """

    def __init__(self, name: str, plans: Plans) -> None:
        super().__init__(name)
        self._plans = plans

    def planner(self, fold: Fold, seed: int) -> Planner:  # noqa: ARG002 - the interface has both parameters
        """Return a planner that reads the plans."""
        return _Reader(self._plans)

    async def answer(self, fold: Fold, seeds: Sequence[int]) -> AsyncIterator[Asked]:
        """Run the plan of each query.

        Raises:
            ArmUnfit: there is no plan for any of the queries.
        """
        if not any(content_key(query.text) in self._plans.of_query for query in fold.asked):
            raise ArmUnfit(
                f"none of its {len(self._plans.of_query)} plans is for a question of this comparison: "
                f"use the same split, seed, pool and number of bundles for recording and comparing"
            )
        async for asked in super().answer(fold, seeds):
            yield asked

    async def _run(self, conductor: Conductor, query: Question | Bundle, recordings: Recordings) -> Answered:
        plan = self._plans.of_query.get(content_key(query.text))
        if plan is None:
            return Answered(score=None, unrecorded=f"no plan was recorded for {query.id!r}")
        if plan.problem is None:
            found = await super()._run(conductor, query, recordings)
        elif plan.problem[0] == "planner_unusable":
            found = Answered(score=0.0, latency_s=0.0)
        else:
            found = Answered(score=None, latency_s=0.0, unrecorded=plan.problem[1])
        known_time = found.latency_s is not None and plan.seconds is not None
        return replace(
            found,
            calls=found.calls + plan.calls,
            tokens=None if found.tokens is None else found.tokens + plan.usage.total_tokens,
            cost=None if found.cost is None or plan.cost is None else found.cost + plan.cost,
            latency_s=found.latency_s + plan.seconds if known_time else None,  # type: ignore[operator]
        )


class _Reader(Planner):
    """A planner that returns the recorded plan of a query, with the workers' numbers in the pool."""

    reads_cards = False

    def __init__(self, plans: Plans) -> None:
        self.name = plans.about.planner
        self._plans = plans

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        plan = self._plans.of_query[content_key(request.query[-1].text)].plan
        assert plan is not None  # queries without a plan are not run
        names = [card.name for card in request.cards]
        steps = []
        for step in plan.calls:
            name = self._plans.about.workers[step.worker]
            if name not in names:
                told = f"the plan needs the worker {name!r}, which is not in this pool"
                raise PlannerError(told, code="planner_refused")
            steps.append(replace(step, worker=names.index(name), label=None))
        yield PlanText(text=write_plan(Plan(tuple(steps)), "rows"), cost=0.0)
