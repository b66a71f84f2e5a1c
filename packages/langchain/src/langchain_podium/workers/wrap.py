"""Make workers and planners from LangChain and LangGraph objects."""

from collections.abc import Callable
from typing import Any, Final, Unpack

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from langchain_podium.cards import card_of, given_name, innermost
from langchain_podium.workers.chat_model import ChatModelWorker
from langchain_podium.workers.parts import interrupts, is_graph, may_act, open_tools
from langchain_podium.workers.runnable import GraphWorker, RunnableWorker, has_messages
from langchain_podium.workers.tool import LangChainTool, RetrieverWorker
from podium.errors import ConfigError
from podium.hosts import CardMaker, CardOptions
from podium.planners import ChatPlanner
from podium.workers import Card, Price, StepInput, Worker

_UNNAMED: Final = "LangGraph"
"""LangGraph's default name of a graph."""


def as_worker(
    thing: Runnable[Any, Any] | Worker,
    *,
    input: Callable[[StepInput], Any] | None = None,  # noqa: A002 - LangChain's name
    acts: bool | None = None,
    **options: Unpack[CardOptions],
) -> Worker:
    """Return a LangChain or LangGraph object as a worker.

    A chat model (bare, bound, configured, with retries or fallbacks) gets messages. A retriever searches for
    the subtask. A tool gets its arguments from the subtask. A compiled graph, such as an agent, gets messages
    in its state. Any other Runnable gets the same text as a chat model. A conductor, or another worker of
    Podium, is returned unchanged.

    As the worker of the answer, a chat model and an agent of `create_agent` stream their tokens, an agent
    also those before a tool call. Other graphs, and agents with structured output or with middleware after
    the model, are streamed in one piece, because only their end shows the answer. Tokens of a `RemoteGraph`
    are unknown, so its step is charged like a call without reported usage. Of the content blocks of MCP tools
    the output has the text; it names images, audio and files, and the step is then `partial`.

    In a conductor's node of LangGraph, injected arguments of a tool come from the graph around the node. A
    `Command(update=...)` of a tool or a function updates this graph's state when the node ends; its message
    for the tool call is the output. If several steps update a key without a reducer, the last one in the
    plan's order gives its value. An update of an undeclared key, or with data other than JSON, messages and
    documents, is not applied, and the run is `partial`. `Command(graph=Command.PARENT)` leaves the node and
    ends the run.

    Args:
        thing: the object.
        input: returns the input of a Runnable or graph for a step.
        acts: whether a call may change something: see `Worker.acts`. By default (`None`), models, prompts,
            parsers and retrievers do not act, and tools do unless their metadata has MCP's `readOnlyHint` or
            `idempotentHint`. Agents, graphs and chains act if a part of them does, or cannot be seen, such as
            a function or a remote graph. A model acts if it has tools of its server other than searches.
        options: `card`, or parts of a card: `name`, `description`, `price`, `labels`; see
            `podium.hosts.CardOptions`.

    Raises:
        ConfigError: the object cannot be a worker, or already is one and so has its own card and `acts`; or
            both a card and parts of one are given; or it is a model with tools for its caller (`bind_tools`).
    """
    maker = CardMaker(options)
    has_name = options.get("name") is not None or options.get("card") is not None
    if (own := maker.podium_worker(thing)) is not None:
        if acts is not None:
            raise ConfigError(f"{own.card.name!r} is a worker of Podium: set `acts` where it is created")
        return own
    if not isinstance(thing, Runnable):
        raise ConfigError(f"{thing!r:.80} is not a LangChain object: wrap a function in a FunctionWorker")
    if is_graph(innermost(thing)) and not has_name and given_name(thing) in (None, _UNNAMED):
        raise ConfigError(
            "the graph has no name, which plans need: use as_worker(graph, name='...'), "
            "or set it with create_agent(..., name='...') or compile(name='...')"
        )
    worker = _worker(thing, card_of(thing, maker), input)
    worker.acts = may_act(thing) if acts is None else acts
    if isinstance(worker, RunnableWorker | LangChainTool):
        worker.interrupts = interrupts(thing)
    return worker


def as_planner(
    model: Runnable[Any, Any] | Worker,
    *,
    card: Card | None = None,
    name: str | None = None,
    price: Price | None = None,
    **options: Any,
) -> ChatPlanner:
    """Return a planner that asks a LangChain chat model for the plan.

    Args:
        model: the model, bare or bound, configured, with retries or fallbacks.
        card: the name and the price of the planner; `None` derives them from the model, `name` and `price`.
        name: the name in events and results; `None` uses the model's own.
        price: the price of its tokens; `None` looks it up, as `as_worker` does.
        options: further options of `podium.ChatPlanner`, such as `workflows`.

    Raises:
        ConfigError: `model` is not a chat model, or both a card and parts of one are given.
    """
    maker = CardMaker({"card": card, "name": name, "price": price})
    worker = maker.podium_worker(model)
    if worker is None:
        given: Any = model
        if not isinstance(given, Runnable):
            raise ConfigError(
                f"{given!r:.80} is neither a chat model nor a planner: give one of them, or as_planner(...)"
            )
        worker = ChatModelWorker(given, card=card_of(given, maker))
    return ChatPlanner(worker, **options)


def _worker(thing: Runnable[Any, Any], card: Card, give: Callable[[StepInput], Any] | None) -> Worker:
    inner = innermost(thing)
    if tools := open_tools(thing):
        raise ConfigError(
            f"{card.name!r} has tools that nobody would call ({', '.join(tools)}): use an agent with the "
            "model and its tools, as in create_agent(model, tools), or make each tool a worker"
        )
    if is_graph(inner):
        if give is None and not has_messages(inner):
            told = f"the state of graph {card.name!r} has no messages"
            raise ConfigError(f"{told}: set its input with as_worker(..., input=lambda step: {{...}})")
        return GraphWorker(thing, card=card, give=give)
    if give is not None:
        return RunnableWorker(thing, card=card, give=give)
    if isinstance(inner, BaseChatModel):
        return ChatModelWorker(thing, card=card)
    if isinstance(thing, BaseRetriever):
        return RetrieverWorker(thing, card=card)
    if isinstance(thing, BaseTool):
        return LangChainTool(thing, card=card)
    return RunnableWorker(thing, card=card)
