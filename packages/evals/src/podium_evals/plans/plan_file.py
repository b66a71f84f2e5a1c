"""Reads and writes files of recorded plans (JSON lines). A file can be read while plans are appended.

The first line says which planner wrote the plans, and which workers were in its pool. Plans have the names of
workers:

    {"type": "plans", "version": 1, "planner": "…", "workers": ["…", "vote"], "is_told": true, "source": "…"}
    {"type": "plan", "query": "…", "steps": [{"worker": "…", "subtask": "…", "access": []}], "text": "…",
     "problem": null, "calls": 1, "usage": {…}, "cost": 0.001, "seconds": 2.5, "asked_on": "2026-11-22"}

A plan refers to its question or bundle by the content key. `steps` is `null` if the planner wrote no usable
plan; then `problem` has the code and the message.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from podium import Plan
from podium.config.source import why_unreadable
from podium.errors import PlanError
from podium.usage import Usage
from podium_evals.errors import RecordingInvalid
from podium_evals.recording.appended_lines import AppendedLines

VERSION = 1
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
    asked_on: date | None = None
    """The day."""


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
        self._file = AppendedLines(self.path, begins='{"type": "plans"', what="file of plans")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._file)
            self._begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _begin(self) -> None:
        if not self._file.lines:
            self._file.write([_line({"type": "plans", "version": VERSION} | asdict(self._about))])
            return
        before = read_plans(self.path)
        if why := _differs(before.about, self._about):
            raise RecordingInvalid(f"{self.path} has plans {why}: choose another file")
        self.queries = set(before.of_query)

    async def append(self, plan: RecordedPlan) -> None:
        """Append a plan, and wait until it is on the disk.

        Raises:
            RecordingInvalid: the file cannot be written.
        """
        await self._file.append([self._written(plan)])
        self.queries.add(plan.query)

    def _written(self, plan: RecordedPlan) -> str:
        usage = {name: count for name, count in asdict(plan.usage).items() if count}
        return _line(
            {
                "type": "plan",
                "query": plan.query,
                "steps": None if plan.plan is None else _named(plan.plan, self._about.workers),
                "text": plan.text,
                "problem": None if plan.problem is None else list(plan.problem),
                "calls": plan.calls,
                "usage": usage,
                "cost": plan.cost,
                "seconds": plan.seconds,
                "asked_on": None if plan.asked_on is None else plan.asked_on.isoformat(),
            }
        )


def read_plans(path: Path | str) -> Plans:
    """Read a file of plans.

    A last line without a line end is left out: its writer was killed.

    Raises:
        RecordingInvalid: the file cannot be read, or is not a file of plans.
    """
    path = Path(path)
    about: PlansAbout | None = None
    found: dict[str, RecordedPlan] = {}
    for where, row in _rows(path):
        try:
            if about is None:
                about = _about(row)
            else:
                plan = _plan(row, about.workers)
                found.setdefault(plan.query, plan)
        except PlanError as error:
            raise RecordingInvalid(f"{where} has no valid plan: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RecordingInvalid(f"{where} cannot be read: {type(error).__name__}: {error}") from error
    if about is None:
        raise RecordingInvalid(f"{path} is not a file of plans: it has no complete line")
    return Plans(about=about, of_query=found)


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row, and its place for error messages."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    return
                where = f"{path}, line {number}"
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise RecordingInvalid(f"{where} is not a line of a file of plans: {error}") from error
                yield where, row
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingInvalid(f"{path} cannot be read: {why_unreadable(error)}") from error


def _about(row: Mapping[str, Any]) -> PlansAbout:
    if row["type"] != "plans" or row["version"] != VERSION:
        told = f"type {row['type']!r} and version {row['version']!r}"
        raise RecordingInvalid(f"the file is not a file of plans of version {VERSION}: it has {told}")
    return PlansAbout(
        planner=row["planner"],
        workers=tuple(row["workers"]),
        is_told=row["is_told"],
        source=row["source"],
    )


def _plan(row: Mapping[str, Any], workers: tuple[str, ...]) -> RecordedPlan:
    steps, problem, day = row["steps"], row["problem"], row["asked_on"]
    if (steps is None) is (problem is None):
        raise ValueError("it must have either steps or a problem")
    return RecordedPlan(
        query=row["query"],
        plan=None if steps is None else _numbered(steps, workers),
        text=row["text"],
        problem=None if problem is None else (problem[0], problem[1]),
        calls=row["calls"],
        usage=Usage(**row["usage"]),
        cost=row["cost"],
        seconds=row["seconds"],
        asked_on=None if day is None else date.fromisoformat(day),
    )


def _named(plan: Plan, workers: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the steps as JSON, with names of workers."""
    return [step | {"worker": workers[step["worker"]]} for step in plan.to_json()["steps"]]


def _numbered(steps: list[dict[str, Any]], workers: tuple[str, ...]) -> Plan:
    named = [step | {"worker": workers.index(step["worker"])} for step in steps]
    return Plan.from_json({"schema": 1, "steps": named})


def _differs(old: PlansAbout, new: PlansAbout) -> str:
    """Return the difference of two descriptions; empty if the plans of both may be in one file."""
    if old.planner != new.planner:
        return f"of the planner {old.planner!r}, but this planner is {new.planner!r}"
    if old.workers != new.workers:
        return f"for the workers {', '.join(old.workers)}, but this pool has {', '.join(new.workers)}"
    if old.is_told != new.is_told:
        was, is_now = ("told", "not told") if old.is_told else ("not told", "told")
        return (
            f"of a planner that was {was} which plans have recorded answers, but this planner is "
            f"{is_now} (--trained)"
        )
    return ""


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
