"""Conductors as components: dumped with their participants, loaded, and as good as before."""

import json
from typing import Any

import pytest
from autogen.scripts import model, shown, team
from autogen.speaking import ModelServer, Speaker
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import TeamTool
from autogen_core import CancellationToken, ComponentModel
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import ChatCompletionClient, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient
from contracts.adapter_contract import planner_of, saying

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam
from autogen_podium.workers import as_worker
from podium import Card, Conductor, FunctionWorker, Limits, Price, ScriptedWorker
from podium.errors import ConfigError, PlannerError
from podium.execution import Hedge, Retry
from podium.policy import Policy

pytestmark = pytest.mark.anyio


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def stored(component: ComponentModel) -> ComponentModel:
    """Return a component after it was a file."""
    return ComponentModel.model_validate_json(component.model_dump_json())


@pytest.mark.long
async def test_an_agent_with_all_kinds_of_participants() -> None:
    """Agents, a team, a tool, a client and another conductor, with their cards."""
    async with ModelServer(model) as server:
        priced = as_worker(
            server.client(),
            name="cheap",
            price=Price(input=1.0, output=2.0),
            labels=["eu"],
            description="Cheap.",
        )
        participants = [
            *team(server),
            as_worker(RoundRobinGroupChat(list(team(server)), max_turns=1), name="chat"),
            FunctionTool(double, description="Doubles."),
            priced,
            ConductorAgent("inner", team(server), server.client()),
        ]
        agent = ConductorAgent(
            "lead",
            participants,
            server.client(),
            description="Leads.",
            limits=Limits(steps=7, seconds=30),
            on_failure="skip",
            model_context=BufferedChatCompletionContext(buffer_size=5),
            emit_plan_events=True,
        )
        component = agent.dump_component()
        assert component.provider == "autogen_podium.ConductorAgent"
        with server.adopting(), pytest.warns(UserWarning, match="Loading a FunctionTool"):
            loaded = ChatAgent.load_component(stored(component))
        assert isinstance(loaded, ConductorAgent)
        assert loaded.conductor.pool.cards == agent.conductor.pool.cards
        assert loaded.conductor.limits == agent.conductor.limits
        result = await loaded.run(task="How large?")
    assert result.messages[-1].to_text() == "12 square metres."


async def test_a_team_with_its_conditions() -> None:
    """They end the loaded team's runs."""
    async with ModelServer(model) as server:
        condition = MaxMessageTermination(2) | TextMentionTermination("nothing")
        made = ConductorTeam(team(server), server.client(), termination_condition=condition, max_turns=3)
        with server.adopting():
            loaded = Team.load_component(stored(made.dump_component()))
        assert stored(loaded.dump_component()) == stored(made.dump_component())
        result = await loaded.run(task="How large?")
    assert "Maximum number of messages" in (result.stop_reason or "")
    assert isinstance(loaded, ConductorTeam)
    assert loaded.conductor.limits.steps == 3


async def test_a_client() -> None:
    """In place of a model's, wherever one is loaded."""
    async with ModelServer(model) as server:
        made = ConductorChatCompletionClient(team(server), server.client(), context_window=1000)
        with server.adopting():
            loaded = ChatCompletionClient.load_component(stored(made.dump_component()))
        result = await loaded.create([UserMessage(content="How large?", source="user")])
        assert loaded.remaining_tokens([]) == 1000
    assert result.content == "12 square metres."


async def test_no_key_is_dumped() -> None:
    """As AutoGen's own clients see to it."""
    async with ModelServer(model) as server:
        made = ConductorAgent("lead", team(server), server.client(api_key="sk-very-secret-key"))
        text = made.dump_component().model_dump_json()
    assert "sk-very-secret-key" not in text
    assert "scripted-1" in json.dumps(json.loads(text))


async def test_a_fallback_planner_and_retries_are_dumped() -> None:
    """The loaded conductor plans with it, and retries as the first did."""
    retry = Retry(attempts=2, first_wait=0.25, fallbacks={"model": ["other"]}, hedge=Hedge(seconds=3.0))
    async with ModelServer(model) as server:
        made = ConductorAgent(
            "lead",
            [as_worker(server.client(), name=name) for name in ("model", "other")],
            ReplayChatCompletionClient(["no plan"] * 4),
            fallback_planner=server.client(),
            retry=retry,
            cache="run",
        )
        component = stored(made.dump_component())
        assert component.config["retry"]["attempts"] == 2
        with server.adopting():
            loaded = ChatAgent.load_component(component)
        assert stored(loaded.dump_component()) == component
        with pytest.raises(PlannerError) as raised:  # the plan names workers that are not there
            await loaded.run(task="How large?")
    assert any("scripted-1" in call.planner for call in raised.value.calls)


async def test_a_tool_that_is_a_conducting_team_is_loaded() -> None:
    """AutoGen's `TeamTool` loads only teams that count as group chats."""
    async with ModelServer(model) as server:
        room: Any = ConductorTeam(team(server), server.client())
        tool = TeamTool(room, "room", "Measures.", return_value_as_last_message=True)
        with server.adopting():
            loaded = TeamTool.load_component(stored(tool.dump_component()))
        result = await loaded.run_json({"task": "How large?"}, CancellationToken())
    assert loaded.return_value_as_string(result) == "12 square metres."


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        (
            lambda: ConductorAgent("a", Conductor(planner_of((0, "x", ())), [ScriptedWorker("w", "x")])),
            "Conductor",
        ),
        (lambda: ConductorAgent("a", [Speaker("w", saying(""))], planner_of((0, "x", ()))), "planner"),
        (lambda: ConductorAgent("a", [FunctionWorker(print, card=Card(name="w"))]), "'w', a FunctionWorker"),
        (lambda: ConductorAgent("a", [Speaker("w", saying(""))], policy=Policy(steps=1)), "policy"),
    ],
)
def test_what_has_no_form_is_told(agent: object, told: str) -> None:
    """With what to do in its place."""
    assert callable(agent)
    with pytest.raises(ConfigError, match=told):
        agent().dump_component()


async def test_a_loaded_worker_still_sees_its_access_list() -> None:
    """Nothing of the sort is lost on the way."""
    async with ModelServer(model) as server:
        with server.adopting():
            made = ConductorAgent("lead", team(server), server.client())
            loaded = ChatAgent.load_component(made.dump_component())
        await loaded.run(task="How large?")
        first = next(
            shown(call) for call in server.calls if "Find the height." in shown(call).split("Your part")[-1]
        )
    assert "It is 4 m." not in first
