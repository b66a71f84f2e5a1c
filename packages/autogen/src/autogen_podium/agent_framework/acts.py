"""Whether an Agent Framework object may change something in the world: see `podium.Worker.acts`."""

from collections.abc import Mapping
from typing import Any

from agent_framework import (
    Agent,
    AgentExecutor,
    FunctionTool,
    HistoryProvider,
    RawAgent,
    SupportsChatGetResponse,
    Workflow,
    WorkflowAgent,
)

from podium.hosts import hints_act, said_acts


def may_act(thing: Any) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen: middleware, a context provider, an MCP server, an executor or an
    agent of the user's own class. A function may, unless its `additional_properties` have MCP's
    `readOnlyHint` or `idempotentHint`.
    """
    if (said := said_acts(thing)) is not None:
        return said or _is_wrapped(thing)
    if isinstance(thing, WorkflowAgent):
        return may_act(thing.workflow)
    if isinstance(thing, Workflow):
        return any(map(_executor_acts, thing.executors.values()))
    if isinstance(thing, RawAgent):
        tools = thing.default_options.get("tools") or ()
        hidden = type(thing) not in (Agent, RawAgent) or thing.mcp_tools or _is_wrapped(thing)
        return bool(hidden) or any(map(_tool_acts, tools)) or may_act(thing.client)
    return not isinstance(thing, SupportsChatGetResponse)


def _is_wrapped(agent: Any) -> bool:
    """Return whether an agent runs code of the user's: middleware, or providers, which may add tools."""
    providers = getattr(agent, "context_providers", None) or ()
    hidden = [each for each in providers if not isinstance(each, HistoryProvider)]
    return bool(hidden or getattr(agent, "middleware", None))


def _executor_acts(executor: Any) -> bool:
    if isinstance(executor, AgentExecutor):
        return may_act(executor.agent)
    return said_acts(executor) is not False


def _tool_acts(tool: Any) -> bool:
    if isinstance(tool, FunctionTool):
        return hints_act(tool.additional_properties or {})
    kind = tool.get("type", "") if isinstance(tool, Mapping) else ""
    return "search" not in kind  # a search that the model's provider runs
