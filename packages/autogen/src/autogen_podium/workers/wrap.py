"""Makes a worker, or a planner, of an object of AutoGen's."""

from dataclasses import replace
from typing import Any, Unpack

from autogen_agentchat.base import ChatAgent, Team
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool

from autogen_podium.cards import card_of
from autogen_podium.workers.agent import AgentWorker
from autogen_podium.workers.model import ModelWorker
from autogen_podium.workers.nested import NestedWorker
from autogen_podium.workers.tool import AutoGenTool
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions, ConductorFace
from podium.planners import ChatPlanner, Planner, RulePlanner
from podium.workers import Worker

Participant = ChatAgent | Team | BaseTool[Any, Any] | ChatCompletionClient | Worker
"""What can do steps."""


def as_worker(thing: Participant, **options: Unpack[CardOptions]) -> Worker:
    """Return an object of AutoGen's as a worker.

    An agent or a team is reset before each step, and does one step at a time. A human is shown
    what the step is about; an agent with handoffs is refused. An agent, a team
    or a client that is a conductor runs it within the limits of the run around it. A tool is
    called with the subtask. A model client is sent messages. A worker of Podium's is returned
    as it is.

    Args:
        thing: the object that does subtasks.
        options: `card`, or parts of one: `name`, `description`, `price`, `labels`; as
            `podium.hosts.CardOptions` has them.

    Raises:
        ConfigError: it cannot be a worker, or has a card already, or there is a card and parts
            of another.
    """
    maker = CardMaker(options)
    conductor = thing.conductor if isinstance(thing, ConductorFace) else None
    if isinstance(conductor, Conductor) and isinstance(thing, ChatAgent | Team | ChatCompletionClient):
        return _nested(thing, conductor, maker)
    if (own := maker.podium_worker(thing)) is not None:
        return own
    if isinstance(thing, ChatAgent | Team):
        return AgentWorker(thing, card=card_of(thing, maker))
    if isinstance(thing, ChatCompletionClient):
        return ModelWorker(thing, card=card_of(thing, maker))
    if isinstance(thing, BaseTool):
        return AutoGenTool(thing, card=card_of(thing, maker))
    raise ConfigError(f"{thing!r:.80} is nothing of AutoGen's: wrap a function in a FunctionTool")


def as_planner(model: ChatCompletionClient | Planner | Worker | None, **options: Any) -> Planner:
    """Return a planner: one that asks a model client or a worker, or the planner that was given.

    Args:
        model: the model client, worker or planner; `None` plans by rules.
        options: options of `podium.ChatPlanner`.

    Raises:
        ConfigError: it is none of these.
    """
    if model is None:
        return RulePlanner()
    if isinstance(model, Planner):
        return model
    if isinstance(model, ChatCompletionClient | Worker):
        return ChatPlanner(as_worker(model), **options)
    raise ConfigError(f"{model!r:.80} plans nothing: give a model client, a podium.Planner, or None")


def _nested(face: ChatAgent | Team | ChatCompletionClient, conductor: Conductor, maker: CardMaker) -> Worker:
    """Return a face of a conductor as a worker; labels of the conductor's pool are never lost."""
    own = conductor.card
    named = own if isinstance(face, ChatCompletionClient) else face
    card = maker.card(name=named.name, description=named.description, parts=own.parts)
    return NestedWorker(face, conductor, card=replace(card, labels=card.labels | own.labels))
