"""Agents and teams of agents as workers, with models of loopback servers."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.tools import FunctionTool
from llamaindex.conftest import Make
from pydantic import BaseModel
from servers.chat_server import STALL, USAGE, Call, ChatServer, Reply, says

from llama_index_podium import as_worker
from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.execution import Retry
from podium.hosts import tool_call
from podium.planners import FixedPlanner
from podium.types import Result
from podium.workers import Gather

pytestmark = [
    pytest.mark.anyio,
    # agents themselves use what pydantic and workflows have deprecated
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
    pytest.mark.filterwarnings("ignore:is_running called:DeprecationWarning"),
]

ONE = Plan((Step(0, "How warm is it?"),))
ONCE = Retry(attempts=1)
TOKENS = USAGE["total_tokens"]
REPORTING = {"stream_options": {"include_usage": True}}
"""Has a stream say what it used; else tokens are estimated."""


def _shown(call: Call) -> str:
    return "\n".join(str(message["content"]) for message in call.body["messages"])


def _returned(call: Call) -> list[str]:
    return [str(message["content"]) for message in call.body["messages"] if message["role"] == "tool"]


def _calling(name: str, arguments: str) -> Callable[[Call], Reply]:
    """Return a model that calls a tool once, and answers with what that returned."""

    def reply(call: Call) -> Reply:
        if said := _returned(call):
            return says(call, f"It says: {said[-1]}")
        asked = [tool_call("c1", name, arguments)]
        return says(call, "Let me see.", tool_calls=asked, finish_reason="tool_calls")

    return reply


def weather(city: str) -> str:
    """Say how warm it is in a city."""
    if city == "Atlantis":
        raise ValueError("there is no such city")
    return f"12 degrees in {city}"


async def _run(*workers: Any, plan: Plan = ONE, **options: Any) -> Result:
    return await Conductor(FixedPlanner("x"), [as_worker(each) for each in workers], **options).run(plan)


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_agent_does_its_step(llm: Make, *, streaming: bool) -> None:
    """It is shown its access list and nothing else; all its calls are on the bill."""
    async with ChatServer(_calling("weather", '{"city": "Bern"}')) as server:
        model = llm(server.url, additional_kwargs=REPORTING if streaming else {})
        agent = FunctionAgent(
            name="forecaster", tools=[weather], llm=model, system_prompt="Be kind.", streaming=streaming
        )
        plan = Plan((Step(0, "canary-hidden"), Step(1, "first"), Step(2, "How warm is it?", (1,))))
        workers = [ScriptedWorker("a", "hidden"), ScriptedWorker("b", "first-output"), agent]
        result = await Conductor(FixedPlanner("x"), [as_worker(each) for each in workers]).run(plan)
        first = _shown(server.calls[0])
    assert (result.answer, result.status) == ("It says: 12 degrees in Bern", "ok"), result.explain()
    assert [word in first for word in ("Be kind.", "first-output", "canary-hidden")] == [True, True, False]
    assert result.outcomes[2].usage.total_tokens == 2 * TOKENS
    assert not result.outcomes[2].usage.estimated


def _thinking(call: Call) -> Reply:
    text = _shown(call)
    if "Observation: 12 degrees" in text:
        return says(call, "Thought: I can answer.\nAnswer: 12 degrees")
    return says(call, 'Thought: I need it.\nAction: weather\nAction Input: {"city": "Bern"}')


@pytest.mark.parametrize("calls", [True, False])
async def test_a_model_uses_its_tools_within_its_step(llm: Make, *, calls: bool) -> None:
    """In a step in the middle; in text, if it calls no functions; at most 20 times."""
    reply = _calling("weather", '{"city": "Bern"}') if calls else _thinking
    async with ChatServer(reply) as server:
        model = as_worker(
            llm(server.url, is_function_calling_model=calls), tools=[weather], name="forecaster"
        )
        plan = Plan((Step(0, "How warm is it?"), Step(1, "join", (0,))))
        result = await _run(model, Gather(), plan=plan)
    assert "12 degrees" in result.answer
    used = result.outcomes[0].usage
    assert (used.total_tokens, used.estimated) == (2 * TOKENS, False)
    assert (model.card.name, model.card.description) == ("forecaster", "An agent with the tools weather.")
    assert model.acts

    def again(call: Call) -> Reply:
        asked = [tool_call(f"c{len(_returned(call))}", "weather", '{"city": "Bern"}')]
        return says(call, "", tool_calls=asked, finish_reason="tool_calls")

    if calls:
        async with ChatServer(again) as server:
            endless = as_worker(llm(server.url), tools=[weather], name="endless")
            result = await _run(endless, retry=ONCE)
            assert len(server.calls) <= 21
        assert result.status == "failed"
        assert "iterations" in str(result.problem)


def test_only_a_model_is_given_tools() -> None:
    with pytest.raises(ConfigError, match="is not an LLM: give its tools to the object itself"):
        as_worker(FunctionTool.from_defaults(weather), tools=[weather])


async def test_a_tool_that_failed_is_told(llm: Make) -> None:
    """With the answer; not where the tool was called again and went well."""
    async with ChatServer(_calling("weather", '{"city": "Atlantis"}')) as server:
        agent = FunctionAgent(name="forecaster", tools=[weather], llm=llm(server.url))
        result = await _run(agent)
    assert (result.status, result.answer) == ("partial", "It says: there is no such city")
    assert "its tool 'weather' failed: there is no such city" in result.problem.message

    def again(call: Call) -> Reply:
        said = _returned(call)
        if len(said) == 2:
            return says(call, said[-1])
        city = "Bern" if said else "Atlantis"
        calls = [tool_call(f"c{len(said)}", "weather", f'{{"city": "{city}"}}')]
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")

    async with ChatServer(again) as server:
        result = await _run(FunctionAgent(name="forecaster", tools=[weather], llm=llm(server.url)))
    assert (result.status, result.answer) == ("ok", "12 degrees in Bern")


async def test_a_team_does_its_step(llm: Make) -> None:
    def reply(call: Call) -> Reply:
        if "You write." in _shown(call):
            return says(call, "Written.")
        calls = [tool_call("c1", "handoff", '{"to_agent": "writer", "reason": "enough"}')]
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")

    async with ChatServer(reply) as server:
        model = llm(server.url, additional_kwargs=REPORTING)
        finder = FunctionAgent(name="finder", description="Finds.", llm=model, can_handoff_to=["writer"])
        writer = FunctionAgent(name="writer", description="Writes.", llm=model, system_prompt="You write.")
        team = AgentWorkflow(agents=[finder, writer], root_agent="finder")
        worker = as_worker(team, name="team")
        result = await _run(worker)
    assert (result.answer, result.status) == ("Written.", "ok"), result.explain()
    assert result.usage.total_tokens == 2 * TOKENS
    assert worker.card.description == "A team of agents (finder: Finds.; writer: Writes.)."


async def test_long_inputs_reach_the_model(llm: Make) -> None:
    long = "word " * 20_000
    async with ChatServer(lambda call: says(call, "read", usage=None)) as server:
        agent = FunctionAgent(name="reader", llm=llm(server.url))
        plan = Plan((Step(0, "write"), Step(1, "read", (0,))))
        result = await _run(ScriptedWorker("writer", long), agent, plan=plan)
        assert long.strip() in _shown(server.calls[0])
    assert result.status == "ok"


async def test_a_time_limit_reaches_the_socket(llm: Make) -> None:
    """The model's server sees the client leave, and no task stays behind."""
    async with ChatServer(lambda call: Reply([STALL])) as server:
        before = asyncio.all_tasks()
        agent = FunctionAgent(name="slow", tools=[weather], llm=llm(server.url))
        with anyio.fail_after(20):
            result = await _run(agent, limits=Limits(attempt_seconds=0.5), retry=ONCE)
            assert result.outcomes[0].problem.code == "worker_timeout"
            await server.calls[0].hung_up.wait()
            while asyncio.all_tasks() - before:  # noqa: ASYNC110 - the server's own end too
                await anyio.sleep(0.01)


class Place(BaseModel):
    """A place."""

    city: str


@pytest.mark.filterwarnings("ignore:There was a problem with the generation:UserWarning")
async def test_structured_output_is_the_answer(llm: Make) -> None:
    function = tool_call("c1", "Place", '{"city": "Bern"}')

    def reply(call: Call) -> Reply:
        if call.body.get("tools"):
            return says(call, "", tool_calls=[function], finish_reason="tool_calls")
        return says(call, "It is in Bern.")

    async with ChatServer(reply) as server:
        result = await _run(FunctionAgent(name="finder", llm=llm(server.url), output_cls=Place))
        assert (result.answer, result.status) == ('{"city": "Bern"}', "ok"), result.explain()
    async with ChatServer(lambda call: says(call, "I do not know.")) as server:
        result = await _run(FunctionAgent(name="finder", llm=llm(server.url), output_cls=Place), retry=ONCE)
        assert result.status == "failed"
        assert "gave no structured output" in result.explain()
