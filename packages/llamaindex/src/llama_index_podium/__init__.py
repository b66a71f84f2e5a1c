"""Podium for LlamaIndex: a conductor as a query engine and as an LLM, over retrievers, engines and models.

What LlamaIndex calls things is kept. The tools for agents are in `llama_index_podium.tools`,
the planner that is an LLM in `llama_index_podium.planner`, the events of a run in
`llama_index_podium.events`. Each name below is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_index_podium.llm import ConductorLLM
    from llama_index_podium.query_engine import ConductorQueryEngine
    from llama_index_podium.workers import as_worker

_HOMES = {
    "ConductorLLM": "llama_index_podium.llm",
    "ConductorQueryEngine": "llama_index_podium.query_engine",
    "as_worker": "llama_index_podium.workers",
}

__all__ = ["ConductorLLM", "ConductorQueryEngine", "as_worker"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'llama_index_podium' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
