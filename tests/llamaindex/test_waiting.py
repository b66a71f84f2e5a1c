"""Query engines whose plan is looked at, whose run waits, or was broken off."""

import asyncio
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from contracts.conversation_contract import ConversationContract
from contracts.waiting_contract import QUESTION, Ask, check_continued, check_waiting
from llama_index.core.llms import ChatMessage
from llamaindex.speaking import Native

from llama_index_podium import ConductorLLM, ConductorQueryEngine, ConductorToolSpec
from podium import Conductor, Plan, Step
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio


def _planner() -> FixedPlanner:
    return FixedPlanner(write_plan(Plan((Step(0, "find"), Step(1, "write", (0,)))), "rows"))


async def engine(conductor: Conductor) -> str:
    """Ask a query engine."""
    return str(await ConductorQueryEngine(conductor).aquery(QUESTION))


async def _named_engine(conductor: Conductor) -> str:
    return str(await ConductorQueryEngine(conductor, run_id="monday").aquery(QUESTION))


async def _streaming_engine(conductor: Conductor) -> str:
    response: Any = await ConductorQueryEngine(conductor, streaming=True).aquery(QUESTION)
    return "".join([text async for text in response.async_response_gen()])


async def _llm(conductor: Conductor) -> str:
    return str((await ConductorLLM(conductor).achat([ChatMessage(QUESTION)])).message.content)


@pytest.mark.parametrize("ask", [engine, _named_engine, _streaming_engine, _llm])
async def test_a_plan_may_wait_and_go_on_later(ask: Ask) -> None:
    """The face cannot wait: its error has the run, which the conductor decides and goes on with."""
    await check_waiting(ask, is_named=ask is _named_engine)


def _tool() -> Ask:
    made: list[ConductorToolSpec] = []

    async def ask(conductor: Conductor) -> str:
        made[:] = made or [ConductorToolSpec(conductor)]
        return str(await made[0].aask_team(QUESTION))

    return ask


async def test_a_tool_finds_the_run_that_waits() -> None:
    """A model that asks again starts no other run."""
    await check_waiting(_tool(), is_named=True)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_tool_continues_what_broke_off(how: Any) -> None:
    """What was done is not done again."""
    await check_continued(_tool(), how)


async def test_a_query_goes_on_from_the_journal() -> None:
    """After a cancel: no step is paid for twice."""
    found, reached, hangs = list[str](), asyncio.Event(), [True]

    async def find(shown: str) -> str:
        found.append(shown)
        return "found"

    async def write(shown: str) -> str:
        if hangs[0]:
            reached.set()
            await anyio.sleep_forever()
        return f"of {'found' if 'found' in shown else 'nothing'}"

    journal = MemoryJournal()
    engine = ConductorQueryEngine(
        workers=[Native(find, name="finder"), Native(write, name="writer")],
        planner=_planner(),
        journal=journal,
    )
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


class TestConductorLLM(ConversationContract):
    """Its messages have no metadata."""

    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        """Return the answer."""
        said = [ChatMessage(text, role=("user", "assistant")[at % 2]) for at, text in enumerate(texts)]
        return (await ConductorLLM(used).achat(said)).message.content
