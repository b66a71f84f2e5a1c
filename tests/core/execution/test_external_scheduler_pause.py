"""Steps that somebody else starts, who puts them off: the run rests, and goes on when it is resumed."""

from dataclasses import replace

import pytest

from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.execution import ExternalScheduler, Pause
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import Call, Event, Outcome, RunStopped, StepEnded
from podium.usage import Usage

pytestmark = pytest.mark.anyio
PLAN = Plan((Step(0, "first"), Step(0, "second", (0,))))


async def put_off(steps: ExternalScheduler) -> None:
    """Start nothing."""
    raise Pause


async def test_a_run_that_is_put_off_waits_and_has_ended_no_step() -> None:
    """Nothing of it is told as cancelled, stopped or failed."""
    worker = ScriptedWorker("a", "said")
    events: list[Event] = []
    result = await Conductor(FixedPlanner(PLAN), [worker]).run(
        "What?", step_starter=put_off, on_event=events.append
    )
    assert result.status == "waiting"
    assert result.problem is not None
    assert result.problem.code == "paused"
    assert result.rounds[0].plan == PLAN
    assert worker.requests == []
    assert not [event for event in events if isinstance(event, StepEnded | RunStopped)]


async def test_it_goes_on_when_it_is_resumed_and_plans_nothing_again() -> None:
    """By the same host or without one."""
    journal, worker = MemoryJournal(), ScriptedWorker("a", "said")
    conductor = Conductor(FixedPlanner(PLAN), [worker], journal=journal)
    put = await conductor.run("What?", step_starter=put_off)
    assert [row.state for row in await journal.runs()] == ["waiting"]
    result = await conductor.resume(put.run_id)
    assert (result.status, result.answer) == ("ok", "said")
    assert len(worker.requests) == 2
    assert len(result.proposals) == 1


async def test_put_off_half_way_it_keeps_what_had_ended() -> None:
    """What was paid is in the bill, once."""
    journal, worker = MemoryJournal(), ScriptedWorker("a", "said")
    conductor = Conductor(FixedPlanner(PLAN), [worker], journal=journal)

    async def half(steps: ExternalScheduler) -> None:
        await steps.run(0)
        raise Pause

    put = await conductor.run("What?", step_starter=half)
    assert put.status == "waiting"
    result = await conductor.resume(put.run_id)
    assert len(worker.requests) == 2
    assert result.usage == Usage.total(outcome.usage for outcome in result.outcomes)
    assert all(outcome.usage.output_tokens for outcome in result.outcomes)


async def test_what_a_host_kept_is_billed_though_its_step_was_once_stopped() -> None:
    """A step that was stopped before it could start has no bill that could stand for it."""
    journal, worker = MemoryJournal(), ScriptedWorker("a", "said")
    conductor = Conductor(FixedPlanner(PLAN), [worker], journal=journal)

    async def break_off(steps: ExternalScheduler) -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await conductor.run("What?", run_id="x", step_starter=break_off)
    kept = Outcome(
        round=1, step=0, worker="a", status="ok", text="kept", usage=Usage(7, 5), attempts=1, cost=0.0
    )

    async def go_on(steps: ExternalScheduler) -> None:
        await steps.run(1, {0: kept})

    result = await conductor.resume("x", step_starter=go_on)
    assert len(worker.requests) == 1
    assert result.outcomes[0].usage == Usage(7, 5)


async def test_a_stored_call_that_two_outcomes_have_is_billed_once() -> None:
    """A host charges a failed outcome, and then the next one, which has the call of the first as well."""
    first = Call(attempt=1, worker="a", usage=Usage(7, 5), cost=0.5)
    calls = (first, replace(first, attempt=2))

    async def again(steps: ExternalScheduler) -> None:
        for count in (1, 2):
            failed = Outcome(round=1, step=0, worker="a", status="failed", attempts=count)
            steps.charge(0, replace(failed, calls=calls[:count]))
        await steps.run(0)
        await steps.run(1)

    worker = ScriptedWorker("a", "said")
    result = await Conductor(FixedPlanner(PLAN), [worker], limits=Limits(calls=4)).run(
        "What?", step_starter=again
    )
    assert (result.status, [call.attempt for call in result.outcomes[0].calls]) == ("ok", [1, 2, 3])
    assert result.outcomes[0].cost == 1.0
