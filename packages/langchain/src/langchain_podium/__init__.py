"""Podium for LangChain and LangGraph: a conductor as a Runnable, as a chat model, as a node of a graph.

What LangChain calls things is kept: a conductor is invoked, streamed and batched, and what
it directs is any Runnable. Each name below is imported when it is first asked for, so that
nothing is imported which nobody uses, LangGraph least of all.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_podium.chat_models import ChatPodium
    from langchain_podium.graph import conductor_node, create_conductor_agent, to_langgraph
    from langchain_podium.planner import as_planner
    from langchain_podium.runnable import ConductorRunnable
    from langchain_podium.shadowing import shadow
    from langchain_podium.workers import as_worker

_HOMES = {
    "ChatPodium": "langchain_podium.chat_models",
    "ConductorRunnable": "langchain_podium.runnable",
    "as_planner": "langchain_podium.planner",
    "as_worker": "langchain_podium.workers",
    "conductor_node": "langchain_podium.graph",
    "create_conductor_agent": "langchain_podium.graph",
    "shadow": "langchain_podium.shadowing",
    "to_langgraph": "langchain_podium.graph",
}

__all__ = [
    "ChatPodium",
    "ConductorRunnable",
    "as_planner",
    "as_worker",
    "conductor_node",
    "create_conductor_agent",
    "shadow",
    "to_langgraph",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'langchain_podium' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
