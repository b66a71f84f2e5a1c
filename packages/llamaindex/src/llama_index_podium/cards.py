"""Facts about objects of LlamaIndex: their cards, whether they act, and whether they block the event loop."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, Final, TypeVar, cast

import anyio.to_thread
from llama_index.core import SQLDatabase
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.prompts.mixin import PromptMixin
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.tools import BaseTool, QueryEngineTool, RetrieverTool
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.workflow import Workflow

from podium.hosts import CardMaker, ConductorFace
from podium.hosts.workers import base_url_of, said_acts
from podium.workers import Card

T = TypeVar("T")


_WORDS: Final[tuple[tuple[type, str], ...]] = (
    (BaseRetriever, "Searches its documents for what the subtask asks; answers with the passages found."),
    (BaseQueryEngine, "Answers questions about its documents."),
    (BaseChatEngine, "Answers in a conversation."),
)
"""The description of an object whose class has none."""
_NO_NAME: Final = "Agent"
_NO_DESCRIPTION: Final = "An agent that can perform a task"
"""LlamaIndex's defaults for an agent without a name or description."""


def card_of(thing: object, maker: CardMaker | None = None) -> Card:
    """Return the card of an object; the card options of `as_worker` override derived values."""
    name, words, window = type(thing).__name__, "", None
    model = url = ""
    if isinstance(thing, LLM):
        facts = thing.metadata
        name = thing.class_name() if facts.model_name == "unknown" else facts.model_name
        words = f"A model ({thing.class_name()})."
        window = None if facts.context_window == DEFAULT_CONTEXT_WINDOW else facts.context_window
        model, url = facts.model_name, _base_url(thing)
    elif isinstance(thing, BaseTool):
        name, words = thing.metadata.name or name, thing.metadata.description
    elif isinstance(thing, Workflow):
        name, words = _workflow(thing)
        model, url = _model_of(thing)
    elif usual := [words for kind, words in _WORDS if isinstance(thing, kind)]:
        words = _own_words(thing) or usual[0]
    maker = maker or CardMaker({})
    return maker.card(name=name, description=words, context_window=window, model=model, base_url=url)


def _workflow(thing: Any) -> tuple[str, str]:
    """Return the name and the description of a workflow, an agent or a team."""
    name, kind = getattr(thing, "name", ""), type(thing).__name__
    own = getattr(thing, "description", "")
    agents = getattr(thing, "agents", None)
    if isinstance(agents, dict):  # the type is AgentWorkflow
        told = "; ".join(f"{agent.name}: {agent.description}" for agent in agents.values())
        return kind, f"A team of agents ({told})."
    if not name or name == _NO_NAME:
        name = kind
    if not own or own == _NO_DESCRIPTION:
        tools = [tool.metadata.name for tool in getattr(thing, "tools", None) or ()]
        own = f"An agent with the tools {', '.join(tools)}." if tools else _own_words(thing)
    return name, own


def _model_of(workflow: Workflow) -> tuple[str, str]:
    """Return the model and its URL of an agent or of a team; empty if the agents' models differ."""
    agents = getattr(workflow, "agents", None)
    each = agents.values() if isinstance(agents, dict) else [workflow]
    llms = [llm for agent in each if isinstance(llm := getattr(agent, "llm", None), LLM)]
    known = {(llm.metadata.model_name, _base_url(llm)) for llm in llms}
    return known.pop() if len(known) == 1 else ("", "")


def _base_url(llm: LLM) -> str:
    """Return the URL of a model's endpoint, if known."""
    for name in ("azure_endpoint", "api_base", "base_url"):  # classes for Azure inherit OpenAI's api_base
        url = getattr(llm, name, None)
        if url and isinstance(url, str):
            return url
    return base_url_of(getattr(llm, "_client", None))


def _own_words(thing: Any) -> str:
    """Return the docstring of the user's class; LlamaIndex's own docstrings do not describe the object."""
    kind = type(thing)
    if kind.__module__.split(".")[0] == "llama_index":
        return ""
    return (vars(kind).get("__doc__") or "").strip().split("\n\n")[0]


