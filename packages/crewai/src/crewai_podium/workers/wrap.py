"""Makes the right worker of what somebody has. It knows all kinds of them, and calls none."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from crewai import Crew
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool

from crewai_podium.cards import card_of
from crewai_podium.workers.agent import AgentWorker
from crewai_podium.workers.crew import CrewWorker
from crewai_podium.workers.llm import LLMWorker
from crewai_podium.workers.tool import ToolWorker
from podium.errors import ConfigError
from podium.workers import Card, Price, StepInput, Worker


def as_worker(  # noqa: PLR0913 - each is one fact of a card, most are left out
    thing: BaseAgent | Crew | BaseLLM | BaseTool,
    *,
    card: Card | None = None,
    name: str | None = None,
    description: str | None = None,
    price: Price | None = None,
    labels: Iterable[str] = (),
    inputs: Callable[[StepInput], Mapping[str, Any]] | None = None,
) -> Worker:
    """Return something of CrewAI's as a worker.

    An agent does each subtask as a task, by a copy of itself, so that it may have many at
    once; a crew is copied and kicked off; an LLM is called; a tool is run.

    Args:
        thing: what is to do subtasks.
        card: what the planner is told of it; `None` derives it from what it is, and from:
        name: what plans call it; `None` takes the role, or the name it has.
        description: what it is good at; `None` takes what it says of itself.
        price: what its tokens cost; `None` means unknown.
        labels: properties that rules refer to.
        inputs: makes a crew's inputs out of what the step is shown; `None` puts all of it into
            the one input the crew has.

    Raises:
        ConfigError: it cannot be a worker; or there is a card and parts of another.
    """
    said = name is not None or description is not None or price is not None or frozenset(labels)
    if card is not None and said:
        raise ConfigError("a name, description, price or labels beside a card do not count: put them on it")
    if not isinstance(thing, BaseAgent | Crew | BaseLLM | BaseTool):
        raise ConfigError(f"{thing!r:.80} is no agent, crew, LLM or tool of CrewAI's")
    if inputs is not None and not isinstance(thing, Crew):
        raise ConfigError(f"{thing!r:.80} is no crew: only a crew has inputs")
    if card is None:
        card = replace(card_of(thing), price=price, labels=frozenset(labels))
        card = card if name is None else replace(card, name=name)
        card = card if description is None else replace(card, description=description)
    if isinstance(thing, BaseAgent):
        return AgentWorker(thing, card=card)
    if isinstance(thing, Crew):
        return CrewWorker(thing, card=card, inputs=inputs)
    if isinstance(thing, BaseTool):
        return ToolWorker(thing, card=card)
    return LLMWorker(thing, card=card)
