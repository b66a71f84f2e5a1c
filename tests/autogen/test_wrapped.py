"""Conductors inside objects of the hosts: their runs belong to the run around them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_framework import Agent, ChatContext, Workflow, WorkflowBuilder, WorkflowExecutor, chat_middleware
from autogen.scripts import is_planning, shown
from autogen.speaking import ModelServer
from autogen_agentchat.agents import AssistantAgent, SocietyOfMindAgent
from autogen_agentchat.tools import AgentTool, TeamTool
from contracts.adapter_contract import planner_of
from servers.chat_server import USAGE, Call, Reply, says, whole

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam, as_worker
from autogen_podium.agent_framework import (
    ConductorAgent as FrameworkConductor,
    ConductorChatClient,
    as_worker as in_framework,
)
from podium import Conductor, Limits, Plan, Retry, ScriptedWorker, Step
from podium.hosts import tool_call
from podium.plan_text import write_plan
from podium.usage import Usage

pytestmark = pytest.mark.anyio

ONCE: Any = {"retry": Retry(attempts=1)}
TWO = write_plan(Plan((Step(0, "first part"), Step(0, "second part", (0,)))), "rows")
ONE_CALL = Usage(USAGE["prompt_tokens"], USAGE["completion_tokens"]).total_tokens
CHAIN = planner_of(*((0, f"part {number}", (number - 1,) if number else ()) for number in range(6)))
"""A plan of six calls."""


def client(worker: ScriptedWorker) -> ConductorChatCompletionClient:
    return ConductorChatCompletionClient(workers=[worker], planner=CHAIN)


def lead(worker: ScriptedWorker) -> ConductorAgent:
    return ConductorAgent("lead", workers=[worker], planner=CHAIN)


def society(worker: ScriptedWorker) -> Any:
    return SocietyOfMindAgent("society", ConductorTeam(workers=[worker], planner=CHAIN), client(worker))


def tool_of_team(worker: ScriptedWorker) -> Any:
    return TeamTool(ConductorTeam(workers=[worker], planner=CHAIN), "room", "Measures.")


@chat_middleware
async def around_chat(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
    await call_next()


def framework_client(worker: ScriptedWorker, **options: Any) -> ConductorChatClient:
    return ConductorChatClient(workers=[worker], planner=CHAIN, **options)


def framework_lead(worker: ScriptedWorker, **options: Any) -> FrameworkConductor:
    return FrameworkConductor(workers=[worker], planner=CHAIN, name="lead", **options)


def flow_in_a_flow(worker: ScriptedWorker) -> Workflow:
    inner = WorkflowBuilder(start_executor=framework_lead(worker)).build()
    part = WorkflowExecutor(inner, id="part", allow_direct_output=True)
    return WorkflowBuilder(start_executor=part).build()


WRAPPED: dict[str, Callable[[ScriptedWorker], Any]] = {
    "streaming agent": lambda worker: AssistantAgent("solo", client(worker), model_client_stream=True),
    "society": society,
    "tool of a team": tool_of_team,
}
IN_FRAMEWORK: dict[str, Callable[[ScriptedWorker], Any]] = {
    "framework agent": lambda worker: Agent(framework_client(worker), name="solo"),
    "client with middleware": lambda worker: framework_client(worker, middleware=[around_chat]),
    "workflow in a workflow": flow_in_a_flow,
}


@pytest.mark.parametrize(
    ("wrap", "make"),
    [*((as_worker, make) for make in WRAPPED.values()), *((in_framework, m) for m in IN_FRAMEWORK.values())],
    ids=[*WRAPPED, *IN_FRAMEWORK],
)
async def test_calls_count_against_the_limits_around(wrap: Any, make: Any) -> None:
    """No more than three are made where three are allowed; where they fit, there is an answer."""
    worker = ScriptedWorker("worker", "12 m")
    inner = wrap(make(worker), name="inner")
    for calls, is_ok in ((3, False), (20, True)):
        outer = Conductor(planner_of((0, "Ask.", ())), [inner], limits=Limits(calls=calls))
        result = await outer.run("How large?")
        assert (result.status == "ok") is is_ok, result.explain()
        assert len(worker.requests) <= calls
    assert "12 m" in result.answer


@pytest.mark.parametrize(("kind", "status"), [("agent", 400), ("team", 500)])
async def test_a_conductor_in_a_tool_is_billed_once_however_it_ends(kind: str, status: int) -> None:
    """The messages inside a run are on the agent's stream, but a run without an answer is not all there."""
    paid: list[str] = []

    def reply(call: Call) -> Reply:
        text = shown(call)
        if "tools" in call.body and "tool_calls" not in text:
            paid.append("ask")
            asked = tool_call("1", "room", '{"task": "x"}')
            return says(call, "", tool_calls=[asked], finish_reason="tool_calls")
        if "second part" in text.rpartition("Your part")[2]:
            return whole({"error": {"message": "broken"}}, status=status)
        paid.append("plan" if is_planning(call) else "say")
        return says(call, TWO if is_planning(call) else "12 m")

    async with ModelServer(reply) as server:
        member = AssistantAgent("member", server.client(), description="Measures.")
        options: Any = {"workers": [member], "planner": server.client(), **ONCE}
        tool: Any = AgentTool(ConductorAgent("room", **options))
        if kind == "team":
            tool = TeamTool(ConductorTeam(**options), "room", "Measures.")
        solo = AssistantAgent("solo", server.client(), tools=[tool], reflect_on_tool_use=True)
        result = await Conductor(planner_of((0, "Ask.", ())), [as_worker(solo)], **ONCE).run("How large?")
    assert (result.answer, result.status) == ("12 m", "partial")
    lost = result.usage.total_tokens - len(paid) * ONE_CALL
    # A call that ends with 500 may be billed for its prompt, which is counted.
    assert 0 <= lost < 2 * ONE_CALL if status == 500 else lost == 0
