"""Conductors inside AutoGen's own agents, teams and tools: their runs belong to the run around them."""

from collections.abc import Callable
from typing import Any

import pytest
from autogen.scripts import is_planning, shown
from autogen.speaking import ModelServer
from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, SocietyOfMindAgent
from autogen_agentchat.agents._message_filter_agent import MessageFilterConfig, PerSourceFilter
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_agentchat.tools import AgentTool, TeamTool
from contracts.adapter_contract import planner_of
from servers.chat_server import USAGE, Call, Reply, says, whole

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam, as_worker
from podium import Conductor, Limits, ScriptedWorker
from podium.execution import Retry
from podium.usage import Usage

pytestmark = pytest.mark.anyio

ONCE: Any = {"retry": Retry(attempts=1)}
TWO = (
    '{"worker": 0, "subtask": "first part", "access": []}\n'
    '{"worker": 0, "subtask": "second part", "access": [0]}'
)
ONE_CALL = Usage(USAGE["prompt_tokens"], USAGE["completion_tokens"]).total_tokens
CHAIN = planner_of(*((0, f"part {number}", (number - 1,) if number else ()) for number in range(6)))
"""A plan of six calls."""


def client(worker: ScriptedWorker) -> ConductorChatCompletionClient:
    """Return a model client whose every answer takes six calls."""
    return ConductorChatCompletionClient(workers=[worker], planner=CHAIN)


def chat(worker: ScriptedWorker) -> Any:
    """Return a team with such a conductor, and one who ends the conversation."""
    return RoundRobinGroupChat(
        [ConductorAgent("lead", workers=[worker], planner=CHAIN)], max_turns=1, name="chat"
    )


WRAPPED: dict[str, Callable[[ScriptedWorker], Any]] = {
    "agent over a client": lambda worker: AssistantAgent("solo", client(worker)),
    "streaming agent over a client": lambda worker: AssistantAgent(
        "solo", client(worker), model_client_stream=True
    ),
    "team of an agent": chat,
    "swarm of an agent over a client": lambda worker: Swarm(
        [AssistantAgent("solo", client(worker))], max_turns=1, name="swarm"
    ),
    "society of a team": lambda worker: SocietyOfMindAgent(
        "society", ConductorTeam(workers=[worker], planner=CHAIN), client(worker)
    ),
    "filter of an agent": lambda worker: MessageFilterAgent(
        "filtered",
        ConductorAgent("lead", workers=[worker], planner=CHAIN),
        MessageFilterConfig(per_source=[PerSourceFilter(source="user")]),
    ),
    "tool of an agent": lambda worker: AgentTool(ConductorAgent("lead", workers=[worker], planner=CHAIN)),
    "tool of a team": lambda worker: TeamTool(chat(worker), "room", "Measures."),
    "tool of a conducting team": lambda worker: TeamTool(
        ConductorTeam(workers=[worker], planner=CHAIN),  # type: ignore[arg-type]
        "room",
        "Measures.",
    ),
}


@pytest.mark.parametrize("make", WRAPPED.values(), ids=WRAPPED.keys())
async def test_calls_count_against_the_limits_around(make: Callable[[ScriptedWorker], Any]) -> None:
    """No more than three are made where three are allowed; where they fit, there is an answer."""
    worker = ScriptedWorker("worker", "12 m")
    outer = ConductorAgent(
        "outer", workers=[make(worker)], planner=planner_of((0, "Ask.", ())), limits=Limits(calls=3)
    )
    result = await outer.conductor.run("How large?")
    assert result.status != "ok"
    assert len(worker.requests) <= 3
    fitting = Conductor(planner_of((0, "Ask.", ())), [*outer.conductor.pool], limits=Limits(calls=20))
    result = await fitting.run("How large?")
    assert result.status == "ok", result.explain()
    assert "12 m" in result.answer


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("kind", ["agent", "team", "team of one turn"])
async def test_a_conductor_in_a_tool_is_billed_once_however_it_ends(kind: str, status: int) -> None:
    """The messages inside a run are on the agent's stream, but a run without an answer is not all there."""
    paid: list[str] = []

    def reply(call: Call) -> Reply:
        text = shown(call)
        if "tools" in call.body and "tool_calls" not in text:
            asked = {
                "id": "1",
                "type": "function",
                "function": {"name": "room", "arguments": '{"task": "x"}'},
            }
            paid.append("ask")
            return says(call, "", tool_calls=[asked], finish_reason="tool_calls")
        if status != 200 and "second part" in text.rpartition("Your part")[2]:
            return whole({"error": {"message": "broken"}}, status=status)
        paid.append("plan" if is_planning(call) else "say")
        return says(call, TWO if is_planning(call) else "12 m")

    async with ModelServer(reply) as server:
        member = AssistantAgent("member", server.client(), description="Measures.")
        options: Any = {"retry": Retry(attempts=1)}
        tool: Any
        if kind == "agent":
            tool = AgentTool(ConductorAgent("room", workers=[member], planner=server.client(), **options))
        else:
            options |= {"max_turns": 1} if kind == "team of one turn" else {}
            tool = TeamTool(
                ConductorTeam(workers=[member], planner=server.client(), **options), "room", "Measures."
            )  # type: ignore[arg-type]
        solo = AssistantAgent("solo", server.client(), tools=[tool], reflect_on_tool_use=True)
        result = await Conductor(planner_of((0, "Ask.", ())), [as_worker(solo)], **ONCE).run("How large?")
    assert result.answer == "12 m"
    assert result.status == ("ok" if status == 200 and kind != "team of one turn" else "partial")
    lost = result.usage.total_tokens - len(paid) * ONE_CALL
    # A call that ends with 500 may be billed for its prompt, which is counted.
    assert 0 <= lost < 2 * ONE_CALL if status == 500 else lost == 0
