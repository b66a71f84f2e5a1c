"""CrewAI keeps to what every adapter keeps to: agents as workers, a crew with its manager as the face."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, ClassVar, Final

import pytest
from contracts.adapter_contract import Adapter, AdapterContract, Answer, Face, Speak, answer_of, plain
from crewai import Agent, Crew, Process, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.llm_events import LLMStreamChunkEvent
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager, as_worker
from podium import Conductor, Result
from podium.planners import Planner
from podium.workers import Worker


class CrewFace(Face):
    """A crew, copied for each question, as `kickoff_for_each` does: one is for one at a time."""

    def __init__(self, planner: Planner, workers: Sequence[Any], options: dict[str, Any]) -> None:
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
        crew = self._crew.copy()
        return _answer(crew, (await crew.akickoff({"question": question})).raw)

    def ask_sync(self, question: str) -> Answer:
        crew = self._crew.copy()
        return _answer(crew, crew.kickoff({"question": question}).raw)

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        async for piece in _chunks([agent.llm for agent in self._crew.agents], lambda: self.ask(question)):
            yield piece


async def _chunks(
    llms: Sequence[Any], ask: Callable[[], Awaitable[object]]
) -> AsyncGenerator[tuple[int, str], None]:
    told, loop = asyncio.Queue[tuple[int, str]](), asyncio.get_running_loop()

    def heard(source: Any, event: LLMStreamChunkEvent) -> None:
        if event.task_name is None:
            return  # of the conductor, whose answer is the last step's text
        step = int(event.task_name.removeprefix("step ").partition(":")[0])
        loop.call_soon_threadsafe(told.put_nowait, (step, event.chunk))

    for llm in llms:
        llm.stream = True
    with crewai_event_bus.scoped_handlers():
        crewai_event_bus.on(LLMStreamChunkEvent)(heard)
        await ask()
    while not told.empty():
        yield told.get_nowait()


class LLMFace(Face):
    def __init__(self, planner: Planner, workers: Sequence[Any], options: dict[str, Any]) -> None:
        self._workers, self._options, self._planner = workers, options, planner

    def _llm(self) -> ConductorLLM:
        workers = [as_worker(worker) for worker in self._workers]
        return ConductorLLM(Conductor(self._planner, workers, **self._options))

    async def ask(self, question: str) -> Answer:
        llm = self._llm()
        return _told(await llm.acall(question), llm.results)

    def ask_sync(self, question: str) -> Answer:
        llm = self._llm()
        return _told(llm.call(question), llm.results)

    async def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Yield the pieces of the steps, which the workers' LLMs send as events."""
        async for piece in _chunks([worker.llm for worker in self._workers], lambda: self.ask(question)):
            yield piece


def _answer(crew: Crew, text: str) -> Answer:
    return _told(text, crew.manager_agent.results)


def _told(text: str, results: Sequence[Result]) -> Answer:
    (result,) = results
    assert plain(text) == result.answer
    return answer_of(result.answer, result.status, result.outcomes)


class CrewAdapter(Adapter):
    tokens = 242
    as_worker = staticmethod(as_worker)

    def worker(self, name: str, speak: Speak) -> Agent:
        def say(shown: str, tools: Any) -> str:
            async def said() -> str:
                return await speak(shown)

            return asyncio.run(said())

        llm = SpeakingLLM(model="speaking", say=say)
        return Agent(role=name, goal="Answer.", backstory="Of a test.", llm=llm)

    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return CrewFace(planner, workers, options)


class LLMAdapter(CrewAdapter):
    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        return LLMFace(planner, workers, options)


_IN_THREADS: Final = "CrewAI calls an agent's LLM in a thread, which nothing can stop"


class TestCrewAI(AdapterContract):
    lacks: ClassVar = {"test_a_cancel_reaches_the_worker": _IN_THREADS}

    @pytest.fixture(params=[pytest.param(CrewAdapter, marks=pytest.mark.long), LLMAdapter])
    def adapter(self, request: pytest.FixtureRequest) -> Adapter:
        return request.param()
