"""Humans among the workers, and agents that hand their subtask off."""

from typing import Any

import pytest
from autogen.speaking import ModelServer, Speaker, client_of
from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, UserProxyAgent
from autogen_agentchat.agents._message_filter_agent import MessageFilterConfig
from autogen_agentchat.conditions import HandoffTermination
from autogen_agentchat.teams import RoundRobinGroupChat, Swarm
from autogen_core import CancellationToken
from contracts.adapter_contract import planner_of, saying
from servers.chat_server import Call, Reply, says

from autogen_podium import ConductorAgent, ConductorTeam, as_worker
from podium.errors import ConfigError, RunFailed
from podium.hosts import tool_call

pytestmark = pytest.mark.anyio

PLAN = planner_of((0, "Measure it.", ()), (1, "Count the doors.", ()), (2, "Approve the size.", (0,)))


def speakers() -> list[Any]:
    """Return one who measures, whose answer would clear a terminal, and one who counts."""
    return [Speaker("ruler", saying("3 m\x1b[2J")), Speaker("counter", saying("two doors"))]


@pytest.mark.parametrize(("is_async", "is_in_a_team"), [(True, False), (False, True)])
async def test_a_human_is_shown_what_the_step_is_about(*, is_async: bool, is_in_a_team: bool) -> None:
    """The question, the outputs on the access list and the subtask; nothing else, and no controls."""
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        """Answer from a thread, as AutoGen asks functions that are not async."""
        prompts.append(prompt)
        return "fine"

    async def answer_async(prompt: str, cancellation_token: CancellationToken | None) -> str:
        return answer(prompt)

    ask: Any = answer_async if is_async else answer
    proxy = UserProxyAgent("boss", input_func=ask)
    worker: Any = RoundRobinGroupChat([proxy], max_turns=1, name="boss") if is_in_a_team else proxy
    result = await ConductorTeam(workers=[*speakers(), worker], planner=PLAN).run(task="Is the room high?")
    assert result.messages[-1].to_text() == "fine"
    (prompt,) = prompts
    shown = "user: Is the room high?\n\nYour part:\nApprove the size.\n\nStep 0: Measure it.\n3 m"
    assert prompt.startswith(shown)
    assert prompt.endswith("\n\nEnter your response: ")
    assert ("doors" in prompt, "\x1b" in prompt) == (False, False)
    assert proxy.input_func == ask


def test_an_agent_with_handoffs_is_refused() -> None:
    """The plan decides who works; a handoff would be taken for the answer."""
    agent = AssistantAgent("one", client_of("http://127.0.0.1:9/v1"), handoffs=["two"])
    filtered = MessageFilterAgent("filtered", agent, MessageFilterConfig(per_source=[]))
    for each in (agent, filtered):
        with pytest.raises(ConfigError, match="has handoffs"):
            ConductorAgent("lead", workers=[each], planner=PLAN)
    as_worker(UserProxyAgent("boss"))
    as_worker(MessageFilterAgent("boss", UserProxyAgent("boss"), MessageFilterConfig(per_source=[])))


async def test_a_team_that_hands_off_to_somebody_outside_has_no_answer() -> None:
    def call_tool(call: Call) -> Reply:
        asked = tool_call("1", "transfer_to_user", "{}")
        return says(call, "", finish_reason="tool_calls", tool_calls=[asked])

    async with ModelServer(call_tool) as server:
        agent = AssistantAgent("one", server.client(), handoffs=["user"])
        swarm = Swarm([agent], name="swarm", termination_condition=HandoffTermination(target="user"))
        with pytest.raises(RunFailed, match="'one' handed its subtask off to 'user'") as raised:
            await ConductorAgent("lead", workers=[swarm], planner=planner_of((0, "x", ()))).run(task="?")
        assert len(server.calls) == 1
    (outcome,) = raised.value.result.outcomes
    assert outcome.problem.code == "worker_failed"
    assert outcome.usage.input_tokens > 0
