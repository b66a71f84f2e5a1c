"""Whether an AutoGen object may change something in the world: see `podium.Worker.acts`."""

from typing import Any, Final

from autogen_agentchat import teams
from autogen_agentchat.agents import AssistantAgent, MessageFilterAgent, SocietyOfMindAgent
from autogen_agentchat.base import ChatAgent, Team
from autogen_agentchat.tools import AgentTool, TeamTool
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool, StaticWorkbench

from autogen_podium.workers.members import members_of
from podium.hosts.workers import hints_act, said_acts

_KNOWN: Final = (
    AssistantAgent,
    MessageFilterAgent,
    SocietyOfMindAgent,
    *(getattr(teams, name) for name in teams.__all__),
)
"""Agents and teams that act only through their tools, members and models."""


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
