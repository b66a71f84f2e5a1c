"""A run id in each face of AutoGen's and Agent Framework's, and tools of the host within a step."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from agent_framework import AgentSession, Message, tool
from autogen.framework_speaking import FrameworkServer
from autogen.speaking import ModelServer
from autogen_core.models import UserMessage
from autogen_core.tools import FunctionTool
from contracts.adapter_contract import planner_of
from servers.chat_server import Call, Reply, says

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, as_worker
from autogen_podium.agent_framework import (
    ConductorAgent as FrameworkConductor,
    ConductorChatClient,
    as_worker as framework_worker,
)
from podium import Card, Conductor, FunctionWorker
from podium.errors import ConfigError
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio
Ask = Callable[[Conductor], Awaitable[object]]
RUN: dict[str, Any] = {"run_id": "order-1017"}


async def agent(conductor: Conductor) -> object:
    return (await ConductorAgent("lead", conductor, **RUN).run(task="?")).messages[-1].to_text()


async def client(conductor: Conductor) -> object:
    asked = UserMessage(content="?", source="user")
    return (await ConductorChatCompletionClient(conductor, **RUN).create([asked])).content


async def framework_default(conductor: Conductor) -> object:
    """Ask an agent of Agent Framework's with default options, in a stream and a session."""
    lead = FrameworkConductor(conductor, default_options=RUN)
    return (await lead.run("?", session=AgentSession(), stream=True).get_final_response()).text


async def framework_client(conductor: Conductor) -> object:
    return (await ConductorChatClient(conductor).get_response([Message("user", ["?"])], options=RUN)).text


FACES = pytest.mark.parametrize("ask", [agent, client, framework_default, framework_client])


@FACES
async def test_the_same_call_continues_its_run(ask: Ask) -> None:
    """In another object, after a break; then it returns what was recorded."""
    found, written, reached = list[str](), list[str](), asyncio.Event()

    async def write(step: Any) -> str:
        written.append(step.subtask)
        if len(written) == 1:
            reached.set()
            await anyio.sleep_forever()
        return f"of {step.visible[0].output}"

    async with MemoryJournal() as journal:

        def made() -> Conductor:
            find = FunctionWorker(lambda step: found.append(step.subtask) or "found", card=Card(name="find"))
            workers = [find, FunctionWorker(write, card=Card(name="write"))]
            return Conductor(planner_of((0, "a", ()), (1, "b", (0,))), workers, journal=journal)

        task = asyncio.ensure_future(ask(made()))
        with anyio.fail_after(20):
            await reached.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert [await ask(made()), await ask(made())] == ["of found", "of found"]
        assert (found, written) == (["a"], ["b", "b"])
        # commands find a run by the beginning of its id
        assert [row.state for row in await journal.runs(prefix=RUN["run_id"])] == ["ok"]


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def doubling(call: Call) -> Reply:
    """Call the tool as long as fewer than two results are there, then tell them."""
    returned = [m["content"] for m in call.body["messages"] if m["role"] == "tool"]
    if "tools" in call.body and len(returned) < 2:
        function = {"name": "double", "arguments": f'{{"number": {len(returned) + 1}}}'}
        asked = {"id": f"call-{len(returned)}", "type": "function", "function": function}
        return says(call, "", finish_reason="tool_calls", tool_calls=[asked])
    return says(call, f"They are {' and '.join(returned)}.")


async def test_a_model_client_calls_tools_within_its_step() -> None:
    """Each step has an agent of its own, so that steps run side by side."""
    doubled = FunctionTool(double, description="Doubles.")
    async with ModelServer(doubling) as server:
        worker = as_worker(server.client(), name="a model", tools=[doubled])
        assert worker.acts
        assert not as_worker(server.client(), tools=[doubled], acts=False).acts
        plan = planner_of((0, "x", ()), (0, "y", ()), (0, "z", (0, 1)))
        result = await Conductor(plan, [worker]).run("?")
    assert [outcome.text for outcome in result.outcomes] == ["They are 2 and 4."] * 3
    assert worker.card.concurrency is None
    with pytest.raises(ConfigError, match="give its tools to the agent itself"):
        as_worker(doubled, tools=[doubled])


async def test_a_chat_client_calls_tools_within_its_step() -> None:
    doubled = tool(double)
    async with FrameworkServer(doubling) as server:
        worker = framework_worker(server.client(), name="model", tools=[doubled])
        assert worker.acts
        result = await Conductor(planner_of((0, "x", ())), [worker]).run("?")
    assert result.answer == "They are 2 and 4."
    with pytest.raises(ConfigError, match="give its tools to the agent itself"):
        framework_worker(FrameworkConductor(Conductor(FixedPlanner("x"), [worker])), tools=[doubled])
