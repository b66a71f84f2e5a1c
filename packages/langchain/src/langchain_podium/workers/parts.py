"""The parts of a Runnable: whether one of them may change something, or interrupt a graph.

A part whose code cannot be seen, such as a function, may do both.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

from langchain_core.language_models import BaseLanguageModel
from langchain_core.output_parsers import BaseOutputParser
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    RunnableAssign,
    RunnableBranch,
    RunnableParallel,
    RunnablePassthrough,
    RunnablePick,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase, RunnableEachBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tools import BaseTool

from podium.hosts import hints_act, said_acts

_BUILT_IN: Final = (BaseLanguageModel, BasePromptTemplate, BaseOutputParser, BaseRetriever)
_AGENTS: Final = (
    "langchain.agents.factory",
    "langgraph.prebuilt.chat_agent_executor",
    "langgraph.pregel._read",
)
"""Modules whose functions are nodes of agents: they call the model, whose tools are in another node."""
_TOOLS: Final = "tools_by_name"
"""The attribute of the node of an agent's tools."""
_MIDDLEWARE: Final = "langchain.agents.middleware."
_OWN_MIDDLEWARE: Final = f"{_MIDDLEWARE}types"
"""The module of the classes that LangChain's decorators make of a user's function."""


def may_act(thing: object) -> bool:
    """Return whether a call of an object may change something in the world: see `Worker.acts`."""
    return any(map(_acts, _leaves(thing)))


def acts_first(thing: object) -> bool:
    """Return whether a call may change something before a model of the object has answered.

    An agent calls its tools only after that.
    """
    return any(_acts(leaf) for leaf in _leaves(thing) if not hasattr(leaf, _TOOLS))


def is_built_in(thing: object) -> bool:
    """Return whether an object is made only of models, prompts, parsers and retrievers."""
    return all(isinstance(part, _BUILT_IN) for part in _parts(thing))


def is_graph(thing: object) -> bool:
    """Return whether an object is a compiled graph."""
    protocol = sys.modules.get("langgraph.pregel.protocol")  # a caller with a graph has imported it
    return protocol is not None and isinstance(thing, protocol.PregelProtocol)


def _acts(part: Any) -> bool:
    if (said := said_acts(part)) is not None:  # also of a conductor's node
        return said
    if isinstance(part, BaseTool):
        return hints_act(part.metadata or {})
    if (tools := getattr(part, _TOOLS, None)) is not None:
        return any(map(may_act, tools.values()))
    functions = [call for name in ("func", "afunc") if (call := getattr(part, name, None)) is not None]
    return not isinstance(part, _BUILT_IN) and not (functions and all(map(_is_of_agent, functions)))


def _is_of_agent(function: Any) -> bool:
    """Return whether LangChain or LangGraph has written the function of an agent's node."""
    while isinstance(function, partial):
        function = function.func
    module = str(getattr(function, "__module__", ""))
    return module in _AGENTS or (module.startswith(_MIDDLEWARE) and module != _OWN_MIDDLEWARE)


def _leaves(thing: object) -> Iterator[object]:
    """Yield the parts of a Runnable, and of the nodes of its graphs."""
    for part in _parts(thing):
        nodes = getattr(part, "nodes", None) if is_graph(part) and said_acts(part) is None else None
        if not nodes:  # a remote graph has none
            yield part
        for node in (nodes or {}).values():
            yield from _leaves(getattr(node, "bound", node))


def _parts(thing: object) -> Iterator[object]:
    """Yield the parts of a Runnable that are not made of further Runnables."""
    if (inner := _inner(thing)) is None:
        yield thing
    for part in inner or ():
        yield from _parts(part)


def _inner(thing: object) -> Sequence[object] | None:  # noqa: PLR0911 - one case for each kind
    """Return the Runnables that a Runnable is made of; `None` for all others."""
    match thing:
        case RunnableBindingBase() | RunnableEachBase():
            return [thing.bound]
        case RunnableWithFallbacks():
            return [*thing.runnables]
        case RunnableSequence():
            return thing.steps
        case RunnableParallel():
            return [*thing.steps__.values()]
        case RunnableAssign():
            return [thing.mapper]
        case RunnableBranch():
            return [*chain(*thing.branches), thing.default]
        case DynamicRunnable():
            return [thing.default, *getattr(thing, "alternatives", {}).values()]
        case RunnablePick():
            return []
        case RunnablePassthrough() if thing.func is None and thing.afunc is None:
            return []
    return None
