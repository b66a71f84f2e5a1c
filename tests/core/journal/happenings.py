"""Events of runs, as a conductor tells them."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from podium import Message, Plan, Result, Step
from podium.journal import Journal
from podium.types import (
    Event,
    Outcome,
    PlanReady,
    Problem,
    RoundStarted,
    RunEnded,
    RunStarted,
    RunStopped,
    StepEnded,
    StepStarted,
)
from podium.usage import Usage

PLAN = Plan((Step(0, "Find it."), Step(1, "Check it."), Step(0, "Say it.", (0, 1))))


def started(
    run_id: str = "", *, question: str = "What is it?", parent: tuple[str, int, int, int] | None = None
) -> RunStarted:
    """Return the first event of a run, by default of one with a new id."""
    query = (Message("user", question),)
    return RunStarted(run_id=run_id or uuid4().hex, at=0.0, workers=("a", "b"), query=query, parent=parent)


def step_ended(run_id: str, step: int, text: str = "Found.") -> StepEnded:
    """Return the end of a step that went well."""
    given: Any = {"worker": "a", "status": "ok", "text": text, "cost": 0.5, "attempts": 1}
    outcome = Outcome(round=1, step=step, usage=Usage(3, 4), **given)
    return StepEnded(run_id=run_id, at=0.2, round=1, step=step, attempt=1, outcome=outcome, key="k")


def ended(run_id: str) -> RunEnded:
    """Return the end of a run that went well."""
    return RunEnded.of(Result(run_id=run_id, answer="Found.", status="ok", seconds=0.3))


def stopped(run_id: str) -> RunStopped:
    """Return the end of a run that was cancelled."""
    return RunStopped(run_id=run_id, at=0.3, problem=Problem("cancelled", "it was cancelled"))


def course(run_id: str) -> Iterator[Event]:
    """Yield what happens in a run after its start, to its end."""
    yield RoundStarted(run_id=run_id, at=0.0, round=1)
    yield PlanReady(run_id=run_id, at=0.1, round=1, plan=PLAN, planner="user")
    for index, step in enumerate(PLAN.steps):
        yield StepStarted(
            run_id=run_id, at=0.1, round=1, step=index, attempt=1, worker="a", subtask=step.subtask
        )
        yield step_ended(run_id, index)
    yield ended(run_id)


async def record_run(journal: Journal, run_id: str, *events: Event, **first: Any) -> None:
    """Record a run that nobody holds: these events after its start, or all of them."""
    log = await journal.begin(started(run_id, **first), minted=False)
    for event in events or course(run_id):
        log.append(event)
    await log.aclose()
