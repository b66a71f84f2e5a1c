"""What a planner is told of an agent, a crew, a tool or an LLM: a card derived from what it is.

It owns how names and descriptions are read off CrewAI's objects. It calls none of them.
"""

from collections.abc import Sequence
from typing import Final

from crewai import Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool

from podium.errors import ConfigError
from podium.workers import Card

_MOST_TOLD: Final = 300
"""Most characters of a backstory, or of a tool's description, that a planner is shown."""


def card_of(thing: BaseAgent | Crew | BaseLLM | BaseTool) -> Card:
    """Return the card of something of CrewAI's, its price unknown."""
    if isinstance(thing, BaseAgent):
        return Card(name=_name(thing.role), description=_of_agent(thing))
    if isinstance(thing, Crew):
        return Card(name=_name(thing.name or "crew"), description=_of_crew(thing))
    if isinstance(thing, BaseTool):
        return Card(name=_name(thing.name), description=_cut(tool_description(thing)))
    return Card(name=_name(thing.model), description="A language model.")


def names_of(names: Sequence[str]) -> list[str]:
    """Return the names, each made one of its own: the second `Writer` becomes `Writer (2)`."""
    found: list[str] = []
    for name in names:
        own, number = name, 1
        while own in found:
            number += 1
            own = f"{name} ({number})"
        found.append(own)
    return found


def tool_description(tool: BaseTool) -> str:
    """Return what a tool's author says of it, without what CrewAI has put around that."""
    _, _, said = tool.description.rpartition("Tool Description:")
    return _line(said)


def _of_agent(agent: BaseAgent) -> str:
    told = [_line(agent.goal), _cut(_line(agent.backstory))]
    told += [f"Tool {tool.name}: {_cut(tool_description(tool))}" for tool in agent.tools or ()]
    return " ".join(text if text.endswith((".", "!", "?", "…")) else f"{text}." for text in told if text)


def _of_crew(crew: Crew) -> str:
    roles = ", ".join(_name(agent.role) for agent in crew.agents)
    tasks = "; ".join(_cut(_line(task.description)) for task in crew.tasks)
    return f"A crew of {roles}. What it does: {tasks}"


def _name(told: str) -> str:
    clean = _line("".join(char if char.isprintable() else " " for char in told))
    if not clean:
        raise ConfigError("a worker needs a name: give the agent a role, or as_worker a name")
    return clean


def _line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"
