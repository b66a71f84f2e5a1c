"""Makes a worker of an object of CrewAI's."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from crewai import Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool

from crewai_podium.cards import card_of
from crewai_podium.workers.agent import AgentWorker
from crewai_podium.workers.crew import CrewWorker
from crewai_podium.workers.llm import LLMWorker
from crewai_podium.workers.tool import tool_worker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions
from podium.workers import StepInput, Worker


def as_worker(
    thing: BaseAgent | Crew | BaseLLM | BaseTool | Worker,
    *,
    inputs: Callable[[StepInput], Mapping[str, Any]] | None = None,
    **options: Unpack[CardOptions],
) -> Worker:
    """Return an object of CrewAI's as a worker.

    An agent does each subtask as a task, by a copy of itself, so it may do several at once. A
    crew is copied and kicked off. An LLM is called. A tool is run. A `ConductorLLM` is its
    conductor. A worker of Podium's is returned as it is.

    Args:
        thing: the object that does subtasks.
        inputs: makes a crew's inputs out of what the step is shown; `None` puts all of it into
            the crew's only input.
        options: `card`, or parts of one: `name`, `description`, `price`, `labels`; as
            `podium.hosts.CardOptions` has them.

    Raises:
        ConfigError: it cannot be a worker, or has a card already, or there is a card and parts
            of another.
    """
    maker = CardMaker(options)
    if inputs is not None and not isinstance(thing, Crew):
        raise ConfigError(f"{thing!r:.80} is no crew: only a crew has inputs")
    if (own := maker.podium_worker(thing)) is not None:
        return own
    if not isinstance(thing, BaseAgent | Crew | BaseLLM | BaseTool):
        raise ConfigError(f"{thing!r:.80} is no agent, crew, LLM or tool of CrewAI's")
    card = card_of(thing, maker)
    if isinstance(thing, BaseAgent):
        return AgentWorker(thing, card=card)
    if isinstance(thing, Crew):
        return CrewWorker(thing, card=card, inputs=inputs)
    if isinstance(thing, BaseTool):
        return tool_worker(thing, card)
    return LLMWorker(thing, card=card)
