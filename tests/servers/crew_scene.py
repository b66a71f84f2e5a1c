"""A crew of two agents with a conductor as its manager."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crewai import Agent, Crew, Process, Task
from crewai.events.event_bus import crewai_event_bus
from pydantic import BaseModel
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorManager

PLAN = """
{"worker": 0, "subtask": "find the height", "access": []}
{"worker": 0, "subtask": "find the age", "access": []}
{"worker": 1, "subtask": "write it down", "access": [0, 1]}
"""


@contextmanager
def heard(*kinds: Any) -> Iterator[list[Any]]:
    """Yield the events of these kinds, all of which are there at the end."""
    told = list[Any]()
    with crewai_event_bus.scoped_handlers():
        for kind in kinds:
            crewai_event_bus.on(kind)(lambda source, event: told.append(event))
        yield told
        crewai_event_bus.flush()


class Finding(BaseModel):
    """The output form of a task."""

    height: int
    words: str = "none"


class Scene:
    """A crew of two agents with one LLM, and the requests to the LLM."""

    def __init__(self, say: Callable[[str, Any], Any] | None = None, **manager: Any) -> None:
        self.sent: list[str] = []
        self._say = say or self.answer

        def said(shown: str, tools: Any) -> Any:
            self.sent.append(shown)
            return PLAN if "You are the conductor" in shown else self._say(shown, tools)

        self.llm = SpeakingLLM(model="speaking", say=said)
        self.finder = Agent(role="Finder", goal="Find facts.", backstory="Knows archives.", llm=self.llm)
        self.writer = Agent(role="Writer", goal="Write.", backstory="Was a clerk.", llm=self.llm)
        self.manager = ConductorManager(**({"llm": self.llm} if "planner" not in manager else {}), **manager)

    @staticmethod
    def answer(shown: str, tools: Any) -> str:
        """Answer a step of the plan."""
        if "Your part:\nwrite it down" in shown:
            return '{"height": 330, "words": "of iron"}'
        return "330 m" if "Your part:\nfind the height" in shown else "137 years"

    def crew(self, *tasks: Task, **options: Any) -> Crew:
        """Return the crew, with these tasks."""
        found = list(tasks) or [self.task()]
        agents = options.pop("agents", [self.finder, self.writer])
        return self.crew_of(self.manager, agents, found, **options)

    @staticmethod
    def crew_of(manager: ConductorManager, agents: list[Agent], tasks: list[Task], **options: Any) -> Crew:
        """Return a crew with a manager."""
        hierarchical = Process.hierarchical
        return Crew(agents=agents, tasks=tasks, process=hierarchical, manager_agent=manager, **options)

    @staticmethod
    def task(description: str = "Describe the tower.", **options: Any) -> Task:
        """Return a task."""
        return Task(description=description, expected_output="a description", **options)
