"""Agents, function tools and models of the SDK as workers, also those with a conductor inside."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from agents import (
    Agent,
    AgentOutputSchema,
    GuardrailFunctionOutput,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    ToolGuardrailFunctionOutput,
    ToolOutputText,
    WebSearchTool,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.models.openai_provider import OpenAIProvider
from agents_speaking import ONE_CALL, READ, WRITTEN, ModelServer, SpeakingModel, speaker
from contracts.adapter_contract import planner_of, saying
from contracts.known_prices import MODEL, check_planner, check_prices
from contracts.odd_answers import ODD_ANSWERS, WRONG_URL, Case, check_case
from contracts.worker_contract import WorkerContract, question
from openai import AsyncOpenAI
from pydantic import BaseModel
from servers.chat_server import CUT, STALL, Call, Reply, chunk, events, says, whole

from openai_agents_podium import ConductorModel, as_planner, as_worker
from podium import Conductor, Limits, Message, Plan, Price, Retry, Sampling, ScriptedWorker, Step
from podium.errors import ConfigError, WorkerBroken, WorkerFailed, WorkerRefused, WorkerTimeout
from podium.hosts import GuardrailTripped, tool_call
from podium.planners import FixedPlanner
from podium.usage import Usage
from podium.workers import FREE, Card, Request, Worker, complete

pytestmark = pytest.mark.anyio
LOOK = tool_call("call-1", "look", "{}")


async def echo(text: str) -> str:
    return f"heard {text}"


async def hang(text: str) -> str:
    await anyio.sleep_forever()
    return ""


def echoes(call: Call) -> Reply:
    return says(call, f"heard {call.body['messages'][-1]['content']}")


def looks_then_says(call: Call) -> Reply:
    last = call.body["messages"][-1]
    if last["role"] == "tool":
        return says(call, f"I saw {last['content']}.")
    return says(call, "", tool_calls=[LOOK], finish_reason="tool_calls")


@function_tool
def look() -> str:
    """Look around."""
    return "the sea"


def made(kind: str, model: OpenAIChatCompletionsModel) -> Worker:
    """Return a model, an agent of it, or an agent that finds it by its name as a worker."""
    price = Price(input=1.0, output=1.0)
    if kind == "model":
        return as_worker(model, price=price)
    if kind == "agent":
        return as_worker(Agent(name="one", model=model), price=price)
    provider = OpenAIProvider(openai_client=model._client, use_responses=False)
    return as_worker(Agent(name="one", model="m"), run_config=RunConfig(model_provider=provider))


class TestWorkers(WorkerContract):
    @pytest.fixture(params=["agent", "model"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    async def worker(self, kind: str) -> AsyncIterator[Worker]:
        async with ModelServer(echoes) as server:
            yield made(kind, server.model())

    @pytest.fixture
    async def slow_worker(self, kind: str) -> AsyncIterator[Worker]:
        async with ModelServer(lambda _: Reply((STALL,))) as server:
            yield made(kind, server.model())


@pytest.mark.parametrize(
    ("case", "kind", "stream"),
    [
        *((case, "agent", True) for case in (*ODD_ANSWERS, "length")),
        (ODD_ANSWERS[0], "model", True),
        (ODD_ANSWERS[1], "named", False),
        (WRONG_URL, "model", False),
    ],
)
async def test_how_an_answer_ends(case: Case, kind: str, *, stream: bool) -> None:
    """Whether the model is an agent's, found by its name, or a worker by itself."""
    async with ModelServer(echoes) as clients:
        await check_case(lambda url: made(kind, clients.model(url)), case, stream=stream)


async def test_a_stream_without_an_end_is_no_answer() -> None:
    def reply(call: Call) -> Reply:
        return events(chunk({"role": "assistant", "content": "Once"}), CUT, done=False)

    async with ModelServer(reply) as server:
        with pytest.raises(WorkerBroken):
            await complete(made("model", server.model()), question("?", stream=True))


async def test_agents_as_tools_are_in_the_bill() -> None:
    def reply(call: Call) -> Reply:
        system = call.body["messages"][0]["content"]
        if system == "Outer." and call.body["messages"][-1]["role"] != "tool":
            asked = [tool_call("c", "inner", '{"input": "Look."}')]
            return says(call, "", tool_calls=asked, finish_reason="tool_calls")
        return says(call, "done")

    async with ModelServer(reply) as server:
        inner = Agent[Any](name="inner", instructions="Inner.", model=server.model())
        tool = inner.as_tool("inner", "Looks.")
        worker = as_worker(Agent(name="outer", instructions="Outer.", model=server.model(), tools=[tool]))
        done = await complete(worker, question("?"))
        assert len(server.calls) == 3
    assert done.usage == ONE_CALL + ONE_CALL + ONE_CALL


