"""Agent Framework's agents, workflows and chat clients as workers, on a real server."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from agent_framework import (
    Agent,
    Executor,
    Message,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
    tool,
)
from autogen.framework_speaking import FrameworkServer
from contracts.adapter_contract import planner_of
from contracts.odd_answers import (
    CALLS,
    FILTERED,
    ODD_ANSWERS,
    REFUSED,
    TALK,
    OddAnswer,
    check,
    check_wrong_url,
)
from contracts.worker_contract import WorkerContract, question
from servers.chat_server import CUT, STALL, USAGE, Call, Reply, chunk, events, says, whole

from autogen_podium.agent_framework import as_worker
from podium import Conductor, Price
from podium.errors import (
    ConfigError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerUnavailable,
)
from podium.types import Constraint, Message as PodiumMessage, Sampling, Tools
from podium.usage import Usage
from podium.workers import Request, Worker, complete

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object", "properties": {"metres": {"type": "integer"}}, "required": ["metres"]}


def echoes(call: Call) -> Reply:
    return says(call, f"heard {call.body['messages'][-1]['content']}")


def looking(call: Call) -> Reply:
    returned = [m["content"] for m in call.body["messages"] if m["role"] == "tool"]
    if len(returned) < 2:
        asking = {
            "id": f"c{len(returned)}",
            "type": "function",
            "function": {"name": "look", "arguments": "{}"},
        }
        return says(call, "Let me look.", finish_reason="tool_calls", tool_calls=[asking])
    return says(call, f"I saw {' and '.join(returned)}.")


def made(kind: str, client: Any) -> Worker:
    """Return a client, an agent over it, or a workflow of this agent as a worker."""
    agent = Agent(client, name="one")
    thing = {"client": client, "agent": agent}.get(kind) or WorkflowBuilder(start_executor=agent).build()
    return as_worker(thing, price=Price(input=1.0, output=1.0))


class TestWorkers(WorkerContract):
    @pytest.fixture(params=["client", "agent", "workflow"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        """Each kind."""
        return str(request.param)

    @pytest.fixture
    async def worker(self, kind: str) -> AsyncIterator[Worker]:
        async with FrameworkServer(echoes) as server:
            yield made(kind, server.client())

    @pytest.fixture
    async def slow_worker(self, kind: str) -> AsyncIterator[Worker]:
        async with FrameworkServer(lambda _: Reply((STALL,))) as server:
            yield made(kind, server.client())


async def test_a_url_of_another_server_is_told() -> None:
    async with FrameworkServer(echoes) as clients:
        await check_wrong_url(lambda url: made("client", clients.client(base_url=url)), stream=True)


@pytest.mark.parametrize(
    ("odd", "kind", "stream"),
    [
        *((odd, "client", True) for odd in ODD_ANSWERS),
        (REFUSED, "agent", False),
        (CALLS, "agent", True),
        (FILTERED, "workflow", True),
        (TALK, "workflow", False),
    ],
)
async def test_an_odd_answer_is_no_answer(odd: OddAnswer, kind: str, *, stream: bool) -> None:
    """It has the code that it has in every adapter."""
    async with FrameworkServer(echoes) as clients:
        await check(lambda url: made(kind, clients.client(base_url=url)), odd, stream=stream)


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (429, "client", WorkerUnavailable),
        (401, "agent", WorkerRefused),
        (500, "workflow", WorkerUnavailable),
    ],
)
async def test_faults_of_a_server_are_told_as_podiums(
    status: int, kind: str, error: type[WorkerError]
) -> None:
    """By their status, through the framework's own exceptions."""
    async with FrameworkServer(lambda _: whole({"error": {"message": "no"}}, status=status)) as server:
        with pytest.raises(error):
            await complete(made(kind, server.client()), question("?", stream=True))


@pytest.mark.parametrize(("kind", "tail"), [("client", (CUT,)), ("agent", ())])
async def test_a_stream_that_was_cut_is_no_answer(kind: str, tail: Any) -> None:
    """Nobody said why it ended, so that it did not."""
    async with FrameworkServer(lambda _: events(chunk({"content": "half"}), *tail)) as server:
        with pytest.raises(WorkerBroken) as caught:
            await complete(made(kind, server.client()), question("?", stream=True))
    assert caught.value.maybe_paid


async def test_tools_and_forms_reach_a_client() -> None:
    """Tools as declarations, whose calls are returned; a JSON schema as the response's format."""

    def calls(call: Call) -> Reply:
        if "tools" not in call.body:
            return says(call, '{"metres": 3}')
        asking = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}
        return says(call, "", finish_reason="tool_calls", tool_calls=[asking])

    parameters = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    spec = {
        "type": "function",
        "function": {"name": "look", "description": "Looks.", "parameters": parameters},
    }
    asked = (PodiumMessage("user", "?"),)
    async with FrameworkServer(calls) as server:
        worker = as_worker(server.client())
        named = Tools((spec,), {"type": "function", "function": {"name": "look"}})
        for stream in (False, True):
            done = await complete(worker, Request(messages=asked, tools=named, stream=stream))
            assert [c["function"] for c in done.tool_calls] == [{"name": "look", "arguments": '{"at": "x"}'}]
        body = server.calls[0].body
        assert body["tools"][0]["function"]["parameters"]["properties"] == parameters["properties"]
        assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
        sampling = Sampling(constraint=Constraint("json", SCHEMA), effort="low", max_tokens=9)
        done = await complete(worker, Request(messages=asked, sampling=sampling))
        assert (done.text, done.usage) == ('{"metres": 3}', Usage(211, 7))
        body = server.calls[-1].body
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
        assert body["reasoning_effort"] == "low"
    assert "json" in worker.constraint_kinds


