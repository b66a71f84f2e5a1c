"""Makes a worker of an object of LlamaIndex's. It knows all kinds of them, and calls none."""

from typing import Any, Unpack

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool, QueryEngineTool

from llama_index_podium.cards import card_of
from llama_index_podium.workers.llm import LLMWorker
from llama_index_podium.workers.search import QueryEngineWorker, RetrieverWorker
from llama_index_podium.workers.tool import tool_worker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions
from podium.workers import Card, Worker


def as_worker(thing: Any, **options: Unpack[CardOptions]) -> Worker:
    """Return an object of LlamaIndex's as a worker.

    An LLM is sent messages; a retriever looks the subtask up; a query engine answers it; a
    tool is called with it. A `QueryEngineTool` is its engine, with the tool's name and
    description. A query engine or an LLM over a conductor is that conductor, and one of
    Podium's own workers is itself.

    Args:
        thing: the object that does subtasks.
        options: `card`, or parts of one: `name`, `description`, `price`, `labels`; as
            `podium.hosts.CardOptions` has them.

    Raises:
        ConfigError: it cannot be a worker, or is one that has its card already, or there is a
            card and parts of another.
    """
    maker = CardMaker(options)
    return maker.podium_worker(thing) or _worker(thing, card_of(thing, maker))


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
        return tool_worker(thing, card)
    raise ConfigError(
        f"{thing!r:.80} is no LLM, retriever, query engine or tool: wrap a function in a FunctionTool"
    )
