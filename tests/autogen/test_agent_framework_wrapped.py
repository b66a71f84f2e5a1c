"""Conductors inside Agent Framework's own agents and workflows: their runs belong to the run around them."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentContext,
    ChatContext,
    WorkflowBuilder,
    WorkflowExecutor,
    agent_middleware,
    chat_middleware,
)
from agent_framework.orchestrations import SequentialBuilder
from contracts.adapter_contract import planner_of

from autogen_podium.agent_framework import ConductorAgent, ConductorChatClient, as_worker
from podium import Conductor, Limits, ScriptedWorker

pytestmark = pytest.mark.anyio

CHAIN = planner_of(*((0, f"part {number}", (number - 1,) if number else ()) for number in range(6)))
"""A plan of six calls."""


@agent_middleware
async def around_agent(context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
    """Do nothing more."""
    await call_next()


@chat_middleware
async def around_chat(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
    """Do nothing more."""
    await call_next()


def client(worker: ScriptedWorker, **options: Any) -> ConductorChatClient:
    """Return a chat client whose every answer takes six calls."""
    return ConductorChatClient(workers=[worker], planner=CHAIN, **options)


def lead(worker: ScriptedWorker, **options: Any) -> ConductorAgent:
    """Return an agent whose every answer takes six calls."""
    return ConductorAgent(workers=[worker], planner=CHAIN, name="lead", **options)


WRAPPED: dict[str, Callable[[ScriptedWorker], Any]] = {
    "agent over a client": lambda worker: Agent(client(worker), name="solo"),
    "agent with middleware": lambda worker: lead(worker, middleware=[around_agent]),
    "client with middleware": lambda worker: client(worker, middleware=[around_chat]),
    "workflow of an agent": lambda worker: WorkflowBuilder(start_executor=lead(worker)).build(),
    "workflow agent": lambda worker: SequentialBuilder(participants=[lead(worker)]).build().as_agent(),
    "workflow in a workflow": lambda worker: WorkflowBuilder(
        start_executor=WorkflowExecutor(
            WorkflowBuilder(start_executor=lead(worker)).build(), id="part", allow_direct_output=True
        )
    ).build(),
}


@pytest.mark.parametrize("make", WRAPPED.values(), ids=WRAPPED.keys())
async def test_calls_count_against_the_limits_around(make: Callable[[ScriptedWorker], Any]) -> None:
    """No more than three are made where three are allowed; where they fit, there is an answer."""
    worker = ScriptedWorker("worker", "12 m")
    inner = as_worker(make(worker), name="inner")
    outer = Conductor(planner_of((0, "Ask.", ())), [inner], limits=Limits(calls=3))
    result = await outer.run("How large?")
    assert result.status != "ok"
    assert len(worker.requests) <= 3
    fitting = Conductor(planner_of((0, "Ask.", ())), [inner], limits=Limits(calls=20))
    result = await fitting.run("How large?")
    assert result.status == "ok", result.explain()
    assert "12 m" in result.answer
