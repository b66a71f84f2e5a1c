"""Makes a worker of an object of LangChain's or LangGraph's. It knows all kinds of them, and calls none."""

from collections.abc import Callable
from typing import Any, Final, Unpack

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from langchain_podium.cards import card_of, given_name, innermost
from langchain_podium.workers.chat_model import ChatModelWorker
from langchain_podium.workers.graph import GraphWorker, has_messages, is_graph
from langchain_podium.workers.retriever import RetrieverWorker
from langchain_podium.workers.runnable import RunnableWorker
from langchain_podium.workers.tool import tool_worker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions
from podium.workers import Card, StepInput, Worker

_UNNAMED: Final = "LangGraph"
"""What LangGraph calls a graph that nobody has named."""


def as_worker(
    thing: Runnable[Any, Any] | Worker,
    *,
    input: Callable[[StepInput], Any] | None = None,  # noqa: A002 - what LangChain calls it
    **options: Unpack[CardOptions],
) -> Worker:
    """Return an object of LangChain's or LangGraph's as a worker.

    A chat model (bare, bound, configured, with retries or fallbacks) is sent messages; a
    retriever looks the subtask up; a tool is called with it; a compiled graph, such as an
    agent, is given messages in its state; any other Runnable is given the text a chat model
    would be sent. A conductor is a worker already, as is one of Podium's own workers.

    Args:
        thing: the object that does subtasks.
        input: makes the input of a Runnable or graph out of what the step is shown.
        options: `card`, or parts of one: `name`, `description`, `price`, `labels`; as
            `podium.hosts.CardOptions` has them.

    Raises:
        ConfigError: it cannot be a worker, or is one that has its card already, or there is a
            card and parts of another.
    """
    maker = CardMaker(options)
    has_name = options.get("name") is not None or options.get("card") is not None
    if (own := maker.podium_worker(thing)) is not None:
        return own
    if not isinstance(thing, Runnable):
        raise ConfigError(f"{thing!r:.80} is nothing of LangChain's: wrap a function in a FunctionWorker")
    if is_graph(innermost(thing)) and not has_name and given_name(thing) in (None, _UNNAMED):
        raise ConfigError(
            "a graph has no name for plans to call it by: as_worker(graph, name='...'), "
            "or name it where it is made, as in create_agent(..., name='...') or compile(name='...')"
        )
    return _worker(thing, card_of(thing, maker), input)


def _worker(thing: Runnable[Any, Any], card: Card, give: Callable[[StepInput], Any] | None) -> Worker:
    inner = innermost(thing)
    if is_graph(inner):
        if give is None and not has_messages(inner):
            told = f"the state of graph {card.name!r} has no messages"
            raise ConfigError(f"{told}: make one with as_worker(..., input=lambda step: {{...}})")
        return GraphWorker(thing, card=card, give=give)
    if give is not None:
        return RunnableWorker(thing, card=card, give=give)
    if isinstance(inner, BaseChatModel):
        return ChatModelWorker(thing, card=card)
    if isinstance(thing, BaseRetriever):
        return RetrieverWorker(thing, card=card)
    if isinstance(thing, BaseTool):
        return tool_worker(thing, card)
    return RunnableWorker(thing, card=card)
