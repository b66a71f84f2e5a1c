"""Checks a plan that waits, in a face of a host that returns answers only.

A host's test calls `check_waiting` with a function that asks a conductor through the face.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from podium import Conductor, ScriptedWorker
from podium.errors import RunFailed, RunWaiting
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Plan, Step

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
        conductor = Conductor(
            FixedPlanner(Plan((Step(0, "Say it."),))),
            [worker],
            policy=Policy(approve="later"),
            journal=journal,
        )
        waiting = [await _waiting(ask, conductor) for _ in range(3)]
        assert {row.run_id for row in await journal.runs()} == set(waiting)
        assert len(set(waiting)) == (1 if is_named else 3)
        assert {row.state for row in await journal.runs()} == {"waiting"}
        assert not worker.requests
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
    assert raised.value.code == "waiting"
    assert raised.value.result.status == "waiting"
    run_id: str = raised.value.result.run_id
    told = str(raised.value)
    assert f"run {run_id}" in told
    assert f"`podium decide {run_id} approve`" in told
    assert "`Conductor.decide`" in told
    return run_id
