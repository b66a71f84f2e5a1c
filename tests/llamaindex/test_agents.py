"""Agents and teams of agents as workers, with models of loopback servers."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.tools import FunctionTool
from llamaindex.conftest import Make
from llamaindex.library import AGENTS
from pydantic import BaseModel
from servers.chat_server import STALL, USAGE, Call, ChatServer, Reply, says

from llama_index_podium import as_worker
from podium import Conductor, Limits, Plan, Result, Retry, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.hosts import tool_call
from podium.planners import FixedPlanner
from podium.workers import Gather

pytestmark = [pytest.mark.anyio, AGENTS]

ONE = Plan((Step(0, "How warm is it?"),))
ONCE = Retry(attempts=1)
TOKENS = USAGE["total_tokens"]
REPORTING = {"stream_options": {"include_usage": True}}
"""Has a stream say what it used; else tokens are estimated."""


def _shown(call: Call) -> str:
    return "\n".join(str(message["content"]) for message in call.body["messages"])


def _returned(call: Call) -> list[str]:
    return [str(message["content"]) for message in call.body["messages"] if message["role"] == "tool"]


def _asks(call: Call, arguments: str, text: str = "") -> Reply:
    asked = [tool_call(f"c{len(_returned(call))}", "weather", arguments)]
    return says(call, text, tool_calls=asked, finish_reason="tool_calls")


def _calling(city: str) -> Callable[[Call], Reply]:
    """Return a model that calls the tool once, and answers with what that returned."""

    def reply(call: Call) -> Reply:
        if said := _returned(call):
            return says(call, f"It says: {said[-1]}")
        return _asks(call, f'{{"city": "{city}"}}', "Let me see.")

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
    async with ChatServer(_calling("Bern")) as server:
        model = llm(server.url, additional_kwargs=REPORTING if streaming else {})
        options: Any = {"system_prompt": "Be kind.", "streaming": streaming}
        agent = FunctionAgent(name="forecaster", tools=[weather], llm=model, **options)
        plan = Plan((Step(0, "canary-hidden"), Step(1, "first"), Step(2, "How warm is it?", (1,))))
        workers = [ScriptedWorker("a", "hidden"), ScriptedWorker("b", "first-output"), agent]
        result = await _run(*workers, plan=plan)
        first = _shown(server.calls[0])
    assert (result.answer, result.status) == ("It says: 12 degrees in Bern", "ok"), result.explain()
    assert [word in first for word in ("Be kind.", "first-output", "canary-hidden")] == [True, True, False]
    used = result.outcomes[2].usage
    assert (used.total_tokens, used.estimated) == (2 * TOKENS, False)


def _thinking(call: Call) -> Reply:
    text = _shown(call)
    if "Observation: 12 degrees" in text:
        return says(call, "Thought: I can answer.\nAnswer: 12 degrees")
    return says(call, 'Thought: I need it.\nAction: weather\nAction Input: {"city": "Bern"}')


@pytest.mark.parametrize("calls", [True, False])
async def test_a_model_uses_its_tools_within_its_step(llm: Make, *, calls: bool) -> None:
    """In a step in the middle; in text, if it calls no functions; at most 20 times."""
    async with ChatServer(_calling("Bern") if calls else _thinking) as server:
        thing = llm(server.url, is_function_calling_model=calls)
        model = as_worker(thing, tools=[weather], name="forecaster")
        plan = Plan((Step(0, "How warm is it?"), Step(1, "join", (0,))))
        result = await _run(model, Gather(), plan=plan)
    assert "12 degrees" in result.answer
    used = result.outcomes[0].usage
    assert (used.total_tokens, used.estimated) == (2 * TOKENS, False)
    assert (model.card.name, model.card.description) == ("forecaster", "An agent with the tools weather.")
    assert model.acts
    if not calls:
        return
    async with ChatServer(lambda call: _asks(call, '{"city": "Bern"}')) as server:
        endless = as_worker(llm(server.url), tools=[weather], name="endless")
        result = await _run(endless, retry=ONCE)
        assert len(server.calls) <= 21
    assert (result.status, "iterations" in str(result.problem)) == ("failed", True)


def test_only_a_model_is_given_tools() -> None:
    with pytest.raises(ConfigError, match="is not an LLM: give its tools to the object itself"):
        as_worker(FunctionTool.from_defaults(weather), tools=[weather])


async def test_a_tool_that_failed_is_told(llm: Make) -> None:
    """With the answer; not where the tool was called again and went well."""
    async with ChatServer(_calling("Atlantis")) as server:
        result = await _run(FunctionAgent(name="forecaster", tools=[weather], llm=llm(server.url)))
    assert (result.status, result.answer) == ("partial", "It says: there is no such city")
    assert "its tool 'weather' failed: there is no such city" in result.problem.message

    def again(call: Call) -> Reply:
        said = _returned(call)
        if len(said) == 2:
            return says(call, said[-1])
        return _asks(call, f'{{"city": "{"Bern" if said else "Atlantis"}"}}')

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
        plan = Plan((Step(0, "write"), Step(1, "read", (0,))))
        agent = FunctionAgent(name="reader", llm=llm(server.url))
        assert (await _run(ScriptedWorker("writer", long), agent, plan=plan)).status == "ok"
        assert long.strip() in _shown(server.calls[0])


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
        assert (result.status, "gave no structured output" in result.explain()) == ("failed", True)