@pytest.mark.parametrize("status", [400, 500])
async def test_the_finished_turns_of_a_run_that_failed_are_on_the_bill(status: int) -> None:
    """The call that the server refused cost nothing; one that it broke may be billed for its prompt."""

    def reply(call: Call) -> Reply:
        if call.body["messages"][-1]["role"] == "tool":
            return whole({"error": {"message": "no"}}, status=status)
        return looks_then_says(call)

    async with ModelServer(reply) as server:
        agent = Agent(name="one", model=server.model(), tools=[look])
        worker = as_worker(agent, price=Price(input=10.0, output=100.0), acts=False)
        retry = Retry(attempts=2, first_wait=0.001)
        result = await Conductor(FixedPlanner(Plan((Step(0, "Look."),))), [worker], retry=retry).run("?")
        turns = len(server.calls) // 2
    (outcome,) = result.outcomes
    assert turns == (2 if status == 500 else 1)
    known = Usage.total([ONE_CALL] * turns)
    assert outcome.usage.output_tokens == known.output_tokens
    assert (outcome.usage.input_tokens > known.input_tokens) == outcome.usage.estimated == (status == 500)
    assert result.cost >= Price(input=10.0, output=100.0).cost(known) - 1e-9


@input_guardrail(run_in_parallel=False)
async def no_maths(context: Any, agent: Any, asked: Any) -> GuardrailFunctionOutput:
    """Stop everything."""
    return GuardrailFunctionOutput(output_info="that is maths", tripwire_triggered=True)


@output_guardrail
async def no_secrets(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
    """Stop every answer."""
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered=True)


async def test_a_guardrail_before_the_model_costs_nothing() -> None:
    """It has its own code, and the step is not repeated."""
    async with ModelServer(echoes) as server:
        worker = as_worker(Agent(name="one", model=server.model(), input_guardrails=[no_maths]))
        result = await Conductor(FixedPlanner(Plan((Step(0, "2+2"),))), [worker]).run("?")
        assert server.calls == []
    (outcome,) = result.outcomes
    assert (outcome.problem.code, outcome.attempts) == (GuardrailTripped.code, 1)
    assert outcome.problem.message == "guardrail 'no_maths' tripped: that is maths"
    assert (outcome.usage, outcome.maybe_paid) == (Usage(), False)


async def test_a_guardrail_after_the_model_holds_the_answer_back() -> None:
    async with ModelServer(echoes) as server:
        worker = as_worker(Agent(name="one", model=server.model(), output_guardrails=[no_secrets]))
        pieces = worker.call(question("?", stream=True))
        with pytest.raises(GuardrailTripped, match="no_secrets") as caught:
            await anext(pieces)
    assert caught.value.usage == ONE_CALL


async def test_an_output_type_is_the_answer_as_json() -> None:
    class Place(BaseModel):
        name: str

    def reply(call: Call) -> Reply:
        assert call.body["response_format"]["type"] == "json_schema"
        names = call.body["response_format"]["json_schema"]["schema"]["properties"]
        return says(call, '{"name": "Bern"}' if "name" in names else '{"response": ["Bern"]}')

    async with ModelServer(reply) as server:
        for kind, text in ((Place, '{"name": "Bern"}'), (list[str], '["Bern"]')):
            worker = as_worker(Agent(name="one", model=server.model(), output_type=AgentOutputSchema(kind)))
            assert (await complete(worker, question("?", stream=True))).text == text


async def test_a_model_with_tools_calls_them_within_its_step() -> None:
    """By the SDK's runner, so many turns at most; its card is the model's own."""
    async with ModelServer(looks_then_says) as server:
        worker = as_worker(server.model(), tools=[look], price=FREE)
        assert (worker.card.name, worker.card.price, worker.acts) == ("scripted-1", FREE, True)
        done = await complete(worker, question("What is there?", stream=True))
        assert (done.text, done.usage) == ("I saw the sea.", ONE_CALL + ONE_CALL)
        with pytest.raises(WorkerFailed, match="max_turns"):
            await complete(as_worker(server.model(), tools=[look], max_turns=1), question("?"))
    conductor = Conductor(FixedPlanner("x"), [ScriptedWorker("one", "x")])
    for thing in (speaker("one", echo), ConductorModel(conductor), function_tool(echo)):
        with pytest.raises(ConfigError, match="give the tools to its agents"):
            as_worker(thing, tools=[look])


