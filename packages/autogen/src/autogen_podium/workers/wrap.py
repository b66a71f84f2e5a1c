"""Make workers and planners from AutoGen objects."""

from dataclasses import replace
from typing import Any, Unpack

from autogen_agentchat.base import ChatAgent, Team
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool

from autogen_podium.cards import card_of
from autogen_podium.workers.acts import may_act
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
"""The objects that can be workers."""


def as_worker(thing: Participant, *, acts: bool | None = None, **options: Unpack[CardOptions]) -> Worker:
    """Return an AutoGen object as a worker.

    An agent or a team is reset before each step, and runs one step at a time. A human is shown the input of
    the step. An agent with handoffs is refused. If an agent, a team or a client is a conductor, it runs
    within the limits of the outer run. A tool gets its arguments from the subtask. A model client gets
    messages. A worker of Podium is returned unchanged.

    Args:
        thing: the object.
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), model clients do
            not act, and tools do, unless an MCP server says otherwise. Agents and teams do if a part of them
            does, or cannot be seen: a person, a workbench, an agent of the user's own class. A class of the
            user's own says otherwise with the attribute `acts = False`.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker, or already has a card and `acts`; or both a card and parts
            of one are given.
    """
    maker = CardMaker(options)
    conductor = thing.conductor if isinstance(thing, ConductorFace) else None
    if isinstance(conductor, Conductor) and isinstance(thing, ChatAgent | Team | ChatCompletionClient):
        if acts is not None:
            maker.podium_worker(conductor, acts=acts)
        return _nested(thing, conductor, maker)
    if (own := maker.podium_worker(thing, acts=acts)) is not None:
        return own
    worker = _worker(thing, maker)
    worker.acts = may_act(thing) if acts is None else acts
    return worker


def _worker(thing: Any, maker: CardMaker) -> Worker:
    if isinstance(thing, ChatAgent | Team):
        return AgentWorker(thing, card=card_of(thing, maker))
    if isinstance(thing, ChatCompletionClient):
        return ModelWorker(thing, card=card_of(thing, maker))
    if isinstance(thing, BaseTool):
        return AutoGenTool(thing, card=card_of(thing, maker))
    raise ConfigError(f"{thing!r:.80} is not an AutoGen object: wrap a function in a FunctionTool")


def as_planner(model: ChatCompletionClient | Planner | Worker | None, **options: Any) -> Planner:
    """Return a planner that calls a model client or a worker, or the given planner.

    Args:
        model: the model client, worker or planner; `None` plans by rules.
        options: options of `podium.ChatPlanner`.

    Raises:
        ConfigError: `model` is none of these.
    """
    if model is None:
        return RulePlanner()
    if isinstance(model, Planner):
        return model
    if isinstance(model, ChatCompletionClient | Worker):
        return ChatPlanner(as_worker(model), **options)
    raise ConfigError(f"{model!r:.80} cannot plan: give a model client, a podium.Planner, or None")


def _nested(face: ChatAgent | Team | ChatCompletionClient, conductor: Conductor, maker: CardMaker) -> Worker:
    """Return a nested conductor as a worker that keeps the labels of the conductor's pool."""
    own = conductor.card
    named = own if isinstance(face, ChatCompletionClient) else face
    card = maker.card(name=named.name, description=named.description, parts=own.parts)
    return NestedWorker(face, conductor, card=replace(card, labels=card.labels | own.labels))
