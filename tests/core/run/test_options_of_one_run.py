"""Limits and the use of the cache for one run of a conductor."""

from pathlib import Path

import pytest
from core.actors import rows

from podium import Card, Conductor, Limits, Price, ScriptedWorker
from podium.errors import LimitExceeded
from podium.journal import MemoryCache, MemoryJournal, SqlJournal
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage

pytestmark = pytest.mark.anyio
LOW = Limits(cost=0.015, answer_tokens=100)
PLAN = rows((0, "Collect.", []), (0, "Answer.", [0]))


def priced(reply: str = "done") -> ScriptedWorker:
    card = Card(name="w", price=Price(input=0.0, output=100.0))
    return ScriptedWorker(card, lambda _: Completion(reply, usage=Usage(10, 100)))


async def test_the_limits_of_one_run_replace_those_of_the_conductor() -> None:
    conductor = Conductor(FixedPlanner(PLAN), [priced()])
    low = await conductor.run("Why?", limits=LOW)
    assert (low.status, low.problem and low.problem.code) == ("failed", "limit")
    assert (await conductor.run("Why?")).status == "ok"


async def test_the_limits_of_one_run_are_recorded_and_apply_to_a_resume(tmp_path: Path) -> None:
    journal = SqlJournal(tmp_path / "runs.db")
    conductor = Conductor(FixedPlanner(PLAN), [priced()], journal=journal)
    first = await conductor.run("Why?", limits=LOW)
    again = await conductor.resume(first.run_id)
    assert (again.status, again.cost) == ("failed", first.cost)
    assert (await conductor.resume(first.run_id, limits=Limits(cost=1.0, answer_tokens=100))).status == "ok"


@pytest.mark.parametrize("nested", [False, True])
async def test_a_run_can_leave_the_cache_alone(*, nested: bool) -> None:
    cache, calls = MemoryCache(), list[str]()

    def reply(_: object) -> str:
        calls.append("called")
        return "done"

    class Known(ScriptedWorker):
        identity = "w"

    worker = Known(Card(name="w"), reply)
    inner = Conductor(FixedPlanner(rows((0, "Answer.", []))), [worker], cache=cache)
    conductor = Conductor(FixedPlanner(rows((0, "Answer.", []))), [inner]) if nested else inner
    for _ in range(2):
        await conductor.run("Why?", uses_cache=False, journal=MemoryJournal())
    assert len(calls) == 2
    for _ in range(2):
        await conductor.run("Why?")
    assert len(calls) == 3


@pytest.mark.parametrize("nested", [False, True])
async def test_a_caller_allows_each_call(*, nested: bool) -> None:
    heard: list[float] = []

    async def allows(spent: float) -> None:
        heard.append(spent)
        if spent:
            raise LimitExceeded("cost", "that is enough")

    inner = Conductor(FixedPlanner(PLAN), [priced()])
    outer = Conductor(FixedPlanner(rows((0, "Answer.", []))), [inner]) if nested else inner
    result = await outer.run("Why?", allows=allows)
    assert (result.status, result.cost) == ("failed", 0.01)
    assert "that is enough" in str(result.problem)
    assert set(heard) == {0.0, 0.01}
