"""Whether an object of the SDK may change something in the world: see `podium.Worker.acts`."""

from typing import Any, Final

from agents import Agent, FileSearchTool, FunctionTool, Model, WebSearchTool

from podium.hosts import hints_act, said_acts

_READ: Final = (Model, FileSearchTool, WebSearchTool)


def may_act(thing: Any) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen, such as an MCP server or an agent of the user's own class.
    """
    if (said := said_acts(thing)) is not None:
        return said
    if isinstance(thing, Agent):
        hidden = type(thing) is not Agent or bool(thing.mcp_servers or thing.handoffs)
        model = [thing.model] if isinstance(thing.model, Model) else []
        return hidden or any(map(may_act, [*thing.tools, *model]))
    if isinstance(thing, FunctionTool):
        return _function_acts(thing)
    return not isinstance(thing, _READ)


def _function_acts(tool: FunctionTool) -> bool:
    if (agent := getattr(tool, "_agent_instance", None)) is not None:  # made by `Agent.as_tool`
        return may_act(agent)
    hints = tool.mcp_annotations
    return hints is None or hints_act(hints.model_dump(by_alias=True))
