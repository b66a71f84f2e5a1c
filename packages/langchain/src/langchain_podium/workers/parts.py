"""The parts of a Runnable: whether one of them may change something, or interrupt a graph.

A part whose code cannot be seen, such as a function, may do both.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import getclosurevars, isfunction, ismethod, unwrap
from itertools import chain
from typing import Any, Final

from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.output_parsers import BaseOutputParser
from langchain_core.prompts import BasePromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
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

from langchain_podium.cards import innermost, settings
from podium.hosts.workers import hints_act, said_acts

_BUILT_IN: Final = (BaseLanguageModel, BasePromptTemplate, BaseOutputParser, BaseRetriever)
_AGENTS: Final = (
    "langchain.agents.factory",
    "langchain_core.runnables.config",
    "langgraph.prebuilt.chat_agent_executor",
    "langgraph.pregel._read",
    "langchain_podium.graph.conducted",
)
"""Modules whose functions are nodes and edges of agents: they call what is in their closures."""
AGENT_NODES: Final = ("model", "agent")
"""The nodes of agents that call their model."""
_TOOLS: Final = "tools_by_name"
"""The attribute of the node of an agent's tools."""
_WRAPPERS: Final = ("_wrap_tool_call", "_awrap_tool_call")
"""The attributes of that node with code around the tools' calls."""
_MIDDLEWARE: Final = "langchain.agents.middleware."
_OWN_MIDDLEWARE: Final = f"{_MIDDLEWARE}types"
"""The module of the classes that LangChain's decorators make of a user's function."""
_HARMLESS: Final = ("function", "custom", "web_", "file_search", "tool_search")
"""How the types of tools begin that a model's server only reads with, or leaves to the caller."""


def may_act(thing: object) -> bool:
    """Return whether a call of an object may change something in the world: see `Worker.acts`."""
    return any(map(_acts, _leaves(thing)))


def acts_first(thing: object) -> bool:
    """Return whether a call may change something before a model of the object has answered.

    An agent calls its tools only after that.
    """
    return any(_acts(leaf) for leaf in _leaves(thing) if not hasattr(leaf, _TOOLS))


def interrupts(thing: object) -> bool:
    """Return whether a part of an object certainly may interrupt a graph: its code names `interrupt`."""
    types = sys.modules.get("langgraph.types")  # code that calls it has imported it
    if types is None:
        return False
    for part in _parts(thing):
        if is_graph(part):
            if getattr(part, "interrupt_before_nodes", ()) or getattr(part, "interrupt_after_nodes", ()):
                return True
            if any(interrupts(node.bound) for node in getattr(part, "nodes", {}).values()):
                return True
        if any(interrupts(each) for each in getattr(part, _TOOLS, {}).values()):
            return True
        if any(types.interrupt in _named(code) for code in _codes(part)):
            return True
    return False


def _codes(part: Any) -> Iterator[Any]:
    """Yield the functions of a tool, of a node, or of another Runnable."""
    names = ("func", "coroutine", "_run", "_arun") if isinstance(part, BaseTool) else ("func", "afunc")
    found = [getattr(part, name, None) for name in names]
    yield from (unwrap(each) for each in found if isfunction(each) or ismethod(each))


def _named(code: Any) -> list[object]:
    """Return what the code of a function names outside of it."""
    seen = getclosurevars(getattr(code, "__func__", code))
    return [*seen.globals.values(), *seen.nonlocals.values()]


def open_tools(thing: Any) -> list[str]:
    """Return the names of the tools that a chat model, or the last model of a chain, leaves to its caller."""
    while isinstance(inner := innermost(thing), RunnableSequence):
        thing = inner.last
    offered = settings(thing).get("tools") if isinstance(inner, BaseChatModel) else None
    tools = [tool for tool in offered if isinstance(tool, Mapping)] if isinstance(offered, list) else []
    left = [tool for tool in tools if tool.get("type", "function") in ("function", "custom")]
    return [str(tool.get("function", tool).get("name")) for tool in left]


