"""Makes the right worker of what somebody has. It knows all kinds of them, and calls none."""

from collections.abc import Iterable
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool, QueryEngineTool

from llama_index_podium.cards import card_of
from llama_index_podium.workers.llm import LLMWorker
from llama_index_podium.workers.search import QueryEngineWorker, RetrieverWorker
from llama_index_podium.workers.tool import ToolWorker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.workers import Card, Price, Worker


def as_worker(
    thing: Any,
    *,
    card: Card | None = None,
    name: str | None = None,
    description: str | None = None,
    price: Price | None = None,
    labels: Iterable[str] = (),
) -> Worker:
    """Return something of LlamaIndex's as a worker.

    An LLM is sent messages; a retriever looks the subtask up; a query engine answers it; a
    tool is called with it. A `QueryEngineTool` is its engine, with the tool's name and
    description. Whatever is a conductor, or stands for one, is that conductor, and one of
    Podium's own workers is itself.

    Args:
        thing: who is to do subtasks.
        card: what the planner is told of it; `None` derives it from what it is, and from:
        name: what plans call it; `None` takes its own name, its model's or its class's.
        description: what it is good at; `None` takes what it says of itself.
        price: what its tokens cost; `None` means unknown.
        labels: properties that rules refer to.

    Raises:
        ConfigError: it cannot be a worker, or is one that has its card already, or there is a
            card and parts of another.
    """
    said = name is not None or description is not None or price is not None or frozenset(labels)
    if card is not None and said:
        raise ConfigError("a name, description, price or labels beside a card do not count: put them on it")
    inner = getattr(thing, "conductor", None)
    worker = inner if isinstance(inner, Conductor) else thing
    if isinstance(worker, Worker):
        if card is not None or said:
            raise ConfigError(f"{worker!r:.80} has a card already: say it there")
        return worker
    derived = card or card_of(
        thing, name=name, description=description, price=price, labels=frozenset(labels)
    )
    return _worker(thing, derived)


def _worker(thing: Any, card: Card) -> Worker:
    if type(thing) is QueryEngineTool:
        return QueryEngineWorker(thing.query_engine, card=card)
    if isinstance(thing, LLM):
        return LLMWorker(thing, card=card)
    if isinstance(thing, BaseRetriever):
        return RetrieverWorker(thing, card=card)
    if isinstance(thing, BaseQueryEngine):
        return QueryEngineWorker(thing, card=card)
    if isinstance(thing, BaseTool):
        return ToolWorker(thing, card=card)
    raise ConfigError(
        f"{thing!r:.80} is no LLM, retriever, query engine or tool: wrap a function in a FunctionTool"
    )
