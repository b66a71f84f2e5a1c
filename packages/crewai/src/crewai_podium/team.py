"""Make the workers of a crew for one of its tasks, considering the task's agent and tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from crewai import Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool
from crewai.tools.base_tool import BaseTool

from crewai_podium.cards import card_of, unique_names
from crewai_podium.usage import OnUsage
from crewai_podium.workers.acts import may_act
from crewai_podium.workers.agent import AgentWorker
from podium.errors import ConfigError
from podium.policy import Policy
from podium.types import Block, Plan
from podium.workers import Card, Worker

NOT_RESTORED: Final = (
    "CrewAI restores a ConductorManager as a plain agent, without its planner and limits: give the manager a "
    "journal and run=..., and kick the crew off again"
)


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The agent and the tools of a task."""

    named: BaseAgent | None
    """The agent that the task names; `None` if it names none."""
    tools: tuple[BaseTool, ...]
    """The task's own tools."""


def task_facts(tools: Sequence[BaseTool] | None) -> TaskFacts:
    """Return the agent and the tools of a task.

    CrewAI replaces the agent of the task by the manager. But CrewAI also passes tools for delegating, and
    these tools still have the original agent.
    """
    named: BaseAgent | None = None
    own = list[BaseTool]()
    for tool in tools or ():
        if not isinstance(tool, BaseAgentTool):
            own.append(tool)
        elif len(tool.agents) == 1:
            named = tool.agents[0]
    return TaskFacts(named, tuple(own))


def team_of(
    crew: Crew,
    facts: TaskFacts,
    *,
    cards: Mapping[str, Card],
    acts: Mapping[str, bool],
    beside: Sequence[Worker],
    on_usage: OnUsage,
) -> list[Worker]:
    """Return the crew's agents as workers, followed by the other workers.

    The tools of a task are added to the tools of the agent that the task names. If the task names no agent,
    they are added to the tools of all agents.

    Args:
        crew: the crew.
        facts: the agent and the tools of the task.
        cards: cards of agents by role, instead of cards derived from the agents.
        acts: whether agents act, by role, instead of what their tools say.
        beside: other workers.
        on_usage: called with the tokens of each call of an agent.

    Raises:
        ConfigError: there is a card, or a value of `acts`, for a role that no agent has.
    """
    found = [_card(agent, cards) for agent in crew.agents]
    unknown = {*cards, *acts} - {role for agent in crew.agents for role in _roles(agent)}
    if unknown:
        told = "a card" if unknown & cards.keys() else "a value of `acts`"
        raise ConfigError(f"there is {told} for {min(unknown)!r}, a role that no agent of the crew has")
    names = unique_names([card.name for card in found])
    workers = list[Worker]()
    for agent, derived, name in zip(crew.agents, found, names, strict=True):
        takes = facts.named is None or agent is facts.named
        more = [tool for tool in facts.tools if takes and tool not in (agent.tools or ())]
        tools = [*(agent.tools or ()), *more]
        worker = AgentWorker(
            agent, card=replace(derived, name=name), crew=crew, tools=tools, on_usage=on_usage
        )
        said = [acts[role] for role in _roles(agent) if role in acts]
        worker.acts = said[0] if said else any(map(may_act, [agent, *more]))
        workers.append(worker)
    return [*workers, *beside]


def number_of(crew: Crew, named: BaseAgent) -> int:
    """Return the number of a task's agent in a crew, or else of the first agent with the same role.

    Raises:
        ConfigError: the crew has no such agent.
    """
    same = [at for at, agent in enumerate(crew.agents) if agent is named]
    alike = [at for at, agent in enumerate(crew.agents) if named.role in _roles(agent)]
    if not same and not alike:
        raise ConfigError(
            f"a task names the agent {named.role!r}, which the crew does not have: add it to Crew(agents=...)"
        )
    return (same or alike)[0]


def check_task(crew: Crew, task: Task) -> None:
    """Check that a conductor supports the settings of a crew and a task.

    Raises:
        ConfigError: it does not.
    """
    if crew._train:  # noqa: SLF001 - no public attribute has it
        raise ConfigError(
            "a ConductorManager cannot be trained: Crew.train() asks a human inside an agent's loop, and a "
            "conductor has no such loop; train the agents in a crew without it"
        )
    if task.human_input:
        raise ConfigError(
            "human_input asks inside an agent's loop, and a conductor has no such loop: give the manager "
            "policy=Policy(approve=...) to approve the plan"
        )
    if crew.checkpoint:
        raise ConfigError(f"Crew.checkpoint is set, but {NOT_RESTORED}")


def task_key(crew: Crew, task: Task) -> str:
    """Return a key of a task: the same at every kickoff, and different for each task, even with equal texts.

    The key is made from the text with filled-in inputs, because a copied task has no other text.
    """
    texts = (task.description, task.expected_output)
    alike = [other for other in crew.tasks if (other.description, other.expected_output) == texts]
    return f"{texts}:{_place(alike, task)}"


def task_number(crew: Crew, task: Task) -> int:
    """Return the number of a task in its crew; a copied task has the same number in a copied crew."""
    return _place(crew.tasks, task)


def _place(tasks: Sequence[Task], task: Task) -> int:
    return next((at for at, other in enumerate(tasks) if other is task), 0)


def last_step_policy(number: int) -> Policy:
    """Return a policy that gives the last step of every plan to one agent.

    Args:
        number: the number of the agent's worker in the pool, from 0.
    """

    def give(plan: Plan) -> Plan:
        last = plan.outline[plan.answers[-1]]
        if isinstance(last.step, Block):
            return plan
        return plan.with_step(last.path, replace(last.step, worker=number))

    return Policy(replace=give)


def _card(agent: BaseAgent, cards: Mapping[str, Card]) -> Card:
    return next((cards[role] for role in _roles(agent) if role in cards), None) or card_of(agent)


def _roles(agent: BaseAgent) -> tuple[str, ...]:
    """Return an agent's role, and the role before inputs were filled in."""
    before = agent._original_role  # noqa: SLF001 - no public attribute has it
    return (agent.role,) if before is None else (agent.role, before)
