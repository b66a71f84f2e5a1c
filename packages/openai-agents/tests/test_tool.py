"""A conductor as a tool of an agent."""

from typing import Any

import pytest
from agents import Agent, Runner
from agents_speaking import CALL_TOKENS, READ, WRITTEN, ModelServer, SpeakingModel, speaker
from contracts.adapter_contract import failing, planner_of, saying
from servers.capable import capable

from openai_agents_podium import ConductorModel, conductor_tool
from openai_agents_podium.workers import as_worker
from podium import Conductor
from podium.errors import RunFailed
from podium.execution import Retry

pytestmark = pytest.mark.anyio

ONE = planner_of((0, "Say it.", ()))


def desk(server: ModelServer, tool: Any) -> Agent[Any]:
    """Return an agent that calls its tool once."""
    return Agent[Any](name="desk", model=server.model(), tools=[tool])


async def test_an_agent_asks_a_conductor() -> None:
    """The tokens of the run are in the usage of the agent's."""
    team = SpeakingModel(saying("sixty"))
    conductor = Conductor(ONE, [as_worker(Agent[Any](name="team", model=team))])
    async with ModelServer(capable) as server:
        tool = conductor_tool(conductor, name="ask", description="Knows all.")
        result = await Runner.run(desk(server, tool), "How many 'roads'?")
        assert server.calls[0].body["tools"][0]["function"]["description"] == "Knows all."
    assert result.final_output == "The tools say sixty."
    assert "roads" in team.asked[0]
    assert result.context_wrapper.usage.total_tokens == 2 * CALL_TOKENS + READ + WRITTEN
    assert result.context_wrapper.usage.requests == 3


async def test_what_an_answer_lacks_is_told() -> None:
    """To the model that asked."""
    workers = [speaker("bad", failing), speaker("good", saying("fine"))]
    plan = planner_of((0, "a", ()), (1, "b", ()), (1, "c", (0, 1)))
    model = ConductorModel(workers=workers, planner=plan, retry=Retry(attempts=1))
    async with ModelServer(capable) as server:
        result = await Runner.run(desk(server, conductor_tool(model)), "?")
    assert "fine" in result.final_output
    assert "(Not complete: " in result.final_output


async def test_without_an_answer_the_run_ends_or_the_model_is_told() -> None:
    """As the tool was made."""
    model = ConductorModel(workers=[speaker("bad", failing)], planner=ONE, retry=Retry(attempts=1))
    async with ModelServer(capable) as server:
        with pytest.raises(Exception, match="out of order") as caught:
            await Runner.run(desk(server, conductor_tool(model)), "?")
        assert isinstance(caught.value.__cause__, RunFailed)
        tool = conductor_tool(model, failure_error_function=lambda _, error: f"sorry, {type(error).__name__}")
        result = await Runner.run(desk(server, tool), "?")
    assert result.final_output == "The tools say sorry, RunFailed."


async def test_the_tokens_of_a_run_that_failed_are_in_the_usage_of_the_agents() -> None:
    """Where the agent's model is told of the failure."""
    plan = planner_of((0, "a", ()), (1, "b", (0,)))
    workers = [speaker("good", saying("fine")), speaker("bad", failing)]
    model = ConductorModel(workers=workers, planner=plan, retry=Retry(attempts=1), partial="raise")
    tool = conductor_tool(model, failure_error_function=lambda _, error: f"sorry, {type(error).__name__}")
    async with ModelServer(capable) as server:
        result = await Runner.run(desk(server, tool), "?")
    assert result.final_output == "The tools say sorry, RunFailed."
    assert result.context_wrapper.usage.total_tokens > 2 * CALL_TOKENS + READ + WRITTEN
    assert result.context_wrapper.usage.requests == 3
