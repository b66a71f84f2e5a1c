"""Makes the right worker, or planner, of what somebody has. It knows all kinds of them, and calls none."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from autogen_agentchat.base import ChatAgent, Team
from autogen_core.models import ChatCompletionClient
from autogen_core.tools import BaseTool

from autogen_podium.workers.agent import AgentWorker
from autogen_podium.workers.model import ModelWorker, settings
from autogen_podium.workers.nested import NestedWorker
from autogen_podium.workers.tool import ToolWorker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.planners import ChatPlanner, Planner, RulePlanner
from podium.workers import Card, Price, Worker

Participant = ChatAgent | Team | BaseTool[Any, Any] | ChatCompletionClient | Worker
"""Who can do steps."""


def as_worker(
    thing: Participant,
    *,
    card: Card | None = None,
    name: str | None = None,
    description: str | None = None,
    price: Price | None = None,
    labels: Iterable[str] = (),
) -> Worker:
    """Return something of AutoGen's as a worker.

    An agent or a team is reset and told what the step is shown; it does one step at a time. One
    that is a conductor plans and runs it, within the limits of the run around it. A tool is
    called with the subtask. A model client is sent messages. Any worker of Podium's is one already.

    Args:
        thing: what is to do subtasks.
        card: what the planner is told of it; `None` derives it from what it is, and from:
        name: what plans call it; `None` takes its own name, or its model's.
        description: what it is good at; `None` takes what it says of itself.
        price: what its tokens cost; `None` means unknown.
        labels: properties that rules refer to.

    Raises:
        ConfigError: it cannot be a worker, or is one that has its card already, or there is a
            card and parts of another.
    """
    labels = frozenset(labels)
    said = name is not None or description is not None or price is not None or labels
    if card is not None and said:
        raise ConfigError("a name, description, price or labels beside a card do not count: put them on it")
    if isinstance(thing, Worker):
        if card is not None or said:
            raise ConfigError(f"{thing!r:.80} has a card already: say it there")
        return thing
    conductor = getattr(thing, "conductor", None)
    if isinstance(thing, ChatAgent | Team) and isinstance(conductor, Conductor):
        own = replace(conductor.card, name=thing.name, description=thing.description)
        changed = _changed(own, name, description, price, labels | own.labels)
        return NestedWorker(thing, conductor, card=card or changed)
    if isinstance(thing, ChatAgent | Team):
        own = Card(name=thing.name, description=thing.description, concurrency=1)
        return AgentWorker(thing, card=card or _changed(own, name, description, price, labels))
    if isinstance(thing, ChatCompletionClient):
        own = _model_card(thing)
        return ModelWorker(thing, card=card or _changed(own, name, description, price, labels))
    if isinstance(thing, BaseTool):
        own = Card(name=thing.name, description=thing.description)
        return ToolWorker(thing, card=card or _changed(own, name, description, price, labels))
    raise ConfigError(f"{thing!r:.80} is nothing of AutoGen's: wrap a function in a FunctionTool")


def as_planner(model: ChatCompletionClient | Planner | Worker | None, **options: Any) -> Planner:
    """Return who plans: a model client or a worker, asked for plans; or a planner, as it is.

    Args:
        model: who is asked; `None` plans by rules.
        options: what `podium.ChatPlanner` takes.

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


def _model_card(client: ChatCompletionClient) -> Card:
    info = client.model_info
    name = settings(client).get("model") or info.get("family") or type(client).__name__
    parts = frozenset({"image_url"} if info["vision"] else ())
    return Card(name=str(name), description="A chat model.", parts=parts)


def _changed(
    card: Card, name: str | None, description: str | None, price: Price | None, labels: frozenset[str]
) -> Card:
    return Card(
        name=card.name if name is None else name,
        description=card.description if description is None else description,
        price=price,
        parts=card.parts,
        labels=labels,
        concurrency=card.concurrency,
    )
