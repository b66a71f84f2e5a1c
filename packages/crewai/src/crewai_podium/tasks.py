"""Make the workers of a crew for one of its tasks, considering the task's agent and tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from crewai import Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.tools.agent_tools.base_agent_tools import BaseAgentTool
from crewai.tools.base_tool import BaseTool

from crewai_podium.cards import card_of, may_act, unique_names
from crewai_podium.workers.agent import AgentWorker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.policy import Policy
from podium.run import Listener
from podium.run_state import unbilled
from podium.run_state.paid import PaidResults
from podium.types import Block, Event, Plan, Problem, Result
from podium.types.events import PIECES
from podium.workers import Card, Worker

NOT_RESTORED: Final = (
    "CrewAI restores a ConductorManager as a plain agent, without its planner and limits: give the manager a "
    "journal and run_id=..., and kick the crew off again"
)


def agent_and_tools(tools: Sequence[BaseTool] | None) -> tuple[BaseAgent | None, list[BaseTool]]:
    """Return the agent that a task names, and the task's own tools.

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
    return named, own


def agents_of(
    crew: Crew, tools: Sequence[BaseTool] | None, *, cards: Mapping[str, Card], acts: Mapping[str, bool]
) -> list[Worker]:
    """Return the crew's agents as workers for a task, which CrewAI passes with these tools.

    The tools of a task are added to the tools of the agent that the task names. If the task names no agent,
    they are added to the tools of all agents.
    """
    named, own = agent_and_tools(tools)
    _check_roles(crew, cards, acts)
    found = [_card(agent, cards) for agent in crew.agents]
    names = unique_names([card.name for card in found])
    workers = list[Worker]()
    for agent, derived, name in zip(crew.agents, found, names, strict=True):
        takes = named is None or agent is named
        more = [tool for tool in own if takes and tool not in (agent.tools or ())]
        card, held = replace(derived, name=name), [*(agent.tools or ()), *more]
        worker = AgentWorker(agent, card=card, crew=crew, tools=held)
        said = [acts[role] for role in _roles(agent) if role in acts]
        worker.acts = said[0] if said else any(map(may_act, [agent, *more]))
        workers.append(worker)
    return workers


def _check_roles(crew: Crew, cards: Mapping[str, Card], acts: Mapping[str, bool]) -> None:
    """Check that each card and each value of `acts` is for one agent of the crew."""
    for option, given in (("cards", cards), ("acts", acts)):
        for role in given:
            if (count := len(_alike(crew, role))) != 1:
                has = "no agent has" if not count else f"{count} agents have"
                raise ConfigError(f"{option} names the role {role!r}, which {has} in the crew: {_ONE_ROLE}")


_ONE_ROLE = "give each agent a role of its own"


def number_of(crew: Crew, named: BaseAgent) -> int:
    """Return the number of a task's agent in a crew, or else of the only agent with the same role."""
    same = [at for at, agent in enumerate(crew.agents) if agent is named]
    alike = same or _alike(crew, named.role)
    if len(alike) != 1:
        has = "the crew does not have: add it to Crew(agents=...)"
        told = f"{len(alike)} agents of the crew have: {_ONE_ROLE}" if alike else has
        raise ConfigError(f"a task names the agent {named.role!r}, which {told}")
    return alike[0]


def _alike(crew: Crew, role: str) -> list[int]:
    return [at for at, agent in enumerate(crew.agents) if role in _roles(agent)]


def check_task(crew: Crew) -> None:
    """Check that a conductor supports the settings of a crew."""
    if crew._train:  # noqa: SLF001 - no public attribute has it
        raise ConfigError(
            "a ConductorManager cannot be trained: Crew.train() asks a human inside an agent's loop, and a "
            "conductor has no such loop; train the agents in a crew without it"
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
    """Return a policy that gives the last step of every plan to one agent."""

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


_MAX_NAME: Final = 80


@dataclass
class TaskState:
    """What a manager knows of a task of a crew, from the latest runs for it."""

    named: int | None = None
    """The number of the agent that the task names; CrewAI removes it from the task at the first kickoff."""
    problem: Problem | None = None
    """Why the latest answer is partial."""
    labels: frozenset[str] = frozenset()
    """The labels of the latest answer."""
    began: datetime | None = None
    """When CrewAI began to execute the task; a run after a guardrail does not change it."""
    run_ids: list[str] = field(default_factory=list)
    """The runs of the latest execution."""
    _heard: list[Event] = field(default_factory=list)
    """The events of these runs, without a journal."""

    def begin(self, task: Task) -> None:
        """Forget the runs of an earlier execution."""
        if self.began != task.start_time:
            self.began, self.run_ids, self._heard = task.start_time, [], []

    def listener(self, task: Task, conductor: Conductor, on_event: Listener | None) -> Listener | None:
        """Return a listener that stores what `actions` needs, and passes each event to `on_event`."""
        if not _may_repeat(task) or not conductor.acts or conductor.journal is not None:
            return on_event

        def hear(event: Event) -> None:
            if not isinstance(event, PIECES):
                self._heard.append(event)
            if on_event is not None:
                on_event(event)

        return hear

    async def actions(self, task: Task, conductor: Conductor) -> PaidResults | None:
        """Return the actions of the earlier runs of this execution; `None` if there are none."""
        events, journal = self._heard, conductor.journal
        if journal is not None and _may_repeat(task):
            events = []
            for run_id in self.run_ids:
                events += [entry.event for entry in await journal.read(run_id)]
                events += [event for run in await journal.nested(run_id) for event in run]
        if not events:
            return None
        return PaidResults(self.run_ids[-1], actions=unbilled(events, conductor.pool.names).actions)


def _may_repeat(task: Task) -> bool:
    """Return whether a guardrail or a person may reject the answer."""
    return bool(task.guardrail or task.guardrails or task.human_input)


TaskStates = dict[int, TaskState]
"""The states of a crew's tasks, by their numbers."""


def question_labels(crew: Crew, states: TaskStates, task: Task, context: str | None) -> frozenset[str]:
    """Return the labels of the outputs in the context of a task, and of its answers that were rejected."""
    shown = [
        states[number].labels
        for number, other in enumerate(crew.tasks)
        if number in states and (states[number].run_ids if other is task else _is_shown(other, context))
    ]
    return frozenset().union(*shown)


def with_gaps(crew: Crew, states: TaskStates, task: Task, context: str | None, result: Result) -> Result:
    """Return a task's result, as partial if its context has partial outputs of other tasks."""
    problems = [
        Problem(problem.code, f"the output of task {_name(other)!r} is partial: {problem.message}")
        for number, other in enumerate(crew.tasks)
        if other is not task and number in states and _is_shown(other, context)
        if (problem := states[number].problem) is not None
    ]
    if not problems or result.status not in ("ok", "partial"):
        return result
    problems[:0] = [] if result.problem is None else [result.problem]
    words = "; ".join(problem.message for problem in problems)
    return replace(result, status="partial", problem=Problem(problems[0].code, words))


def _is_shown(task: Task, context: str | None) -> bool:
    output = task.output
    return bool(context and output is not None and output.raw and output.raw in context)


def _name(task: Task) -> str:
    name = " ".join((task.name or task.description).split())
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
