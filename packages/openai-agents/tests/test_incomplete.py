"""Users of the SDK notice an incomplete answer, whichever face they use."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession
from agents_speaking import ModelServer
from contracts import incomplete_contract as contract
from servers.capable import capable

from openai_agents_podium import ConductorModel, as_worker
from podium import Conductor

pytestmark = pytest.mark.anyio


def lead_of(conductor: Conductor, **options: Any) -> Agent[Any]:
    return Agent[Any](name="lead", model=ConductorModel(conductor), **options)


async def final_output_again(conductor: Conductor) -> contract.Seen:
    session = SQLiteSession("one")
    await Runner.run(lead_of(conductor), contract.QUESTION, session=session)
    result = await Runner.run(lead_of(conductor), contract.QUESTION, session=session)
    (item,) = result.raw_responses[-1].output
    return contract.Seen(result.final_output, item.status)


async def stream(conductor: Conductor) -> contract.Seen:
    """Read the pieces of a stream, and the status of its response."""
    result = Runner.run_streamed(lead_of(conductor), contract.QUESTION)
    raw = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
    said = "".join(data.delta for data in raw if data.type == "response.output_text.delta")
    (status,) = [str(data.response.status) for data in raw if data.type == "response.completed"]
    assert result.final_output == said
    return contract.Seen(said, status)


async def agent_as_tool(conductor: Conductor) -> contract.Seen:
    asking = lead_of(conductor).as_tool("ask_team", "Asks.")
    async with ModelServer(capable) as server:
        result = await Runner.run(
            Agent[Any](name="desk", model=server.model(), tools=[asking]), contract.QUESTION
        )
    return contract.Seen(
        next(item.output for item in result.new_items if item.type == "tool_call_output_item")
    )


@pytest.mark.parametrize("ask", [final_output_again, stream])
async def test_a_user_of_a_model_notices(ask: contract.Ask) -> None:
    """By the last sentence, and by the status of OpenAI's Responses."""
    await contract.check_noticed(ask, contract.Face(complete="completed", incomplete="incomplete"))


async def test_a_model_that_calls_a_tool_notices() -> None:
    await contract.check_noticed(agent_as_tool)


async def output_type(conductor: Conductor) -> int:
    return (
        await Runner.run(lead_of(conductor, output_type=contract.Value), contract.QUESTION)
    ).final_output.value


async def output_type_stream(conductor: Conductor) -> int:
    result = Runner.run_streamed(lead_of(conductor, output_type=contract.Value), contract.QUESTION)
    async for _ in result.stream_events():
        pass
    return result.final_output.value


@pytest.mark.parametrize("ask", [output_type, output_type_stream])
async def test_an_incomplete_object_is_an_error(ask: Callable[[Conductor], Awaitable[Any]]) -> None:
    await contract.check_refused(ask, contract.OBJECT)


async def test_a_tool_passes_it_on() -> None:
    await contract.check_passed_on(
        as_worker(lead_of(contract.conductor_of(is_complete=False)).as_tool("ask_team", "Asks."))
    )
