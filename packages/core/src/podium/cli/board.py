"""What is known of a run while it goes on, gathered from its events. Draws nothing."""

from dataclasses import dataclass, field, replace
from typing import Literal

from podium.events import (
    AnswerDelta,
    Event,
    PlanDelta,
    PlanReady,
    PlanRejected,
    RoundStarted,
    RunEnded,
    RunStarted,
    StepDelta,
    StepEnded,
    StepStarted,
)
from podium.outcome import Outcome, StepStatus
from podium.result import Result

TAIL_CHARS = 4000
"""Most that is kept of an answer while it is written."""


@dataclass(slots=True)
class StepRow:
    """One step as it stands."""

    worker: str
    subtask: str
    sees: tuple[int, ...] = ()
    call: int = 1
    """Number of the call it stands for; what earlier ones still say is not of this step."""
    since: float | None = None
    """When it started, on the caller's clock, in seconds; `None` before."""
    chars: int = 0
    """Characters written so far."""
    outcome: Outcome | None = None
    """How it ended; `None` before."""
    runs: list["RunRow"] = field(default_factory=list)
    """The runs nested in it."""

    @property
    def status(self) -> StepStatus | Literal["waiting", "running"]:
        """How it stands."""
        if self.outcome is not None:
            return self.outcome.status
        return "waiting" if self.since is None else "running"


@dataclass(slots=True)
class RoundRow:
    """One round as it stands."""

    why: str = ""
    planner: str = ""
    plan_why: str = ""
    plan_chars: int = 0
    is_planned: bool = False
    rejected: list[str] = field(default_factory=list)
    """What was wrong with plans that were not used."""
    steps: dict[int, StepRow] = field(default_factory=dict)


@dataclass(slots=True)
class RunRow:
    """One run as it stands."""

    workers: tuple[str, ...]
    rounds: dict[int, RoundRow] = field(default_factory=dict)
    answer: str = ""
    """The end of what is known of its answer."""
    result: Result | None = None

    def round(self, number: int) -> RoundRow:
        """Return the row of a round, new if need be."""
        return self.rounds.setdefault(number, RoundRow())


class Board:
    """The run a user started, with all that is nested in it."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}

    @property
    def root(self) -> RunRow | None:
        """The run the user started; `None` before it began."""
        return next(iter(self.runs.values()), None)

    def take(self, event: Event, now: float) -> None:
        """Take in what happened at `now`, on the caller's clock, in seconds."""
        match event:
            case RunStarted():
                self._start(event)
            case AnswerDelta():
                run = self.runs[event.run_id]
                run.answer = (run.answer + event.text)[-TAIL_CHARS:]
            case RunEnded():
                self.runs[event.run_id].result = event.result
            case RoundStarted():
                self._round(event).why = event.why
            case PlanDelta():
                self._round(event).planner = event.planner
                self._round(event).plan_chars += len(event.text)
            case PlanRejected():
                self._round(event).rejected.append(f"{event.planner}: {event.problem.message}")
                self._round(event).plan_chars = 0
            case PlanReady():
                self._show_plan(event)
            case StepStarted() | StepDelta() | StepEnded():
                self._take_step(event, now)

    def _start(self, event: RunStarted) -> None:
        row = self.runs[event.run_id] = RunRow(event.workers)
        if event.parent is not None:
            run, number, step, attempt = event.parent
            above = self.runs[run].round(number).steps.get(step)
            if above is not None and attempt >= above.call:
                above.runs.append(row)

    def _round(
        self, event: RoundStarted | PlanDelta | PlanRejected | PlanReady | StepStarted | StepDelta | StepEnded
    ) -> RoundRow:
        return self.runs[event.run_id].round(event.round)

    def _show_plan(self, event: PlanReady) -> None:
        current, names = self._round(event), self.runs[event.run_id].workers
        current.planner, current.plan_why, current.is_planned = event.planner, event.why, True
        known, go_on = current.steps, True
        current.steps = {}
        for index, step in enumerate(event.plan.steps):
            row = StepRow(names[step.worker], step.subtask, step.access)
            before = known.get(index)
            if before is not None:
                # Steps go on up to the first that differs. One that ended unstarted told no subtask.
                same = before.worker == row.worker and before.subtask in ("", row.subtask)
                go_on = go_on and same
                row.call = before.call + 1
            if before is not None and go_on:
                row = replace(before, subtask=step.subtask, sees=step.access)
            current.steps[index] = row

    def _take_step(self, event: StepStarted | StepDelta | StepEnded, now: float) -> None:
        current = self._round(event)
        row = current.steps.get(event.step)
        if row is not None and 0 < event.attempt < row.call:
            return
        if isinstance(event, StepStarted):
            sees = () if row is None else row.sees
            row = StepRow(event.worker, event.subtask, sees, call=event.attempt, since=now)
            current.steps[event.step] = row
        elif isinstance(event, StepEnded):
            _end(current, row, event)
        elif row is not None:
            row.chars += len(event.text)


def _end(current: RoundRow, row: StepRow | None, event: StepEnded) -> None:
    outcome = event.outcome
    if outcome.problem is None or outcome.problem.code != "superseded":
        if row is None:
            row = current.steps[event.step] = StepRow(outcome.worker, "")
        row.outcome = outcome
    elif row is not None and event.attempt and row.outcome is None:
        if current.is_planned:  # what the plan has in its place is yet to start
            current.steps[event.step] = StepRow(row.worker, row.subtask, row.sees, call=event.attempt + 1)
        else:
            row.outcome = outcome
