"""CrewAI: a conductor as the manager, the hierarchical process, sequential tasks wired by hand."""

import os
from collections.abc import Callable
from typing import Any

os.environ |= {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_TRACING_ENABLED": "false",
}

from crewai import LLM, Agent, Crew, Process, Task

from benchmarks.comparison.arms.arm import Arm, plan
from benchmarks.comparison.job import QUESTION, Job, Step
from benchmarks.comparison.model_server import MANAGER, Asked, Said
from crewai_podium import ConductorManager

_EXPECTED = "A recommendation with reasons."


def _llm(name: str, url: str) -> Any:
    return LLM(model=name, provider="openai", base_url=url, api_key="none", max_retries=0)


def _agent(step: Step, url: str, goal: str) -> Agent:
    return Agent(role=step.name, goal=goal, backstory=step.description, llm=_llm(step.name, url))


def _hierarchical(steps: tuple[Step, ...], url: str, **manager: Any) -> Crew:
    agents: Any = [_agent(step, url, "Do your part with care.") for step in steps]
    task = Task(description=QUESTION, expected_output=_EXPECTED)
    return Crew(agents=agents, tasks=[task], process=Process.hierarchical, **manager)


async def _answer(crew: Crew) -> str:
    output: Any = await crew.kickoff_async()
    return str(output.raw)


async def _podium(job: Job, url: str) -> str:
    crew = _hierarchical(job.steps, url, manager_agent=ConductorManager(planner=_llm(MANAGER, url)))
    return await _answer(crew)


async def _managed(job: Job, url: str) -> str:
    crew = _hierarchical(job.units, url, manager_llm=_llm(MANAGER, url))
    return await _answer(crew)


def _delegate(*, at_once: bool) -> Callable[[Job, Asked], Said | None]:
    def script(job: Job, asked: Asked) -> Said | None:
        if asked.model != MANAGER:
            return None
        name = next(tool for tool in asked.tools if tool.startswith("delegate"))
        calls = [(name, {"task": u.subtask, "context": QUESTION, "coworker": u.name}) for u in job.units]
        turns = [calls] if at_once else [[call] for call in calls]
        if asked.turn < len(turns):
            return Said(calls=turns[asked.turn])
        return Said(job.joined(asked.text))

    return script


async def _sequential(job: Job, url: str) -> str:
    agents = {step.name: _agent(step, url, "Do your part with care.") for step in job.steps}
    found = [
        Task(
            description=f"{QUESTION}\n\n{unit.subtask}",
            expected_output="A finding with figures.",
            agent=agents[unit.name],
            async_execution=True,
        )
        for unit in job.units
    ]
    last = Task(
        description=f"{QUESTION}\n\n{job.writer.subtask}",
        expected_output=_EXPECTED,
        agent=agents[job.writer.name],
        context=found,
    )
    crew = Crew(agents=list(agents.values()), tasks=[*found, last], process=Process.sequential)
    return await _answer(crew)


ARMS = (
    Arm("Podium, ConductorManager", _podium, plan),
    Arm("sequential, wired by hand", _sequential),
    Arm("hierarchical", _managed, _delegate(at_once=False)),
    Arm("hierarchical, several at once", _managed, _delegate(at_once=True)),
)
