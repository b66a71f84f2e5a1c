"""Agents and teams of agents as workers, with models of loopback servers."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.tools import FunctionTool
from llamaindex.conftest import Make
from llamaindex.speaking import Blocking, Native
from pydantic import BaseModel
from servers.chat_server import STALL, USAGE, Call, ChatServer, Reply, says

from llama_index_podium import as_worker
from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.execution import Retry
from podium.hosts import tool_call
from podium.planners import FixedPlanner
from podium.types import AnswerDelta, Result
from podium.workers import Gather, Worker

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
    """Agents have their own."""
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


async def _deltas(worker: Worker) -> list[str]:
    events = [event async for event in Conductor(FixedPlanner("x"), [worker]).stream(ONE)]
    return [event.text for event in events if isinstance(event, AnswerDelta)]


async def test_a_team_does_its_step(llm: Make) -> None:
    """One agent hands over to another."""

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


async def test_a_react_agent_does_its_step() -> None:
    """Its thoughts are no part of the answer; its model answers text."""

    async def think(prompt: str) -> str:
        if "Observation: 12 degrees" in prompt:
            return "Thought: I can answer.\nAnswer: Twelve."
        return 'Thought: I need the tool.\nAction: weather\nAction Input: {"city": "Bern"}'

    tokens = {"prompt_tokens": 900, "completion_tokens": 30, "total_tokens": 930}
    agent = ReActAgent(name="thinker", tools=[weather], llm=Native(think, tokens=tokens))
    assert await _deltas(as_worker(agent)) == ["Twelve."]
    result = await _run(agent)
    assert (result.answer, result.usage.total_tokens) == ("Twelve.", 2 * 930)


async def test_long_inputs_reach_the_model(llm: Make) -> None:
    """LlamaIndex's own memory would send nothing in their place."""
    long = "word " * 20_000
    async with ChatServer(lambda call: says(call, "read", usage=None)) as server:
        agent = FunctionAgent(name="reader", llm=llm(server.url))
        plan = Plan((Step(0, "write"), Step(1, "read", (0,))))
        result = await _run(ScriptedWorker("writer", long), agent, plan=plan)
        assert long.strip() in _shown(server.calls[0])
    assert result.status == "ok"


@pytest.mark.parametrize("limits", [None, Limits(attempt_seconds=0.5)])
async def test_a_cancel_and_a_time_limit_reach_the_socket(llm: Make, limits: Limits | None) -> None:
    """The model's server sees the client leave, and no task stays behind."""
    async with ChatServer(lambda call: Reply([STALL])) as server:
        before = asyncio.all_tasks()
        agent = FunctionAgent(name="slow", tools=[weather], llm=llm(server.url))
        task = asyncio.create_task(_run(agent, limits=limits, retry=ONCE))
        with anyio.fail_after(20):
            while not server.calls:  # noqa: ASYNC110 - filled by the server
                await anyio.sleep(0.01)
            if limits is None:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                assert (await task).outcomes[0].problem.code == "worker_timeout"
            await server.calls[0].hung_up.wait()
            while asyncio.all_tasks() - before - {task}:  # noqa: ASYNC110 - the server's own end too
                await anyio.sleep(0.01)


class Place(BaseModel):
    """A place."""

    city: str


@pytest.mark.filterwarnings("ignore:There was a problem with the generation:UserWarning")
async def test_structured_output_is_the_answer(llm: Make) -> None:
    """As JSON; an agent that gives none fails its step."""
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


def test_an_agent_says_what_it_is() -> None:
    """By its name, description and tools; the name of one that has none is its class's."""

    async def speak(prompt: str) -> str:
        return ""

    agent = FunctionAgent(tools=[weather], llm=Native(speak))
    card = as_worker(agent).card
    assert (card.name, card.description) == ("FunctionAgent", "An agent with the tools weather.")
    named = as_worker(FunctionAgent(name="a", description="Knows.", llm=Native(speak)), labels=["eu"]).card
    assert (named.name, named.description, named.labels) == ("a", "Knows.", {"eu"})
    with pytest.raises(ConfigError, match="accepts a conversation"):
        as_worker(agent, input_field="query")


async def test_agents_whose_models_block_stay_side_by_side() -> None:
    """Each waits for the other, in a way that would stop the loop."""
    barrier = threading.Barrier(2)

    def think(prompt: str) -> str:
        barrier.wait(20)
        return "Thought: I can answer.\nAnswer: Twelve."

    agents = [ReActAgent(name=name, llm=Blocking(think, name=name)) for name in ("left", "right")]
    plan = Plan((Step(0, "a"), Step(1, "b"), Step(2, "join", (0, 1))))
    result = await _run(*agents, Gather(), plan=plan)
    assert [outcome.status for outcome in result.outcomes] == ["ok"] * 3, result.explain()
