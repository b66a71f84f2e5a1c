"""Agent Framework's agents, workflows and chat clients as workers, on a real server."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from agent_framework import Agent, WorkflowBuilder, tool
from autogen.scripts import calling
from autogen.speaking import FrameworkServer
from contracts.adapter_contract import planner_of
from contracts.odd_answers import ODD_ANSWERS, REFUSED, TALK, WRONG_URL, Case, check_case
from contracts.worker_contract import WorkerContract, question
from servers.chat_server import STALL, USAGE, Call, Reply, says

from autogen_podium.agent_framework import as_worker
from podium import Conductor, Price
from podium.usage import Usage
from podium.workers import Worker, complete

pytestmark = pytest.mark.anyio


def echoes(call: Call) -> Reply:
    return says(call, f"heard {call.body['messages'][-1]['content']}")


def made(kind: str, client: Any) -> Worker:
    """Return a client, an agent over it, or a workflow of this agent as a worker."""
    agent = Agent(client, name="one")
    thing = {"client": client, "agent": agent}.get(kind) or WorkflowBuilder(start_executor=agent).build()
    return as_worker(thing, price=Price(input=1.0, output=1.0))


class TestWorkers(WorkerContract):
    @pytest.fixture(params=["client", "agent", "workflow"])
    def kind(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    async def worker(self, kind: str) -> AsyncIterator[Worker]:
        async with FrameworkServer(echoes) as server:
            yield made(kind, server.client())

    @pytest.fixture
    async def slow_worker(self, kind: str) -> AsyncIterator[Worker]:
        async with FrameworkServer(lambda _: Reply((STALL,))) as server:
            yield made(kind, server.client())


@pytest.mark.parametrize(
    ("case", "kind", "stream"),
    [
        *((case, "client", True) for case in (*ODD_ANSWERS[:3], WRONG_URL)),
        (REFUSED, "agent", False),
        (TALK, "workflow", False),
    ],
)
async def test_how_an_answer_ends(case: Case, kind: str, *, stream: bool) -> None:
    async with FrameworkServer(echoes) as clients:
        await check_case(lambda url: made(kind, clients.client(base_url=url)), case, stream=stream)


async def test_a_tool_of_an_agent_that_fails_makes_the_run_partial() -> None:
    """Where its last call failed: the model reads "Function failed.", and may say anything."""
    fails = [True, True]

    @tool
    def look() -> str:
        """Look."""
        if fails.pop():
            raise ValueError("no lamp")
        return "a chair"

    reply = partial(calling, arguments="{}", text="Let me look.")
    async with FrameworkServer(lambda call: reply(call, "look", "look")) as server:
        agent = Agent(server.client(), name="one", tools=[look])
        conductor = Conductor(planner_of((0, "x", ())), [as_worker(agent)])
        result = await conductor.run("?")
        failed = "Error: Function failed."
        assert (result.status, result.answer) == ("partial", f"It is {failed} and {failed}.")
        assert "its tool 'look' failed: no lamp" in result.problem.message
        assert result.usage == Usage(3 * USAGE["prompt_tokens"], 3 * USAGE["completion_tokens"])
        fails[:] = [False, True]  # from the end: the first call fails, the second does not
        result = await conductor.run("?", on_event=lambda event: None)
        assert (result.answer, result.status) == ("It is Error: Function failed. and a chair.", "ok")


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
