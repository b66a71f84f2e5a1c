"""The state of a run for the live view, from its events."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Literal, NamedTuple, assert_never

from podium.config.source import in_toml
from podium.errors import PlanError
from podium.hosted import HostedConductor
from podium.plan_text import PlanReader
from podium.run.no_plan import for_people
from podium.types.events import (
    ActionDecided,
    AnswerDelta,
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    NestedRunEnded,
    PlanDelta,
    PlannerEnded,
    PlannerStarted,
    PlanReady,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
    StepDelta,
    StepEnded,
    StepStarted,
    WorkerRunEnded,
)
from podium.types.messages import Query
from podium.types.outcome import ACTION_ENDS, Call, Outcome, Problem, StepStatus
from podium.types.plan import Plan
from podium.types.result import Result


@dataclass(slots=True)
class StepRow:
    """The state of one step."""

    worker: str
    """Empty while the planner writes the plan and the step has not started."""
    subtask: str
    number: str = ""
    """Its index in the plan, with the planner's own number; empty until the plan is complete."""
    sees: tuple[int | str, ...] = ()
    acts: bool = False
    """Whether it is an action."""
    first: int = 1
    """The number of its first call; earlier calls belong to the step that it replaced."""
    last: int = 0
    """The number of its latest call; 0 before the first call."""
    since: float | None = None
    """When it started, on the caller's clock, in seconds; `None` before the start."""
    chars: int = 0
    """Characters that the latest call has written so far."""
    failed: list[Call] = field(default_factory=list)
    """Failed calls that did not end the step."""
    again: float | None = None
    """When the step is retried, on the caller's clock; `None` if no retry is scheduled."""
    outcome: Outcome | None = None
    """The outcome; `None` before the end."""
    runs: list["RunRow"] = field(default_factory=list)
    """The runs nested in it."""

    @property
    def status(self) -> StepStatus | Literal["waiting", "running"]:
        """The outcome's status, or `waiting` or `running` before the end."""
        if self.outcome is not None:
            return self.outcome.status
        return "waiting" if self.since is None else "running"


@dataclass(slots=True)
class RoundRow:
    """The state of one round."""

    why: str = ""
    planner: str = ""
    is_fallback: bool = False
    """Whether the fallback planner wrote the plan."""
    plan_why: str = ""
    plan_chars: int = 0
    reader: PlanReader | None = None
    """Parses the plan while the planner writes it; `None` before the first piece and after an error."""
    read: int = 0
    """Number of steps that `reader` has returned."""
    is_planned: bool = False
    rejected: list[str] = field(default_factory=list)
    """The problems of planner calls that returned no plan."""
    approval: str = ""
    """The decision on the plan, or that the plan waits for it; empty if no approval is needed."""
    steps: dict[int, StepRow] = field(default_factory=dict)


@dataclass(slots=True)
class RunRow:
    """The state of one run."""

    workers: tuple[str, ...]
    began: float = 0.0
    """When it started or was resumed, on the caller's clock, in seconds."""
    rounds: dict[int, RoundRow] = field(default_factory=dict)
    answer: str = ""
    """The last characters of the answer so far."""
    answering: tuple[int | None, int | None, int | None] | None = None
    """Round, step and attempt that write the answer; `None` before its first piece."""
    result: Result | None = None
    stopped: Problem | None = None
    """Why the run was interrupted; `None` if it was not."""

    def round(self, number: int) -> RoundRow:
        """Return the row of a round; add it if it is missing."""
        return self.rounds.setdefault(number, RoundRow())


TAIL_CHARS = 4000
"""Characters that are kept of an answer while a worker writes it."""

_OfStep = StepStarted | StepDelta | AttemptFailed | StepEnded
_OfRound = RoundStarted | PlanDelta | PlannerEnded | PlanReady | ApprovalAsked | ApprovalGiven


