"""Checks a plan that waits, and a run that broke off, in a face of a host that returns answers only.

A host's test calls `check_waiting` and `check_continued` with a function that asks a conductor through the
face.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import anyio
import pytest

from podium import Card, Conductor, FunctionWorker, Plan, Retry, ScriptedWorker, Step
from podium.errors import RunFailed, RunWaiting
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy

ANSWER: Final = "Forty-two."
QUESTION: Final = "What is six times seven?"
Ask = Callable[[Conductor], Awaitable[object]]
"""Asks `QUESTION`, each time alike, and returns the answer."""


async def check_waiting(ask: Ask, *, is_named: bool = False) -> None:
    """Check that a plan that waits is no failure, and is found again.

    Args:
        ask: asks a conductor through the face.
        is_named: whether each call names the same run, thread or session.
    """
    worker = ScriptedWorker("one", ANSWER)
    async with MemoryJournal() as journal:
        planner, later = FixedPlanner(Plan((Step(0, "Say it."),))), Policy(approve="later")
        conductor = Conductor(planner, [worker], policy=later, journal=journal)
        waiting = [await _waiting(ask, conductor) for _ in range(3)]
        assert {row.run_id for row in await journal.runs()} == set(waiting)
        assert len(set(waiting)) == (1 if is_named else 3)
        assert ({row.state for row in await journal.runs()}, worker.requests) == ({"waiting"}, [])
        await conductor.decide(waiting[0], approved=True)
        if is_named:
            assert await ask(conductor) == ANSWER
        result = await conductor.resume(waiting[0])
        assert (result.status, result.answer, len(worker.requests)) == ("ok", ANSWER, 1)


async def _waiting(ask: Ask, conductor: Conductor) -> str:
    """Ask, and return the id of the run that waits."""
    with pytest.raises(RunWaiting) as raised:
        await ask(conductor)
    assert not isinstance(raised.value, RunFailed)
    assert (raised.value.code, raised.value.result.status) == ("waiting", "waiting")
    run_id: str = raised.value.result.run_id
    told = str(raised.value)
    assert all(text in told for text in (f"run {run_id}", f"`podium decide {run_id} approve`"))
    assert "`Conductor.decide`" in told
    return run_id


async def check_continued(ask: Ask, how: Literal["failed", "cancelled"]) -> None:
    """Check that the question, asked again, continues its run and does not repeat its action.

    Args:
        ask: asks a conductor through the face, each time in the same session.
        how: how the run ends at first.
    """
    refunds, writes, reached = list[str](), list[str](), asyncio.Event()

    def refund(step: Any) -> str:
        refunds.append(step.subtask)
        return "refunded"

    async def write(step: Any) -> str:
        writes.append(step.subtask)
        if len(writes) > 1:
            return ANSWER
        reached.set()
        if how == "cancelled":
            await anyio.sleep_forever()
        raise ValueError("no mail server")

    async with MemoryJournal() as journal:
        plan = Plan((Step(0, "Refund order 1017."), Step(1, "Write.", (0,))))
        workers = [FunctionWorker(refund, card=Card(name="refund"), acts=True), FunctionWorker(write)]
        conductor = Conductor(FixedPlanner(plan), workers, retry=Retry(attempts=1), journal=journal)
        task = asyncio.ensure_future(ask(conductor))
        with anyio.fail_after(20):
            await reached.wait()
            if how == "cancelled":
                task.cancel()
        with pytest.raises(RunFailed if how == "failed" else asyncio.CancelledError):
            await task
        assert (await ask(conductor), len(refunds), len(writes)) == (ANSWER, 1, 2)
        assert [row.state for row in await journal.runs()] == ["ok"]