def is_built_in(thing: object) -> bool:
    """Return whether an object is made only of models, prompts, parsers and retrievers."""
    return all(isinstance(part, _BUILT_IN) for part in _parts(thing))


def is_plain_agent(thing: Any) -> bool:
    """Return whether a graph is an agent of LangChain whose answer is what its model writes, as it is.

    It has no structured output, and no middleware after its model.
    """
    nodes = {name: node.bound for name, node in getattr(thing, "nodes", {}).items()}
    models = [getattr(nodes[name], "func", None) for name in AGENT_NODES if name in nodes]
    if not models or not isfunction(models[0]) or not _is_of_agent(models[0]):
        return False
    before = ("before_agent", "before_model", "pre_model_hook")
    others = [name for name in nodes if name not in (*AGENT_NODES, "__start__", "tools")]
    is_structured = getclosurevars(models[0]).nonlocals.get("initial_response_format") is not None
    return not is_structured and all(name.endswith(before) for name in others)


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
        around = chain.from_iterable(_held(getattr(part, name, None), set()) for name in _WRAPPERS)
        return any(map(may_act, tools.values())) or any(map(_acts, around))
    return not isinstance(part, _BUILT_IN)


def _leaves(thing: object) -> Iterator[object]:
    """Yield the parts of a Runnable, of the nodes and edges of its graphs, and of the code of agents."""
    for part in _parts(thing):
        nodes = getattr(part, "nodes", None) if is_graph(part) else None  # a remote graph has none
        functions = [call for name in ("func", "afunc") if (call := getattr(part, name, None)) is not None]
        is_whole = said_acts(part) is not None or isinstance(part, BaseTool) or hasattr(part, _TOOLS)
        if is_whole or not (nodes or functions):
            yield part
            continue
        for node in (nodes or {}).values():
            yield from _leaves(getattr(node, "bound", node))
            for writer in getattr(node, "writers", ()):  # a conditional edge is one of them
                if (path := getattr(getattr(writer.func, "__self__", None), "path", None)) is not None:
                    yield from _leaves(path)
        for function in functions:
            yield from _held(function, set())


def _held(value: Any, seen: set[int]) -> Iterator[object]:
    """Yield what code of an agent calls: Runnables, tools of the model's server, functions of the user.

    An agent's tools are called in a node of their own.
    """
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Runnable):
        if not isinstance(value, BaseTool):
            yield from _leaves(value)
        return
    held: list[Any]
    if isinstance(value, list | tuple):
        yield from _server_tools(value)
        held = [*value]
    elif isinstance(value, partial):
        held = [value.func, *value.args, *value.keywords.values()]
    elif isfunction(value) or ismethod(value):
        code = unwrap(value)
        owner = getattr(code, "__self__", None)
        if not all(map(_is_of_agent, (code, *([] if owner is None else [type(owner)])))):
            yield code
            return
        held = [*getclosurevars(code).nonlocals.values()]
        held += [each for each in getattr(owner, "__dict__", {}).values() if not callable(each)]
    else:
        return
    for each in held:
        yield from _held(each, seen)


def _server_tools(offered: object) -> list[Mapping[str, Any]]:
    """Return the tools among those offered to a model with which its server may change something."""
    tools = [each for each in offered if isinstance(each, dict)] if isinstance(offered, list | tuple) else []
    kinds = [(tool, str(tool.get("type", "function"))) for tool in tools]
    return [tool for tool, kind in kinds if not kind.startswith(_HARMLESS) or "code_execution" in tool]


def _is_of_agent(code: Any) -> bool:
    """Return whether LangChain or LangGraph has written a function or class of an agent."""
    module = str(getattr(code, "__module__", ""))
    return module in _AGENTS or (module.startswith(_MIDDLEWARE) and module != _OWN_MIDDLEWARE)


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
            return [thing.bound, *_server_tools(getattr(thing, "kwargs", {}).get("tools"))]
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