class LiveState:
    """The state of a run and of all runs nested in it."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}

    @property
    def root(self) -> RunRow | None:
        """The run that the user started; `None` before its first event."""
        return next(iter(self.runs.values()), None)

    def take(self, event: Event, now: float) -> None:
        """Update the state with an event.

        Args:
            event: the event.
            now: the event's time on the caller's clock, in seconds.
        """
        match event:
            case RunStarted():
                self._start(event, now)
            case RunResumed():
                self._resume(event, now)
            case AnswerDelta():
                run = self.runs[event.run_id]
                attempt = (event.round, event.step, event.attempt)
                before = (
                    run.answer if run.answering == attempt else ""
                )  # another attempt starts the answer again
                run.answer, run.answering = (before + event.text)[-TAIL_CHARS:], attempt
            case RunEnded():  # the only event, if a finished run is run again
                self.runs.setdefault(event.run_id, RunRow(event.result.workers)).result = event.result
            case RunStopped():
                self.runs[event.run_id].stopped = event.problem
            case StepStarted() | StepDelta() | AttemptFailed() | StepEnded():
                self._take_step(event, now)
            case (
                RoundStarted()
                | PlanDelta()
                | PlannerEnded()
                | PlanReady()
                | ApprovalAsked()
                | ApprovalGiven()
            ):
                self._take_round(event)
            case PlannerStarted() | NestedRunEnded() | WorkerRunEnded() | ActionDecided():
                pass
            case _:
                assert_never(event)

    def _start(self, event: RunStarted, now: float) -> None:
        row = self.runs[event.run_id] = RunRow(event.workers, now)
        if event.parent is not None:
            run, number, step, attempt = event.parent
            above = self.runs[run].round(number).steps.get(step) if run in self.runs else None
            if above is not None and attempt >= above.first:
                above.runs.append(row)

    def _resume(self, event: RunResumed, now: float) -> None:
        """Reset the steps that did not end with status `ok`: the resumed run calls them again."""
        row = self.runs.setdefault(event.run_id, RunRow(event.workers))
        row.workers, row.began, row.result, row.stopped = event.workers, now, None, None
        for current in row.rounds.values():
            for step in current.steps.values():
                if step.outcome is None or step.outcome.status != "ok":
                    step.outcome = step.since = step.again = None

    def _take_round(self, event: _OfRound) -> None:
        current = self.runs[event.run_id].round(event.round)
        match event:
            case RoundStarted():
                current.why = event.why
            case PlanDelta():
                current.planner = event.planner
                current.plan_chars += len(event.text)
                self._read_on(event, current)
            case PlannerEnded():
                if event.proposal.problem is not None:
                    then = "" if event.wait is None else f"; retry in {event.wait:.1f} s"
                    said = f"planner {event.proposal.planner}: {for_people(event.proposal.problem)}{then}"
                    current.rejected.append(said)
                    current.plan_chars, current.reader = 0, None
                    _drop_unstarted(current)
            case PlanReady():
                current.planner, current.plan_why = event.planner, event.why
                current.is_fallback = event.is_fallback
                self._show_plan(event.run_id, current, event.plan)
                for index in event.actions:
                    current.steps[index].acts = True
            case ApprovalAsked():
                current.approval = "waits for approval" if event.step is None else f"step {event.step} waits"
            case ApprovalGiven():
                current.approval = _decision(event)
                if event.plan is not None:
                    self._show_plan(event.run_id, current, event.plan)
            case _:
                assert_never(event)

    def _read_on(self, event: PlanDelta, current: RoundRow) -> None:
        """Add the steps that a piece of the plan text completes; `StepStarted` tells their workers."""
        if current.reader is None:
            if current.plan_chars > len(event.text):
                return  # an earlier piece could not be parsed
            names = self.runs[event.run_id].workers
            current.reader = PlanReader(workers=names, previous=event.round > 1)
            current.read = 0
        try:
            steps = current.reader.feed(event.text)
        except PlanError:  # `PlannerEnded` reports it
            current.reader = None
            return
        for index, step in enumerate(steps, current.read):
            current.steps.setdefault(index, StepRow("", step.subtask, sees=tuple(step.access_list)))
        current.read += len(steps)

    def _show_plan(self, run_id: str, current: RoundRow, plan: Plan) -> None:
        names = self.runs[run_id].workers
        current.is_planned, current.reader = True, None
        _drop_unstarted(current)
        known, go_on = current.steps, True
        current.steps = {}
        for index, step in enumerate(plan.steps):
            row = StepRow(names[step.worker], step.subtask, plan.numbered(index), tuple(step.access_list))
            before = known.get(index)
            if before is not None:
                # Steps before the first difference keep their state. The subtask of a step that ended
                # without starting is empty; after a failed call the worker may be a fallback.
                same_worker = before.worker == row.worker or bool(before.failed)
                go_on = go_on and same_worker and before.subtask in ("", row.subtask)
                row.first = max(before.first, before.last) + 1
            if before is not None and go_on:
                row = replace(before, subtask=step.subtask, number=row.number, sees=row.sees)
            current.steps[index] = row

    def _take_step(self, event: _OfStep, now: float) -> None:
        current = self.runs[event.run_id].round(event.round)
        row = current.steps.get(event.step)
        if row is not None and 0 < event.attempt < row.first:
            return
        match event:
            case StepStarted():
                _call(current, row, event, now)
            case StepEnded():
                _end(current, row, event)
            case AttemptFailed() if row is not None:
                row.failed.append(event.call)
                row.again = None if event.wait is None else now + event.wait
            case StepDelta() if row is not None:
                row.chars += len(event.text)


def _drop_unstarted(current: RoundRow) -> None:
    """Remove the steps that have not started."""
    current.steps = {index: step for index, step in current.steps.items() if step.worker}


def _call(current: RoundRow, row: StepRow | None, event: StepStarted, now: float) -> None:
    goes_on = row is not None and row.outcome is None and row.subtask == event.subtask
    if row is None or not (goes_on and (row.last or row.failed)):
        number, sees = ("", ()) if row is None else (row.number, row.sees)
        row = StepRow(event.worker, event.subtask, number, sees, first=event.attempt)
        current.steps[event.step] = row
    if row.since is None:
        row.since, row.first = now, event.attempt - len(row.failed)
    row.worker, row.last, row.chars, row.again = event.worker, event.attempt, 0, None


def _end(current: RoundRow, row: StepRow | None, event: StepEnded) -> None:
    outcome = event.outcome
    if outcome.problem is None or outcome.problem.code != "superseded":
        if row is None:
            row = current.steps[event.step] = StepRow(outcome.worker, "")
        row.worker, row.outcome, row.again = outcome.worker, outcome, None
    elif row is None or not event.attempt or row.outcome is not None:
        return
    elif row.last > event.attempt:  # the new step of the plan has started
        row.first = row.last
    elif current.is_planned:  # the new step of the plan has not started
        first = event.attempt + 1
        current.steps[event.step] = StepRow(row.worker, row.subtask, row.number, row.sees, first=first)
    else:
        row.outcome = outcome


def _decision(event: ApprovalGiven) -> str:
    said = "approved" if event.approved else "refused"
    if event.plan is not None:
        said += " with changes"
    by = f" by {event.by}" if event.by else ""
    return f"{said}{by}" + (f": {event.why}" if event.why else "")


class Note(NamedTuple):
    """One line below the table."""

    text: str
    style: str


def run_notes(state: LiveState, shown: Callable[[str], str]) -> list[Note]:
    """Return the notes on a run and on its nested runs, each on one line.

    Args:
        state: the state of the run.
        shown: makes foreign text safe for a terminal.
    """
    found = () if state.root is None else _of_run(state.root, "")
    return [Note(" ".join(in_toml(shown(note.text)).split()), note.style) for note in found]


def _of_run(run: RunRow, above: str) -> Iterator[Note]:
    for number, current in run.rounds.items():
        place = f"{above}round {number}, " if len(run.rounds) > 1 else above
        yield from _of_round(current, place)
    if run.stopped is not None:
        yield Note(f"{above}stopped: {run.stopped.message}", "yellow")


def _of_round(current: RoundRow, place: str) -> Iterator[Note]:
    if current.why:
        yield Note(f"{place}because {current.why}", "dim")
    if current.is_planned and current.plan_why:
        yield Note(f"{place}plan: {current.plan_why}", "dim")
    for reason in current.rejected:
        yield Note(f"{place}{reason}", "yellow")
    skipped: dict[str, list[int]] = {}
    for index, step in sorted(current.steps.items()):
        yield from _of_step(step, f"{place}step {index}")
        for nested in step.runs:
            yield from _of_run(nested, f"{place}step {index}, ")
        if step.status == "skipped":
            skipped.setdefault(_cause(current, index), []).append(index)
    for cause, indexes in skipped.items():
        steps = f"step{'' if len(indexes) == 1 else 's'} {', '.join(map(str, indexes))}"
        yield Note(f"{place}{steps} skipped: {cause}", "yellow")


def _of_step(step: StepRow, name: str) -> Iterator[Note]:
    if step.outcome is not None and step.outcome.action is not None:
        end = ACTION_ENDS[step.outcome.action]
        yield Note(f"{name} is an action (!): {end}", "dim" if step.outcome.action == "done" else "yellow")
    for call in step.failed:
        told = "" if call.problem is None else call.problem.message
        paid = ", perhaps paid" if call.maybe_paid else ""
        yield Note(f"{name}, call {call.attempt} of {call.worker}: {told}{paid}", "yellow")
    problem = None if step.outcome is None else step.outcome.problem
    if problem is not None and step.status != "skipped":
        how = "" if step.status == "ok" else f" {step.status}"
        yield Note(f"{name}{how}: {problem.message}", "red" if step.status == "failed" else "yellow")


def _cause(current: RoundRow, skipped: int) -> str:
    """Return the failed steps because of which a step was skipped, or the step's own problem."""
    roots, todo, seen = set[int](), [skipped], set[int]()
    while todo:
        index = todo.pop()
        if index in seen or index not in current.steps:
            continue
        seen.add(index)
        step = current.steps[index]
        if step.status in ("failed", "cancelled"):
            roots.add(index)
        elif step.status == "skipped":
            todo += [each for each in step.sees if isinstance(each, int)]
    outcome = current.steps[skipped].outcome
    problem = None if outcome is None else outcome.problem
    if problem is not None and (problem.code != "dependency" or not roots):
        return problem.message
    return "; ".join(f"step {index} {_failure(current.steps[index])}" for index in sorted(roots))


def _failure(step: StepRow) -> str:
    how = "was cancelled" if step.status == "cancelled" else "failed"
    problem = None if step.outcome is None else step.outcome.problem
    return how if problem is None else f"{how}: {problem.message}"


Job = Callable[[Callable[[Event], None]], Awaitable[Result]]
"""Runs a query and reports its events to the given function."""


async def follow(job: Job, state: LiveState) -> Result:
    """Run the job, and update `state` with each event.

    Raises:
        PodiumError: see `Conductor.run`.
    """
    return await job(lambda event: state.take(event, monotonic()))


def hosted_job(conductor: HostedConductor, query: Query) -> Job:
    """Return a job that runs a query with a hosted conductor."""

    async def job(listen: Callable[[Event], None]) -> Result:
        result = None
        async with aclosing(conductor.stream(query)) as events:
            async for event in events:
                listen(event)
                result = event.result if isinstance(event, RunEnded) else None
        assert result is not None  # the last event carries the result
        return result

    return job
