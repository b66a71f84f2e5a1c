"""Find reasons why answers of CrewAI's agents are incomplete: failed tools, reached iteration limits."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.crews.crew_output import CrewOutput

from podium.types.messages import storable

_MAX_QUOTE: Final = 300


class Shortfalls:
    """Collects the reasons why an answer is incomplete, over one or more attempts of an agent at a task.

    Args:
        agent: the copy that does the task.
    """

    def __init__(self, agent: BaseAgent) -> None:
        self._agent = agent
        self._failures: list[Any] = []
        self._messages: list[Mapping[str, Any]] = []

    def note(self) -> None:
        """Record the failed tools of the latest attempt, because CrewAI forgets them at the next attempt."""
        self._failures += self._agent.last_tool_failures
        self._messages += getattr(self._agent, "last_messages", ())

    def told(self) -> str | None:
        """Return why the latest answer is incomplete, as text; `None` if it is complete."""
        failed = _failed_tools(self._failures, self._messages)
        return "; ".join([*failed, *_forced(self._agent)]) or None


def missing_from_crew(output: object, agents: Iterable[BaseAgent]) -> str:
    """Return why a crew's output is incomplete, as text; empty if it is complete.

    Args:
        output: the return value of the kickoff.
        agents: the copies that did the tasks.
    """
    tasks = output.tasks_output if isinstance(output, CrewOutput) else ()
    failed = [line for task in tasks for line in _failed_tools(task.tool_failures, task.messages)]
    return "; ".join([*failed, *(line for agent in agents for line in _forced(agent))])


def _failed_tools(failures: Iterable[Any], messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a text for each tool whose last call failed; a later successful call cancels a failure."""
    last = {message.get("name"): str(message.get("content")) for message in messages if _is_result(message)}
    why: dict[str, str] = {}
    for record in failures:
        result = last.get(record.tool_name)
        if result is None or record.failure.message in result:
            why[record.tool_name] = storable(record.failure.message)[:_MAX_QUOTE]
    return [f"its tool {name!r} failed: {reason}" for name, reason in why.items()]


def _is_result(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "tool"


def _forced(agent: BaseAgent) -> list[str]:
    """Return a text if CrewAI demanded an answer from the agent because `max_iter` was reached."""
    state = getattr(agent.agent_executor, "state", None)
    if state is None or getattr(state, "iterations", 0) < agent.max_iter:
        return []
    return [f"agent {agent.role!r} reached max_iter={agent.max_iter} and answered with what it had"]
