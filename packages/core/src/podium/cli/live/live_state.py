"""Computes the state of a run from its events, live or from its journal."""

from dataclasses import replace
from typing import assert_never

from podium.cli.live.live_rows import RoundRow, RunRow, StepRow
from podium.errors import PlanError
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
from podium.types.plan import Plan

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
