"""Conductors in LangGraph: as a node, as a graph of their own, and their plans as graphs.

Needs the extra `langgraph`.
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
