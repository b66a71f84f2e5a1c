"""Whether a CrewAI object may change something in the world: see `podium.Worker.acts`."""

from collections.abc import Iterable
from typing import Any

from crewai import Agent, Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool

from podium.hosts.workers import said_acts

_LLMS = ("llm", "function_calling_llm", "manager_llm", "planning_llm")
_REMOTE = ("apps", "mcps", "a2a")
"""Fields of an agent that add tools, or other agents, which are seen only when it runs."""


def may_act(thing: Any) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen, such as an app, an MCP server or an agent of the user's own
    class. CrewAI's tools do not say whether they only read, so they may.
    """
    if (said := said_acts(thing)) is not None:
        return said
    if isinstance(thing, BaseLLM):
        return False
    if isinstance(thing, Crew):
        tasks = [
            part for task in thing.tasks for part in (task.agent, *(task.tools or ())) if part is not None
        ]
        managers = [] if thing.manager_agent is None else [thing.manager_agent]
        return _any([*thing.agents, *tasks, *managers, *_llms(thing)])
    if isinstance(thing, BaseAgent):
        hidden = acts_first([thing]) or any(getattr(thing, name, None) for name in _REMOTE)
        return hidden or _any([*(thing.tools or ()), *_llms(thing)])
    return _any(thing.agents) if isinstance(thing, BaseAgentTool) else True


def acts_first(agents: Iterable[BaseAgent]) -> bool:
    """Return whether agents may act before a model has answered, as only those of a user's own class do."""
    return any(type(agent) is not Agent for agent in agents)


def _llms(thing: Crew | BaseAgent) -> list[BaseLLM]:
    own = vars(thing)  # getattr would warn: one field is deprecated
    return [own[name] for name in _LLMS if isinstance(own.get(name), BaseLLM)]


def _any(things: Iterable[Any]) -> bool:
    return any(map(may_act, things))
