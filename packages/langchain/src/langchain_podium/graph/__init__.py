"""Conductors in LangGraph: as a node, as a graph of their own, and their plans as graphs.

Needs the extra `langgraph`.
"""

import re
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from langchain_podium.graph.agent import create_conductor_agent
    from langchain_podium.graph.kept import to_langgraph
    from langchain_podium.graph.node import conductor_node

__all__ = ["conductor_node", "create_conductor_agent", "to_langgraph"]

_MODULES: Final = {"conductor_node": "node", "create_conductor_agent": "agent", "to_langgraph": "kept"}

_LOWEST: Final = [1, 2, 16]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _check_version()
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def _check_version() -> None:
    """See that LangGraph is there, and can do what is asked of it.

    Raises:
        ImportError: it is not there, or too old.
    """
    install = "pip install './packages/langchain[langgraph]' in a clone of Podium"
    try:
        found = version("langgraph")
    except PackageNotFoundError:
        raise ImportError(f"langgraph is not installed: {install}") from None
    if [int(part) for part in re.findall(r"\d+", found)[:3]] < _LOWEST:
        # A graph inside a node began anew when it was resumed, and what had ended was paid for again.
        raise ImportError(f"langgraph {found} runs finished steps again when it is resumed: {install}")
