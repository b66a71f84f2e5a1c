"""A worker that runs a whole crew."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

from crewai import Crew
from crewai.crews.crew_output import CrewOutput
from crewai.llms.base_llm import BaseLLM

from crewai_podium.cards import acts_first
from crewai_podium.usage import UsageMeter, read_usage
from crewai_podium.workers.agent import missing_from_crew
from crewai_podium.workers.errors import crewai_errors, read_answer
from podium.errors import ConfigError
from podium.secrets import printable
from podium.types import Completion
from podium.types.messages import prompt_text
from podium.usage import Usage
from podium.workers import Card, Request, StepInput, Worker, step_input_of


class CrewWorker(Worker):
    """Kicks off a copy of a crew for each step."""

    def __init__(
        self, crew: Crew, *, card: Card, inputs: Callable[[StepInput], Mapping[str, Any]] | None = None
    ) -> None:
        found = sorted(crew.fetch_inputs())
        if inputs is None and len(found) != 1:
            takes = "has " + (f"the inputs {', '.join(found)}" if found else "no input for the subtask")
            hint = 'as_worker(crew, inputs=lambda step_input: {"topic": step_input.subtask})'
            raise ConfigError(f"crew {card.name!r} {takes}: put one {{topic}} into a task, or use {hint}")
        self.crew = crew
        self.card = card
        self._inputs = inputs
        self.reads_prose = inputs is None
        self._input = found[0] if found else ""

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Kick off a copy of the crew; the answer is the last task's output and is not streamed."""
        crew: Crew | None = None
        meter = UsageMeter()

        def spent() -> Usage | None:
            return None if crew is None else read_usage(crew.calculate_usage_metrics())

        def has_run() -> bool:
            return self.acts and (meter.has_answered or acts_first(self.crew.agents))

        with crewai_errors(self.card.name, meter, spent, has_run=has_run):
            crew = _copy(self.crew, meter)
            # A separate task: a cancel leaves CrewAI's event scopes open, but only in this task's context.
            output = await asyncio.create_task(crew.akickoff(inputs=self._given(request)))
            answer = output.raw if isinstance(output, CrewOutput) else output
            done = read_answer(request.messages, answer, meter, usage=spent())
            done = replace(done, missing=missing_from_crew(output, crew.agents) or None)
        if request.stream:
            yield done.text
        yield done

    def _given(self, request: Request) -> dict[str, Any]:
        if self._inputs is not None:
            return dict(self._inputs(step_input_of(request)))
        return {self._input: printable(prompt_text(request.messages))}


def _copy(crew: Crew, meter: UsageMeter) -> Crew:
    """Return a copy with its own LLMs, with zero tokens counted."""
    copy = crew.copy()
    copy.stream = False
    agents = [*copy.agents, *([] if copy.manager_agent is None else [copy.manager_agent])]
    for agent in agents:
        if isinstance(agent.llm, BaseLLM):
            agent.llm = meter.copy_of(agent.llm)
    if isinstance(copy.manager_llm, BaseLLM):
        copy.manager_llm = meter.copy_of(copy.manager_llm)
    return copy
