"""Makes the right worker of what somebody has. It knows all kinds of them, and calls none."""

from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from langchain_podium.cards import card_of, innermost
from langchain_podium.runnable import ConductorRunnable
from langchain_podium.workers.chat_model import ChatModelWorker
from langchain_podium.workers.graph import GraphWorker, has_messages, is_graph
from langchain_podium.workers.retriever import RetrieverWorker
from langchain_podium.workers.runnable import RunnableWorker
from langchain_podium.workers.tool import ToolWorker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.workers import Card, Price, StepInput, Worker


def as_worker(  # noqa: PLR0913 - each is one fact of a card, most are left out
    thing: Runnable[Any, Any] | Worker,
    *,
    card: Card | None = None,
    name: str | None = None,
    description: str | None = None,
    price: Price | None = None,
    labels: Iterable[str] = (),
    input: Callable[[StepInput], Any] | None = None,  # noqa: A002 - what LangChain calls it
) -> Worker:
    """Return something of LangChain's or LangGraph's as a worker.

    A chat model (bare, bound, configured, with retries or fallbacks) is sent messages; a
    retriever looks the subtask up; a tool is called with it; a compiled graph, such as an
    agent, is given messages in its state; any other Runnable is given the text a chat model
    would be sent. A conductor is a worker already, as is one of Podium's own workers.

    Args:
        thing: what is to do subtasks.
        card: what the planner is told of it; `None` derives it from what it is, and from:
        name: what plans call it; `None` takes its own name, or its model's.
        description: what it is good at; `None` takes what it says of itself.
        price: what its tokens cost; `None` means unknown.
        labels: properties that rules refer to.
        input: makes the input of a Runnable or graph out of what the step is shown.

    Raises:
        ConfigError: it cannot be a worker, or is one that has its card already, or there is a
            card and parts of another.
    """
    said = name is not None or description is not None or price is not None or frozenset(labels)
    if card is not None and said:
        raise ConfigError("a name, description, price or labels beside a card do not count: put them on it")
    if isinstance(thing, ConductorRunnable):
        thing = _conductor(thing)
    own = getattr(thing, "conductor", None)
    if isinstance(thing, BaseChatModel) and isinstance(own, Conductor):
        thing = own  # a ChatPodium's, whose message reports but a part of its tokens
    if isinstance(thing, Worker):
        if card is not None or said:
            raise ConfigError(f"{thing!r:.80} has a card already: say it there")
        return thing
    if not isinstance(thing, Runnable):
        raise ConfigError(f"{thing!r:.80} is nothing of LangChain's: wrap a function in a FunctionWorker")
    derived = card or card_of(
        thing, name=name, description=description, price=price, labels=frozenset(labels)
    )
    return _worker(thing, derived, input)


def _worker(thing: Runnable[Any, Any], card: Card, give: Callable[[StepInput], Any] | None) -> Worker:
    inner = innermost(thing)
    if is_graph(inner):
        if give is None and not has_messages(inner):
            told = f"the state of graph {card.name!r} has no messages"
            raise ConfigError(f"{told}: make one with as_worker(..., input=lambda brief: {{...}})")
        return GraphWorker(thing, card=card, give=give)
    if give is not None:
        return RunnableWorker(thing, card=card, give=give)
    if isinstance(inner, BaseChatModel):
        return ChatModelWorker(thing, card=card)
    if isinstance(thing, BaseRetriever):
        return RetrieverWorker(thing, card=card)
    if isinstance(thing, BaseTool):
        return ToolWorker(thing, card=card)
    return RunnableWorker(thing, card=card)


def _conductor(thing: ConductorRunnable) -> Conductor:
    if isinstance(thing.conductor, Conductor):
        return thing.conductor  # not the Runnable: its steps are to share the ledger of the run around it
    raise ConfigError("a hosted conductor works as any model of a server does: make it a podium.ChatWorker")
