"""Cards of CrewAI's agents, crews, tools and LLMs, for the planner."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from crewai import Agent, Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool
from crewai.tools.base_tool import BaseTool

from podium.hosts import CardMaker
from podium.hosts.workers import base_url_of, said_acts
from podium.workers import Card

_MAX_CHARS: Final = 300
"""Maximum length of a backstory, a task or a tool's description on a card, in characters."""


def card_of(thing: BaseAgent | Crew | BaseLLM | BaseTool, maker: CardMaker | None = None) -> Card:
    """Return the card of a CrewAI object."""
    maker = maker or CardMaker({})
    if isinstance(thing, BaseAgent):
        return maker.card(name=thing.role, description=_agent_description(thing))
    if isinstance(thing, Crew):
        return maker.card(name=thing.name or "crew", description=_crew_description(thing))
    if isinstance(thing, BaseTool):
        return maker.card(name=thing.name, description=_cut(tool_description(thing)))
    url = base_url_of(getattr(thing, "_client", None), thing)
    return maker.card(name=thing.model, description="A language model.", model=thing.model, base_url=url)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, with numbers for duplicates: the second `Writer` becomes `Writer (2)`."""
    found: list[str] = []
    for name in names:
        own, number = name, 1
        while own in found:
            number += 1
            own = f"{name} ({number})"
        found.append(own)
    return found


def tool_description(tool: BaseTool) -> str:
    """Return a tool's original description, without CrewAI's additions."""
    return _line(tool.description.rpartition("Tool Description:")[2])


def _agent_description(agent: BaseAgent) -> str:
    texts = [_line(agent.goal), _cut(_line(agent.backstory))]
    texts += [f"Tool {tool.name}: {_cut(tool_description(tool))}" for tool in agent.tools or ()]
    return " ".join(text if text.endswith((".", "!", "?", "…")) else f"{text}." for text in texts if text)


def _crew_description(crew: Crew) -> str:
    roles = ", ".join(agent.role for agent in crew.agents)
    tasks = "; ".join(_cut(_line(task.description)) for task in crew.tasks)
    return f"A crew of {roles}. Its tasks: {tasks}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"


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
