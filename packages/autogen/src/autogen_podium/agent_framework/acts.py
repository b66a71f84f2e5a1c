"""Whether an Agent Framework object may change something in the world: see `podium.Worker.acts`."""

from collections.abc import Mapping
from typing import Any, Final

from agent_framework import (
    Agent,
    AgentExecutor,
    FunctionInvocationLayer,
    FunctionTool,
    HistoryProvider,
    RawAgent,
    SupportsChatGetResponse,
    Workflow,
    WorkflowAgent,
)

from podium.hosts.workers import hints_act, said_acts

_MIDDLEWARE: Final = ("middleware", "chat_middleware", "function_middleware")
"""The attributes of agents and clients that have middleware."""


def may_act(thing: Any) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen: middleware, a context provider, an MCP server, an executor or an
    agent of the user's own class. A function may, unless its `additional_properties` have MCP's
    `readOnlyHint` or `idempotentHint`.
    """
    if (said := said_acts(thing)) is not None:
        return said or is_wrapped(thing)
    if isinstance(thing, WorkflowAgent):
        return may_act(thing.workflow)
    if isinstance(thing, Workflow):
        return any(map(_executor_acts, thing.executors.values()))
    if isinstance(thing, RawAgent):
        tools = thing.default_options.get("tools") or ()
        hidden = type(thing) not in (Agent, RawAgent) or thing.mcp_tools or is_wrapped(thing)
        return bool(hidden) or any(map(_tool_acts, tools)) or may_act(thing.client)
    return not isinstance(thing, SupportsChatGetResponse) or is_wrapped(thing)


def acts_first(agent: Any) -> bool:
    """Return whether an agent may change something before its model has answered: if it runs unknown code."""
    client = getattr(agent, "client", None)
    calls_tools = isinstance(client, FunctionInvocationLayer) and not said_acts(client)
    return type(agent) is not Agent or not calls_tools or is_wrapped(agent) or is_wrapped(client)


def is_wrapped(thing: Any) -> bool:
    """Return whether a thing runs code of the user's: middleware, or providers, which may add tools."""
    providers = getattr(thing, "context_providers", None) or ()
    hidden = [each for each in providers if not isinstance(each, HistoryProvider)]
    return bool(hidden) or any(getattr(thing, name, None) for name in _MIDDLEWARE)


def _executor_acts(executor: Any) -> bool:
    if isinstance(executor, AgentExecutor):
        return may_act(executor.agent)
    return said_acts(executor) is not False


def _tool_acts(tool: Any) -> bool:
    if isinstance(tool, FunctionTool):
        return hints_act(tool.additional_properties or {})
    kind = tool.get("type", "") if isinstance(tool, Mapping) else ""
    return "search" not in kind  # a search that the model's provider runs
