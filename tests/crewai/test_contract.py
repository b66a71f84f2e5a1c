"""CrewAI keeps to what every adapter keeps to: agents as workers, a crew with its manager as the face."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, Told
from crewai import Agent, Crew, Process, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.llm_events import LLMStreamChunkEvent
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorManager
from podium.planners import FixedPlanner
from podium.workers import Worker


class CrewFace(Face):
    """A crew, copied for each question, as `kickoff_for_each` does: one is for one at a time."""

    def __init__(self, planner: FixedPlanner, workers: Sequence[Any], options: dict[str, Any]) -> None:
        agents = [worker for worker in workers if isinstance(worker, BaseAgent)]
        beside = [worker for worker in workers if isinstance(worker, Worker)]
        assert [*agents, *beside] == list(workers)
        self._crew = Crew(
            agents=agents,
            tasks=[Task(description="{question}", expected_output="an answer")],
            process=Process.hierarchical,
            manager_agent=ConductorManager(planner=planner, workers=beside, **options),
        )

    async def ask(self, question: str) -> Answer:
        """Kick a crew off."""
        crew = self._crew.copy()
        return _answer(crew, (await crew.akickoff({"question": question})).raw)

    def ask_sync(self, question: str) -> Answer:
        """Kick a crew off."""
        crew = self._crew.copy()
        return _answer(crew, crew.kickoff({"question": question}).raw)

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Read the chunks of the agents' LLMs, whose task is the step."""
        told, loop = asyncio.Queue[tuple[int, str]](), asyncio.get_running_loop()

        def heard(source: Any, event: LLMStreamChunkEvent) -> None:
            step = int((event.task_name or "").removeprefix("step ").partition(":")[0])
            loop.call_soon_threadsafe(told.put_nowait, (step, event.chunk))

        for agent in self._crew.agents:
            agent.llm.stream = True
        with crewai_event_bus.scoped_handlers():
            crewai_event_bus.on(LLMStreamChunkEvent)(heard)
            await self.ask(question)
        while not told.empty():
            yield told.get_nowait()


def _answer(crew: Crew, text: str) -> Answer:
    assert isinstance(crew.manager_agent, ConductorManager)
    (result,) = crew.manager_agent.results
    assert text == result.answer
    steps = tuple(
        Told(
            step=outcome.step,
            worker=outcome.worker,
            status=outcome.status,
            output=outcome.text,
            tokens=outcome.usage.total_tokens,
            problem="" if outcome.problem is None else outcome.problem.message,
        )
        for outcome in result.outcomes
    )
    return Answer(result.answer, result.status, steps)


class CrewAdapter(Adapter):
    """Makes agents and crews."""

    tokens = 242

    def worker(self, name: str, speak: Speak) -> Agent:
        """Return an agent, whose LLM is called in a thread."""

        def say(shown: str, tools: Any) -> str:
            async def said() -> str:
                return await speak(shown)

            return asyncio.run(said())

        return Agent(
            role=name, goal="Answer.", backstory="Of a test.", llm=SpeakingLLM(model="speaking", say=say)
        )

    def face(self, planner: FixedPlanner, workers: Sequence[Any], **options: Any) -> Face:
        """Return crews of the agents."""
        return CrewFace(planner, workers, options)


class TestCrewAI(AdapterContract):
    """A conductor as the manager of a crew."""

    lacks: ClassVar = {
        "test_a_cancel_reaches_the_worker": "CrewAI calls an agent's LLM in a thread, which nothing can stop"
    }

    @pytest.fixture
    def adapter(self) -> Adapter:
        """Return the adapter."""
        return CrewAdapter()