async def test_an_agent_is_given_its_context_and_the_settings_of_the_step() -> None:
    def instructions(context: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        return f"You serve {context.context['customer']}."

    async with ModelServer(echoes) as server:
        agent = Agent[Any](name="one", instructions=instructions, model=server.model())
        worker = as_worker(agent, context={"customer": "Ada", "secret": "hidden"})
        sampling = Sampling(temperature=0.5, max_tokens=9, seed=3, stop=("END",))
        await complete(worker, Request(messages=(Message("user", "Hello"),), sampling=sampling))
    body = server.calls[0].body
    assert body["messages"][0] == {"role": "system", "content": "You serve Ada."}
    assert "hidden" not in json.dumps(body)
    told = {name: body[name] for name in ("temperature", "max_tokens", "seed", "stop")}
    assert told == {"temperature": 0.5, "max_tokens": 9, "seed": 3, "stop": ["END"]}


async def test_what_cannot_be_a_worker_is_refused() -> None:
    other, late = speaker("other", echo), speaker("one", echo)
    for make, told in (
        (lambda: as_worker(speaker("one", echo, handoffs=[other])), "has handoffs to other"),
        (lambda: as_worker(function_tool(echo, needs_approval=True)), "needs approval"),
        (lambda: as_worker(WebSearchTool()), "decorate a function"),
        (lambda: as_planner("nobody"), "decorate a function"),
        (
            lambda: as_planner(FixedPlanner("x"), spelling="json"),
            "plans by itself: give a model with spelling",
        ),
    ):
        with pytest.raises(ConfigError, match=told):
            make()
    worker = as_worker(late)
    late.handoffs.append(other)
    with pytest.raises(ConfigError, match="has handoffs to other"):
        await complete(worker, question("?"))


async def test_a_tool_of_an_agent_that_needs_approval_fails_the_step() -> None:
    async with ModelServer(looks_then_says) as server:
        tool = function_tool(lambda: "x", name_override="look", needs_approval=True)
        worker = as_worker(Agent(name="one", model=server.model(), tools=[tool]))
        with pytest.raises(WorkerFailed, match="asks for approval"):
            await complete(worker, question("?"))


async def test_a_tool_that_fails_is_no_answer() -> None:
    """By itself, or where its output is the agent's answer; for a model it is text to go on with."""

    @function_tool(name_override="look")
    def broken() -> str:
        """Look around."""
        raise ValueError("it is dark")

    with pytest.raises(WorkerFailed, match="it is dark"):
        await complete(as_worker(broken), question("?"))
    async with ModelServer(looks_then_says) as server:
        model = server.model()
        first = Agent[Any](name="one", model=model, tools=[broken], tool_use_behavior="stop_on_first_tool")
        with pytest.raises(WorkerFailed, match="it is dark"):
            await complete(as_worker(first), question("?"))
        again = Agent[Any](name="one", model=model, tools=[broken])
        assert "error occurred" in (await complete(as_worker(again), question("?"))).text


async def test_a_tool_is_called_with_what_its_schema_says() -> None:
    @function_tool
    def double(context: RunContextWrapper[Any], number: int) -> ToolOutputText:
        """Double a number."""
        return ToolOutputText(text=f"{context.context}: {2 * number}")

    worker = as_worker(double, context="twice")
    assert worker.card.name == "double"
    assert worker.card.description.startswith("Double a number.")
    assert (await complete(worker, question('{"number": 21}'))).text == "twice: 42"
    with pytest.raises(WorkerRefused, match="number"):
        await complete(worker, question('{"figure": 21}'))


async def test_a_tool_has_its_time() -> None:
    tool = function_tool(hang, timeout=0.01)
    with pytest.raises(WorkerTimeout, match="timed out"):
        await complete(as_worker(tool), question("?"))


@tool_input_guardrail
def rejects(data: Any) -> ToolGuardrailFunctionOutput:
    """Reject what comes in."""
    return ToolGuardrailFunctionOutput.reject_content("not this")


@tool_output_guardrail
def raises(data: Any) -> ToolGuardrailFunctionOutput:
    """Stop what goes out."""
    return ToolGuardrailFunctionOutput.raise_exception(output_info=f"saw {data.output}")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tool_input_guardrails": [rejects]}, "guardrail 'rejects' tripped: not this"),
        ({"tool_output_guardrails": [raises]}, "guardrail 'raises' tripped: saw heard it"),
    ],
)
async def test_guardrails_of_a_tool_stop_its_step(options: Any, told: str) -> None:
    worker = as_worker(function_tool(echo, **options))
    with pytest.raises(GuardrailTripped) as caught:
        await complete(worker, question("it"))
    assert str(caught.value) == told


def test_a_model_has_the_price_of_its_endpoint() -> None:
    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        client = AsyncOpenAI(api_key="k", base_url=url)
        return as_worker(OpenAIChatCompletionsModel(MODEL, client), card=card)

    check_prices(make)
    check_planner(as_planner(OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(api_key="k"))))


TWICE = planner_of((0, "Do it.", ()), (0, "Do it again.", (0,)))
ONE = planner_of((0, "Have it done.", ()))


@pytest.mark.parametrize(("calls", "status"), [(9, "ok"), (1, "failed")])
async def test_a_nested_conductor_is_in_the_run_around_it(calls: int, status: str) -> None:
    """Its calls are booked once, and the limits of the outer run hold inside."""
    inner = SpeakingModel(saying("done"))
    model = ConductorModel(workers=[Agent[Any](name="hand", model=inner)], planner=TWICE)
    agent = Agent[Any](name="manager", instructions="Manage well.", model=model)
    outer = Conductor(ONE, [as_worker(agent)], limits=Limits(calls=calls), retry=Retry(attempts=1))
    result = await outer.run("?", on_event=lambda event: None)
    assert (result.status, result.answer) == (status, "done" if status == "ok" else "")
    assert len(inner.asked) <= calls
    assert result.usage.total_tokens == len(inner.asked) * (READ + WRITTEN)
    assert status == "failed" or len(inner.asked) == 2