async def test_a_tool_of_an_agent_that_fails_makes_the_run_partial() -> None:
    """Where its last call failed: the model reads "Function failed.", and may say anything."""
    fails = [True, True]

    @tool
    def look() -> str:
        """Look."""
        if fails.pop():
            raise ValueError("no lamp")
        return "a chair"

    async with FrameworkServer(looking) as server:
        agent = Agent(server.client(), name="one", tools=[look])
        conductor = Conductor(planner_of((0, "x", ())), [as_worker(agent)])
        result = await conductor.run("?")
        assert result.answer == "I saw Error: Function failed. and Error: Function failed.."
        assert result.problem is not None
        assert (result.status, "its tool 'look' failed: no lamp" in result.problem.message) == (
            "partial",
            True,
        )
        assert result.usage == Usage(3 * USAGE["prompt_tokens"], 3 * USAGE["completion_tokens"])
        fails[:] = [False, True]  # from the end: the first call fails, the second does not
        result = await conductor.run("?", on_event=lambda event: None)
        assert (result.answer, result.status) == ("I saw Error: Function failed. and a chair.", "ok")


def chain(server: FrameworkServer) -> Any:
    first, second = (Agent(server.client(), f"You are {name}.", name=name) for name in ("first", "second"))
    return WorkflowBuilder(start_executor=first).add_edge(first, second).build()


async def test_a_workflow_starts_afresh_for_each_step() -> None:
    """Nothing of one step is shown in the next, in whatever pool; its answer is its last output."""
    async with FrameworkServer(echoes) as server:
        flow = chain(server)
        for worker in (as_worker(flow, name="a"), as_worker(flow.as_agent(name="b"))):
            for word in ("first-question", "second-question"):
                done = await complete(worker, question(word))
                assert (done.text, done.usage) == (f"heard heard {word}", Usage(422, 14))
        assert worker.card.concurrency == 1
        assert all("first-question" not in str(call.body) for call in server.calls[2:4])


async def test_outputs_of_a_workflow() -> None:
    """Texts and messages are answers; other objects, and none at all, are not."""

    class Says(Executor):
        def __init__(self, *outputs: Any) -> None:
            super().__init__(id="says")
            self._outputs = outputs

        @handler
        async def take(self, messages: list[Message], ctx: WorkflowContext[Any, Any]) -> None:
            for output in self._outputs:
                await ctx.yield_output(output)

    def worker(*outputs: Any) -> Worker:
        return as_worker(WorkflowBuilder(start_executor=Says(*outputs)).build(), name="flow")

    for outputs in (
        ("first", "12 m"),
        (Message("assistant", ["12 m"]),),
        ([Message("assistant", ["12 m"])],),
    ):
        assert (await complete(worker(*outputs), question("?"))).text == "12 m"
    with pytest.raises(WorkerFailed, match="has a int as its last output"):
        await complete(worker(12), question("?"))
    with pytest.raises(WorkerFailed, match="without an output"):
        await complete(worker(), question("?"))


async def test_a_workflow_works_again_after_a_failure_and_a_cancel() -> None:
    """Agent Framework's own agent would refuse to."""
    faults = ["stall", "down"]

    def reply(call: Call) -> Reply:
        if not faults:
            return echoes(call)
        return Reply((STALL,)) if faults.pop() == "stall" else whole({"error": {"message": "x"}}, status=503)

    async with FrameworkServer(reply) as server:
        worker = as_worker(chain(server), name="flow")
        with pytest.raises(WorkerUnavailable):
            await complete(worker, question("one"))
        task = asyncio.create_task(complete(worker, question("two")))
        with anyio.fail_after(20):
            while len(server.calls) < 2:  # noqa: ASYNC110 - nothing announces a call
                await anyio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.calls[1].hung_up.wait()
        assert (await complete(worker, question("three"))).text == "heard heard three"


async def test_a_workflow_that_asks_somebody_has_not_answered() -> None:
    """A step cannot wait for anybody; one that takes no messages is no worker."""

    class Asking(Executor):
        @handler
        async def ask(self, messages: list[Message], ctx: WorkflowContext[Any, str]) -> None:
            await ctx.request_info("May I?", str)

        @response_handler
        async def hear(self, request: str, response: str, ctx: WorkflowContext[Any, str]) -> None:
            await ctx.yield_output(response)

    class Numbers(Executor):
        @handler
        async def take(self, number: int, ctx: WorkflowContext[Any, str]) -> None:
            await ctx.yield_output(str(number))

    flow = WorkflowBuilder(start_executor=Asking(id="asking")).build()
    with pytest.raises(WorkerFailed, match="asks for approval"):
        await complete(as_worker(flow, name="flow"), question("?"))
    with pytest.raises(ConfigError, match="cannot do a subtask"):
        as_worker(WorkflowBuilder(start_executor=Numbers(id="numbers")).build())


async def test_cards_say_what_objects_say() -> None:
    async with FrameworkServer(echoes) as server:
        agent = Agent(server.client(), name="one", description="Finds facts.")
        flow = WorkflowBuilder(start_executor=agent, name="flow", description="Flows.").build()
        cards = [as_worker(thing).card for thing in (agent, flow, server.client())]
        assert [card.name for card in cards] == ["one", "flow", "scripted-1"]
        assert [card.description for card in cards[:2]] == ["Finds facts.", "Flows."]
        assert as_worker(agent, name="two", labels=["eu"]).card.labels == {"eu"}
