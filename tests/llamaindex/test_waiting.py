"""Query engines whose plan is looked at, whose run waits, or was broken off."""

import asyncio
from typing import Any

import anyio
import pytest
from llamaindex.speaking import Native

from llama_index_podium import ConductorQueryEngine
from podium import Plan, Step
from podium.errors import RunFailed
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.policy import Policy

pytestmark = pytest.mark.anyio


def planner() -> FixedPlanner:
    """Return who has one find and one write."""
    return FixedPlanner(write_plan(Plan((Step(0, "find"), Step(1, "write", (0,)))), "rows"))


async def test_a_plan_is_looked_at_before_it_runs() -> None:
    """By a function of the policy's; nobody is asked for a plan that it refuses."""
    said: list[str] = []

    async def speak(shown: str) -> str:
        said.append(shown)
        return "x"

    workers = [Native(speak, name="finder"), Native(speak, name="writer")]
    engine = ConductorQueryEngine.from_defaults(
        workers, planner(), policy=Policy(approve=lambda asked: len(asked.plan.steps) < 2)
    )
    with pytest.raises(RunFailed):
        await engine.aquery("?")
    assert said == []


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "broken off"])
async def test_a_query_goes_on_from_the_journal(*, waits: bool) -> None:
    """Once it is decided, or after a cancel: no step is paid for twice."""
    found, reached, hangs = list[str](), asyncio.Event(), [not waits]

    async def find(shown: str) -> str:
        found.append(shown)
        return "found"

    async def write(shown: str) -> str:
        if hangs[0]:
            reached.set()
            await anyio.sleep_forever()
        return f"of {'found' if 'found' in shown else 'nothing'}"

    journal = MemoryJournal()
    terms: dict[str, Any] = {"policy": Policy(approve="later")} if waits else {}
    engine = ConductorQueryEngine.from_defaults(
        [Native(find, name="finder"), Native(write, name="writer")], planner(), journal=journal, **terms
    )
    if waits:
        with pytest.raises(RunFailed, match="waits for approval") as raised:
            await engine.aquery("?")
        assert found == []
        await engine.conductor.decide(raised.value.result.run_id, approved=True)
    else:
        task = asyncio.create_task(engine.aquery("?"))
        with anyio.fail_after(20):
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        hangs[0] = False
    (run,) = await journal.runs()
    result = await engine.conductor.resume(run.run_id)
    assert (result.answer, len(found)) == ("of found", 1)
