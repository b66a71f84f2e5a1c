"""A worker that is a whole crew. It owns how a step becomes the inputs of a kickoff."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from crewai import Crew
from crewai.crews.crew_output import CrewOutput
from crewai.llms.base_llm import BaseLLM

from crewai_podium.faults import calling
from crewai_podium.spending import Meter, usage_of
from crewai_podium.texts import prompt_of, text_of
from podium.errors import ConfigError, WorkerBroken
from podium.types import Completion, estimate_usage
from podium.usage import Usage
from podium.workers import Card, Request, StepInput, Worker, step_input_of


class CrewWorker(Worker):
    """Kicks a copy of a crew off.

    Args:
        crew: what is kicked off.
        card: what the planner is told of it.
        inputs: makes the kickoff's inputs out of what the step is shown; `None` puts all of it
            into the one input the crew has.

    Raises:
        ConfigError: the crew has no input, or more than one, and nobody says what they are given.
    """

    def __init__(
        self, crew: Crew, *, card: Card, inputs: Callable[[StepInput], Mapping[str, Any]] | None = None
    ) -> None:
        found = sorted(crew.fetch_inputs())
        if inputs is None and len(found) != 1:
            told = "takes " + (", ".join(found) or "no input, so that no subtask would reach it")
            hint = 'as_worker(crew, inputs=lambda brief: {"topic": brief.subtask})'
            raise ConfigError(f"crew {card.name!r} {told}: put one {{topic}} into a task, or use {hint}")
        self.crew = crew
        self.card = card
        self._inputs = inputs
        self._input = found[0] if found else ""

    def __repr__(self) -> str:
        return f"CrewWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Kick it off; the answer is its last task's, in one piece."""
        crew: Crew | None = None

        def spent() -> Usage | None:
            return None if crew is None else usage_of(crew.calculate_usage_metrics())

        with calling(self.card.name, spent):
            crew = _copy(self.crew)
            if self._inputs is not None:
                given = dict(self._inputs(step_input_of(request)))
            else:
                given = {self._input: prompt_of(request.messages)}
            # In a context of its own: what a cancel leaves open of CrewAI's events stays in there.
            output = await asyncio.create_task(crew.akickoff(inputs=given))
            text = text_of(output.raw) if isinstance(output, CrewOutput) else text_of(output)
        if not text.strip():
            raise WorkerBroken(f"crew {self.card.name!r} returned no text", maybe_paid=True, usage=spent())
        if request.stream:
            yield text
        yield Completion(text, usage=spent() or estimate_usage(request.messages, text))


def _copy(crew: Crew) -> Crew:
    """Return a copy whose LLMs count from nothing, each on its own."""
    copy, meter = crew.copy(), Meter()
    copy.stream = False
    agents = [*copy.agents, *([] if copy.manager_agent is None else [copy.manager_agent])]
    for agent in agents:
        if isinstance(agent.llm, BaseLLM):
            agent.llm = meter.copy_of(agent.llm)
    if isinstance(copy.manager_llm, BaseLLM):
        copy.manager_llm = meter.copy_of(copy.manager_llm)
    return copy
