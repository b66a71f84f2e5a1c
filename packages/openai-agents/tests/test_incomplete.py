"""Users of the SDK notice an incomplete answer, whichever face they use."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from agents import Agent, Runner, SQLiteSession
from agents_speaking import ModelServer
from contracts.incomplete_contract import (
    OBJECT,
    QUESTION,
    Ask,
    Face,
    Seen,
    check_noticed,
    check_passed_on,
    check_refused,
    conductor_of,
)
from openai.types.responses import ResponseOutputMessage
from pydantic import BaseModel
from servers.capable import capable

from openai_agents_podium import ConductorModel
from openai_agents_podium.workers import as_worker
from podium import Conductor

pytestmark = pytest.mark.anyio


class Value(BaseModel):
    """An object."""

    value: int


def lead_of(conductor: Conductor, **options: Any) -> Agent[Any]:
    return Agent[Any](name="lead", model=ConductorModel(conductor), **options)


async def final_output_again(conductor: Conductor) -> Seen:
    session = SQLiteSession("one")
    await Runner.run(lead_of(conductor), QUESTION, session=session)
    result = await Runner.run(lead_of(conductor), QUESTION, session=session)
    return _seen(result.final_output, result.raw_responses[-1].output)


async def stream(conductor: Conductor) -> Seen:
    """Read the pieces of a stream, and the status of its response."""
    said, status = list[str](), ""
    result = Runner.run_streamed(lead_of(conductor), QUESTION)
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            said.append(event.data.delta)
        elif event.type == "raw_response_event" and event.data.type == "response.completed":
            status = str(event.data.response.status)
    assert result.final_output == "".join(said)
    return Seen("".join(said), status)


async def agent_as_tool(conductor: Conductor) -> Seen:
    asking = lead_of(conductor).as_tool("ask_team", "Asks.")
    async with ModelServer(capable) as server:
        result = await Runner.run(Agent[Any](name="desk", model=server.model(), tools=[asking]), QUESTION)
    return _returned(result)


def _returned(result: Any) -> Seen:
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    return Seen(outputs[0])


def _seen(text: str, items: Any) -> Seen:
    (item,) = items
    assert isinstance(item, ResponseOutputMessage)
    return Seen(text, item.status)


STATUS_FACES: Final = (final_output_again, stream)


@pytest.mark.parametrize("ask", STATUS_FACES, ids=lambda ask: ask.__name__)
async def test_a_user_of_a_model_notices(ask: Ask) -> None:
    """By the last sentence, and by the status of OpenAI's Responses."""
    await check_noticed(ask, Face(complete="completed", incomplete="incomplete"))


async def test_a_model_that_calls_a_tool_notices() -> None:
    await check_noticed(agent_as_tool)


async def output_type(conductor: Conductor) -> int:
    found: Value = (await Runner.run(lead_of(conductor, output_type=Value), QUESTION)).final_output
    return found.value


async def output_type_stream(conductor: Conductor) -> int:
    result = Runner.run_streamed(lead_of(conductor, output_type=Value), QUESTION)
    async for _ in result.stream_events():
        pass
    found: Value = result.final_output
    return found.value


@pytest.mark.parametrize("ask", [output_type, output_type_stream], ids=lambda ask: ask.__name__)
async def test_an_incomplete_object_is_an_error(ask: Callable[[Conductor], Awaitable[Any]]) -> None:
    await check_refused(ask, OBJECT)


async def test_a_tool_passes_it_on() -> None:
    await check_passed_on(as_worker(lead_of(conductor_of(is_complete=False)).as_tool("ask_team", "Asks.")))