def may_act(thing: object) -> bool:
    """Return whether a call of an object may change something.

    It may if a part does, or cannot be seen, such as the steps of a workflow. Models, retrievers and engines
    only read, unless they write the queries for a database of SQL.
    """
    return any(map(_acts, parts_of(thing)))


def _acts(part: Any) -> bool:
    if (said := said_acts(part)) is not None:
        return said
    if isinstance(part, BaseTool):
        face = getattr(getattr(part, "real_fn", None), "__self__", None)  # such as a ConductorToolSpec
        said = said_acts(face) if isinstance(face, ConductorFace) else None
        return type(part) not in (QueryEngineTool, RetrieverTool) if said is None else said
    if isinstance(part, Workflow):  # its tools and models are parts of their own
        unseen = getattr(part, "tool_retriever", None) is not None
        return unseen or (acts_first(part) and not _is_team(part))
    return any(isinstance(held, SQLDatabase) for held in getattr(part, "__dict__", {}).values())


def _is_team(workflow: Workflow) -> bool:
    from llama_index.core.agent.workflow import AgentWorkflow  # noqa: PLC0415 - slow

    return type(workflow) is AgentWorkflow


def acts_first(workflow: Workflow) -> bool:
    """Return whether a workflow may act before a model has answered: its class is unknown."""
    from llama_index.core.agent.workflow import FunctionAgent, ReActAgent  # noqa: PLC0415 - slow

    return type(workflow) not in (FunctionAgent, ReActAgent)


_DEFAULTS: Final[tuple[tuple[type, str], ...]] = (
    (BaseRetriever, "_aretrieve"),
    (CustomLLM, "achat"),
    (CustomLLM, "acomplete"),
    (CustomQueryEngine, "acustom_query"),
    (BasePydanticVectorStore, "aquery"),
)
"""Async methods that call the sync method unless a subclass overrides them."""
_PARTS: Final = (PromptMixin, LLM, BaseTool, BasePydanticVectorStore)
"""The types of inner objects that can block."""


def is_blocking(thing: object) -> bool:
    """Return whether async methods of an object, or of objects inside it, are known to block."""
    return any(inherits(part, owner, method) for part in parts_of(thing) for owner, method in _DEFAULTS)


def inherits(thing: object, owner: type, method: str) -> bool:
    """Return whether an object inherits this method from `owner`, without a closer override."""
    return isinstance(thing, owner) and next(k for k in type(thing).__mro__ if method in vars(k)) is owner


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread. A cancel cannot stop the thread."""
    return await anyio.to_thread.run_sync(call, *arguments, abandon_on_cancel=True)


async def called(thing: object, method: str, *arguments: Any, **options: Any) -> Any:
    """Call a method of an object: `a` and its name, or if the object blocks, the sync method in a thread."""
    if is_blocking(thing):
        return await in_thread(lambda: getattr(thing, method)(*arguments, **options))
    return await getattr(thing, f"a{method}")(*arguments, **options)


async def pieces_in_thread(make: Callable[[], Generator[T, None, None]]) -> AsyncGenerator[T, None]:
    """Yield the items of a blocking generator, each computed in a thread."""
    pieces, end, waits = await in_thread(make), object(), False
    try:
        while True:
            waits = True
            piece = await in_thread(next, pieces, end)
            waits = False
            if piece is end:
                break
            yield cast("T", piece)
    finally:
        if not waits:  # otherwise a thread that could not be stopped still uses the generator
            pieces.close()


def parts_of(thing: object) -> Iterator[object]:
    """Yield an object and, recursively, all objects inside it."""
    seen, todo = set[int](), [thing]
    while todo:
        part = todo.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            todo += [inner for value in getattr(part, "__dict__", {}).values() for inner in _inside(value)]


def _inside(value: object) -> list[object]:
    held = list(value.values()) if isinstance(value, dict) else value
    held = held if isinstance(held, list | tuple) else [value]
    return [one for one in held if isinstance(one, _PARTS)]
