"""The state of a run for the live view, from its events."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal, NamedTuple

from podium.config.source import in_toml
from podium.errors import PlanError
from podium.plan_text import PlanReader
from podium.run_state.state import CallState, RoundState, RunState, StepState
from podium.types.events import (
    AnswerDelta,
    ApprovalAsked,
    ApprovalGiven,
    Event,
    PlanDelta,
    PlannerEnded,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
)
from podium.types.outcome import ACTION_ENDS, Call, Outcome, Problem, StepStatus, for_people
from podium.types.plan import Step
from podium.types.result import Result


@dataclass(slots=True)
class StepRow:
    """The state of one step, on the caller's clock in seconds."""

    worker: str
    """Empty while the planner writes the plan and the step has not started."""
    subtask: str
    number: str
    """Its index in the plan, with the planner's own number; empty until the plan is complete."""
    sees: tuple[int | str, ...]
    acts: bool
    """Whether it is an action."""
    status: StepStatus | Literal["waiting", "running"]
    outcome: Outcome | None
    """The outcome; `None` while it runs or waits."""
    since: float | None
    """When it started; `None` while it does not run."""
    again: float | None
    """When it is retried; `None` if no retry is scheduled."""
    is_begun: bool
    """Whether its worker was called."""
    failed: list[Call]
    """Failed calls that did not end the step."""
    runs: list["RunRow"]
    """The runs nested in it."""


@dataclass(slots=True)
class RoundRow:
    """The state of one round."""

    state: RoundState
    plan_chars: int
    steps: dict[int, StepRow]

    @property
    def is_planned(self) -> bool:
        """Whether the plan is complete."""
        return self.state.ready is not None

    @property
    def is_fallback(self) -> bool:
        """Whether the fallback planner wrote the plan."""
        return self.state.ready is not None and self.state.ready.is_fallback

    @property
    def rejected(self) -> Iterator[str]:
        """The problems of planner calls that returned no plan."""
        for event in self.state.planned:
            if (problem := event.proposal.problem) is not None:
                then = "" if event.wait is None else f"; retry in {event.wait:.1f} s"
                yield f"planner {event.proposal.planner}: {for_people(problem)}{then}"

    @property
    def approval(self) -> str:
        """The decision on the plan, or that the plan waits for it; empty if no approval is needed."""
        event = self.state.approval
        if isinstance(event, ApprovalAsked):
            return "waits for approval" if event.step is None else f"step {event.step} waits"
        return "" if event is None else _decision(event)


@dataclass(slots=True)
class _Draft:
    """A plan that is being written."""

    chars: int = 0
    reader: PlanReader | None = None
    """Parses the text; `None` after an error."""
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class RunRow:
    """The state of one run."""

    board: "LiveState"
    state: RunState = field(default_factory=RunState)
    began: float = 0.0
    """When it started, on the caller's clock, without interruptions."""
    answer: str = ""
    """The last characters of the answer so far."""
    answering: tuple[int | None, int | None, int | None] | None = None
    """Round, step and attempt that write the answer; `None` before its first piece."""
    drafts: dict[int, _Draft] = field(default_factory=dict)

    @property
    def result(self) -> Result | None:
        """The result; `None` before the end."""
        return self.state.end.result if isinstance(self.state.end, RunEnded) else None

    @property
    def stopped(self) -> Problem | None:
        """Why the run was interrupted; `None` if it was not."""
        return self.state.end.problem if isinstance(self.state.end, RunStopped) else None

    @property
    def rounds(self) -> dict[int, RoundRow]:
        """The rounds, by number."""
        return {number: self._round(current) for number, current in self.state.rounds.items()}

    def write(self, event: PlanDelta) -> None:
        """Add a piece of plan text, and the steps that it completes; `StepStarted` tells their workers."""
        draft = self.drafts.get(event.round)
        if draft is None:
            reader = PlanReader(workers=self.state.workers, previous=event.round > 1)
            draft = self.drafts[event.round] = _Draft(reader=reader)
        draft.chars += len(event.text)
        try:
            draft.steps += () if draft.reader is None else draft.reader.feed(event.text)
        except PlanError:  # `PlannerEnded` reports it
            draft.reader = None

    def _round(self, current: RoundState) -> RoundRow:
        draft = self.drafts.get(current.number) or _Draft()
        rows = {index: self._step(current, index, None, step) for index, step in enumerate(draft.steps)}
        plan = None if current.ready is None else current.ready.plan
        plan = (current.decision and current.decision.plan) or plan
        if plan is not None:
            names = self.state.names
            rows = {
                index: self._step(current, index, names[step.worker], step, plan.numbered(index))
                for index, step in enumerate(plan.steps)
            }
        for index, state in current.steps.items():
            if index not in rows and state.status != "waiting":
                rows[index] = self._step(current, index)
        return RoundRow(current, draft.chars, rows)

    def _step(
        self,
        current: RoundState,
        index: int,
        planned: str | None = None,
        step: Step | None = None,
        number: str = "",
    ) -> StepRow:
        state = current.steps.get(index) or StepState()
        # The others are of a step that this one replaces.
        calls = [call for call in state.calls if call.ended is None or call.ended is state.outcome]
        last, outcome = (calls[-1] if calls else None), None if state.since is not None else state.outcome
        worker = planned or "" if last is None else last.start.worker
        subtask = "" if last is None else last.start.subtask
        return StepRow(
            worker=worker if outcome is None else outcome.worker,
            subtask=subtask if step is None else step.subtask,
            number=number,
            sees=() if step is None else tuple(step.access_list),
            acts=current.ready is not None and index in current.ready.actions,
            status=state.status,
            outcome=outcome,
            since=None if state.since is None else self.began + state.since,
            again=None if last is None or state.since is None else self._again(last),
            is_begun=bool(calls),
            failed=[call.failed.call for call in calls if call.failed is not None],
            runs=self.board.nested_in(self.state.run_id, current.number, index, calls),
        )

    def _again(self, last: CallState) -> float | None:
        failed = last.failed
        return None if failed is None or failed.wait is None else self.began + failed.at + failed.wait


TAIL_CHARS = 4000
"""Characters that are kept of an answer while a worker writes it."""


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
        run = self.runs.setdefault(event.run_id, RunRow(self))
        run.state.take(event)
        if isinstance(event, RunStarted | RunResumed):
            run.began = now - event.at
        elif isinstance(event, PlanDelta):
            run.write(event)
        elif isinstance(event, PlannerEnded) and event.proposal.problem is not None:
            run.drafts.pop(event.round, None)
        elif isinstance(event, AnswerDelta):
            attempt = (event.round, event.step, event.attempt)
            before = run.answer if run.answering == attempt else ""  # another attempt starts it again
            run.answer, run.answering = (before + event.text)[-TAIL_CHARS:], attempt

    def nested_in(self, run_id: str, number: int, step: int, calls: list[CallState]) -> list[RunRow]:
        """Return the runs nested in these calls of a step."""
        parents = {(run_id, number, step, call.start.attempt) for call in calls}
        return [run for run in self.runs.values() if run.state.parent in parents]


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
    if why := current.state.reason:
        yield Note(f"{place}because {why}", "dim")
    if (ready := current.state.ready) is not None and ready.why:
        yield Note(f"{place}plan: {ready.why}", "dim")
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
