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
from podium.messages import Usage
from podium.outcome import Problem, StepStatus
from podium.result import Result


@dataclass(slots=True)
class StepRow:
    """One step as it stands."""

    worker: str
    subtask: str
    sees: tuple[int, ...] = ()
    status: StepStatus | Literal["waiting", "running"] = "waiting"
    since: float = 0.0
    """When it started, on the caller's clock, in seconds."""
    seconds: float = 0.0
    chars: int = 0
    """Characters written so far."""
    usage: Usage = Usage()
    problem: Problem | None = None
    runs: list["RunRow"] = field(default_factory=list)
    """The runs nested in it."""


@dataclass(slots=True)
class RoundRow:
    """One round as it stands."""

    number: int
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
    result: Result | None = None

    def round(self, number: int) -> RoundRow:
        """Return the row of a round, new if need be."""
        return self.rounds.setdefault(number, RoundRow(number))


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
                self.runs[event.run_id].answer += event.text
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
            run, number, step, _ = event.parent
            self.runs[run].round(number).steps[step].runs.append(row)

    def _round(self, event: RoundStarted | PlanDelta | PlanRejected | PlanReady) -> RoundRow:
        return self.runs[event.run_id].round(event.round)

    def _show_plan(self, event: PlanReady) -> None:
        current, names = self._round(event), self.runs[event.run_id].workers
        current.planner, current.plan_why, current.is_planned = event.planner, event.why, True
        known = current.steps
        current.steps = {}
        for index, step in enumerate(event.plan.steps):
            row = StepRow(names[step.worker], step.subtask, step.access)
            started = known.get(index)
            if started is not None and (started.worker, started.subtask) == (row.worker, row.subtask):
                row = replace(started, sees=step.access)
            current.steps[index] = row

    def _take_step(self, event: StepStarted | StepDelta | StepEnded, now: float) -> None:
        steps = self.runs[event.run_id].round(event.round).steps
        if isinstance(event, StepStarted):
            row = steps.setdefault(event.step, StepRow(event.worker, event.subtask))
            row.status, row.since, row.chars = "running", now, 0
        elif isinstance(event, StepDelta):
            steps[event.step].chars += len(event.text)
        elif event.outcome.problem is None or event.outcome.problem.code != "superseded":
            outcome = event.outcome
            row = steps.setdefault(event.step, StepRow(outcome.worker, ""))
            row.status, row.problem, row.usage = outcome.status, outcome.problem, outcome.usage
            row.seconds = outcome.seconds
