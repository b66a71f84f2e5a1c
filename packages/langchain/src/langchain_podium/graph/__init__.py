"""Conductors in LangGraph: as a node, as a graph of their own, and their plans as graphs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from langchain_podium.graph.agent import create_conductor_agent
    from langchain_podium.graph.kept import to_langgraph
    from langchain_podium.graph.node import conductor_node

__all__ = ["conductor_node", "create_conductor_agent", "to_langgraph"]

_MODULES: Final = {"conductor_node": "node", "create_conductor_agent": "agent", "to_langgraph": "kept"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
