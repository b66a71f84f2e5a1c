"""Conductors in LangGraph: as a node, as a separate graph, and their plans as graphs.

Requires the extra `langgraph`.
"""

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_LOWEST: Final = [1, 2, 16]


def __getattr__(name: str) -> Any:
    if name in __all__:
        _check_version()
    return _load(name)


def _check_version() -> None:
    """Check that LangGraph is installed in a supported version."""
    install = "pip install 'langchain-podium[langgraph]'"
    try:
        found = version("langgraph")
    except PackageNotFoundError:
        raise ImportError(f"langgraph is not installed: {install}") from None
    if [int(part) for part in re.findall(r"\d+", found)[:3]] < _LOWEST:
        # In older versions, a graph inside a node restarted when it was resumed, and paid for its steps
        # again.
        raise ImportError(f"langgraph {found} runs finished steps again when it is resumed: {install}")
