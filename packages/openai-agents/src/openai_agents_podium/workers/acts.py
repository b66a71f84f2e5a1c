"""Whether an object of the SDK may change something in the world: see `podium.Worker.acts`."""

from typing import Any, Final

from agents import Agent, FileSearchTool, FunctionTool, Model, ModelProvider, RunConfig, WebSearchTool

from openai_agents_podium.provider import ConductorProvider
from podium.hosts.workers import hints_act, said_acts

_READ: Final = (Model, FileSearchTool, WebSearchTool)


def may_act(thing: Any, config: RunConfig | None = None) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen, such as an MCP server or an agent of the user's own class.
    """
    if (said := said_acts(thing)) is not None:
        return said
    if isinstance(thing, Agent):
        hidden = type(thing) is not Agent or bool(thing.mcp_servers or thing.handoffs)
        return hidden or any(may_act(part, config) for part in (*thing.tools, model_of(thing, config)))
    if isinstance(thing, FunctionTool):
        return _function_acts(thing, config)
    return not (thing is None or isinstance(thing, _READ))


def model_of(agent: Agent[Any], config: RunConfig | None) -> object:
    """Return the model that the SDK's runner uses for an agent.

    Returns:
        `None` if a provider of the SDK finds the model, because then it is not a conductor; the provider, if
        its `get_model` raises.
    """
    config = config or RunConfig()
    named = agent.model if config.model is None else config.model
    return named if isinstance(named, Model) else _found(config.model_provider, named)


def _found(provider: ModelProvider | None, name: str | None) -> object:
    if isinstance(provider, ConductorProvider):
        return provider.models[name] if name in provider.models else _found(provider.otherwise, name)
    if provider is None or type(provider).__module__.startswith("agents."):
        return None
    try:
        return provider.get_model(name)
    except Exception:  # noqa: BLE001 - of the user's own class; the run raises it again
        return provider


def _function_acts(tool: FunctionTool, config: RunConfig | None) -> bool:
    if (agent := getattr(tool, "_agent_instance", None)) is not None:  # made by `Agent.as_tool`
        return may_act(agent, config)
    hints = tool.mcp_annotations
    return hints is None or hints_act(hints.model_dump(by_alias=True))
