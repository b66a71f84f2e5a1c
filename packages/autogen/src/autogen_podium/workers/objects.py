"""What is known about AutoGen's objects: their cards, their members, and whether they act."""

from collections.abc import Iterator
from typing import Any, Final

from autogen_agentchat import teams
from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, SocietyOfMindAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, StaticWorkbench

from podium.hosts import CardMaker
from podium.hosts.workers import base_url_of, hints_act, said_acts
from podium.workers import Card

_MEMBERS: Final = ("_participants", "_team", "_wrapped_agent")
"""The attributes in which AutoGen's teams and agents hold their members."""
_KNOWN: Final = (
    AssistantAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
    *(getattr(teams, name) for name in teams.__all__),
)
"""Agents and teams that act only through their tools, members and models."""


def card_of(thing: ChatAgent | Team | ChatCompletionClient | BaseTool[Any, Any], maker: CardMaker) -> Card:
    """Return the card of an AutoGen object."""
    if isinstance(thing, ChatAgent | Team):
        return maker.card(name=thing.name, description=thing.description, concurrency=1)
    if isinstance(thing, BaseTool):
        return maker.card(name=thing.name, description=thing.description)
    info = thing.model_info
    model = str(create_args(thing).get("model") or "")
    name = model or info.get("family") or type(thing).__name__
    parts = frozenset({"image_url"} if info["vision"] else ())
    url = base_url_of(getattr(thing, "_client", None))
    return maker.card(name=str(name), description="A chat model.", parts=parts, model=model, base_url=url)


def create_args(client: ChatCompletionClient) -> dict[str, Any]:
    """Return the arguments that a client sends with every request, such as its model; empty if unknown."""
    arguments = getattr(client, "_create_args", None)
    return dict(arguments) if isinstance(arguments, dict) else {}


def members_of(agent: object) -> Iterator[object]:
    """Yield an agent or a team, and all agents, teams and managers of teams inside it.

    A team creates its manager at its first run, from the members that it has then.
    """
    yield agent
    yield from _managers(agent)
    for name in _MEMBERS:
        members = vars(agent).get(name, ())
        for member in members if isinstance(members, list | tuple) else (members,):
            if hasattr(member, "__dict__"):
                yield from members_of(member)


def _managers(team: object) -> Iterator[object]:
    """Yield the manager of a team, unless it does not exist yet or is in another process."""
    agents = getattr(vars(team).get("_runtime"), "_instantiated_agents", {})
    for agent_id, agent in agents.items():
        if agent_id.type == vars(team).get("_group_chat_manager_topic_type"):
            yield agent


def may_act(thing: Any) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen, such as a person, or an agent of the user's own class.
    """
    if isinstance(thing, BaseTool):
        return _tool_acts(thing)
    return any(map(_acts, members_of(thing)))


def acts_first(thing: Any) -> bool:
    """Return whether a call may change something before a model has answered, as only unknown classes do."""
    return any(said_acts(member) is not False and _is_unknown(member) for member in members_of(thing))


def _is_unknown(member: Any) -> bool:
    return isinstance(member, ChatAgent | Team) and type(member) not in _KNOWN


def _acts(member: Any) -> bool:
    if (said := said_acts(member)) is not None:
        return said
    if isinstance(member, ChatCompletionClient):
        return False
    if _is_unknown(member):
        return True
    model = vars(member).get("_model_client")
    benches = vars(member).get("_workbench") or ()
    return any(map(_bench_acts, benches)) or bool(said_acts(model))


def _bench_acts(bench: Any) -> bool:
    """Return whether a workbench may act; only the tools of a static one are known before it starts."""
    return not isinstance(bench, StaticWorkbench) or any(map(_tool_acts, vars(bench)["_tools"]))


def _tool_acts(tool: Any) -> bool:
    if (said := said_acts(tool)) is not None:
        return said
    if isinstance(tool, AgentTool | TeamTool):
        return may_act(vars(tool)["_task_runner"])
    served = vars(tool).get("_tool")  # of an MCP server
    hints = getattr(served, "annotations", None)
    return hints is None or hints_act(hints.model_dump(by_alias=True))
