"""The workers of a crew for one of its tasks, and who of them is to have the last word.

It owns what a task's agent and a task's tools mean to a plan. It knows no planner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from crewai import Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool
from crewai.tools.base_tool import BaseTool

from crewai_podium.cards import card_of, names_of
from crewai_podium.spending import Spent
from crewai_podium.workers.agent import AgentWorker
from podium.errors import ConfigError
from podium.policy import Policy
from podium.types import Plan
from podium.workers import Card, Worker


@dataclass(frozen=True, slots=True)
class Asked:
    """What a crew hands its manager with a task."""

    named: BaseAgent | None
    """The agent the task was given to; `None` where that is the manager's choice."""
    tools: tuple[BaseTool, ...]
    """The task's own."""


def asked_of(tools: Sequence[BaseTool] | None) -> Asked:
    """Read what a crew hands a manager: CrewAI puts the manager in the place of the task's agent first.

    The tools it hands along for delegating tell to whom the task may be delegated.
    """
    named: BaseAgent | None = None
    own = list[BaseTool]()
    for tool in tools or ():
        if not isinstance(tool, BaseAgentTool):
            own.append(tool)
        elif len(tool.agents) == 1:
            named = tool.agents[0]
    return Asked(named, tuple(own))


def team_of(
    crew: Crew,
    asked: Asked,
    *,
    cards: Mapping[str, Card],
    beside: Sequence[Worker],
    spent: Spent,
) -> list[Worker]:
    """Return the crew's agents as workers, then those beside them.

    A task's tools go to the agent it names, else to every agent, beside its own.

    Args:
        crew: whose agents they are.
        asked: what comes with the task.
        cards: what the planner is told of an agent, by its role, in place of what it says of itself.
        beside: other workers.
        spent: is told what each call of an agent has spent.

    Raises:
        ConfigError: there is a card for a role that nobody has.
    """
    found = [_card(agent, cards) for agent in crew.agents]
    unknown = set(cards) - {role for agent in crew.agents for role in _roles(agent)}
    if unknown:
        raise ConfigError(f"there is a card for {min(unknown)!r}, a role that no agent of the crew has")
    names = names_of([card.name for card in found])
    workers = list[Worker]()
    for agent, card, name in zip(crew.agents, found, names, strict=True):
        takes = asked.named is None or agent is asked.named
        more = [tool for tool in asked.tools if takes and tool not in (agent.tools or ())]
        tools = [*(agent.tools or ()), *more]
        workers.append(AgentWorker(agent, card=replace(card, name=name), crew=crew, tools=tools, spent=spent))
    return [*workers, *beside]


def number_of(crew: Crew, named: BaseAgent) -> int | None:
    """Return which of a crew's agents that is: itself, else the first in its role; `None` for no one."""
    same = [at for at, agent in enumerate(crew.agents) if agent is named]
    alike = [at for at, agent in enumerate(crew.agents) if named.role in _roles(agent)]
    return next(iter(same + alike), None)


def last_word(number: int) -> Policy:
    """Return the policy under which plans end with one of the crew's agents, by its number."""

    def give(plan: Plan) -> Plan:
        *before, last = plan.steps
        return replace(plan, steps=(*before, replace(last, worker=number)))

    return Policy(replace=give)


def _card(agent: BaseAgent, cards: Mapping[str, Card]) -> Card:
    return next((cards[role] for role in _roles(agent) if role in cards), None) or card_of(agent)


def _roles(agent: BaseAgent) -> tuple[str, ...]:
    """Return an agent's role, and what it was before inputs were put into it."""
    before = agent._original_role  # noqa: SLF001 - what its owner wrote, and kept nowhere else
    return (agent.role,) if before is None else (agent.role, before)
