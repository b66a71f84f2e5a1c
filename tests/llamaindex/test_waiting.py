"""Query engines whose plan is looked at, whose run waits, or was broken off."""

from collections.abc import Sequence
from typing import Any

import pytest
from contracts.conversation_contract import ConversationContract
from contracts.waiting_contract import QUESTION, Ask, check_continued, check_waiting
from llama_index.core.llms import ChatMessage

from llama_index_podium import ConductorLLM, ConductorQueryEngine, ConductorToolSpec
from podium import Conductor

pytestmark = pytest.mark.anyio


async def engine(conductor: Conductor) -> str:
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
    await check_waiting(_tool(), is_named=True)


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_tool_continues_what_broke_off(how: Any) -> None:
    await check_continued(_tool(), how)


class TestConductorLLM(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        said = [ChatMessage(text, role=("user", "assistant")[at % 2]) for at, text in enumerate(texts)]
        return (await ConductorLLM(used).achat(said)).message.content
