"""A node of ours: called by a graph that is async and by one that is not, and traced once."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from podium.aio import run_sync

State = Mapping[str, Any]
"""A graph's state, as a node is given it."""
Data = dict[str, Any]
"""What a node writes to it: plain JSON, and messages."""
Work = Callable[..., Awaitable[Data]]
"""Does a node's work, given `state`, `config` and `is_sync`: whether what called the graph is not async."""


_CALLED_SYNC: Final = ContextVar("podium_called_sync", default=False)


def is_called_sync() -> bool:
    """Say whether code that is not async called the graph whose node goes on here."""
    return _CALLED_SYNC.get()


class Node(Runnable[Any, Data]):
    """A node's work, as LangGraph calls it: a `RunnableLambda` would be traced as a run of its own.

    Args:
        name: what the node is called.
        work: what it does.
        waits_for: runs the work from code that is not async, and returns what it came to.
    """

    def __init__(
        self, name: str, work: Work, waits_for: Callable[[Callable[[], Awaitable[Data]]], Data] = run_sync
    ) -> None:
        self.name = name
        self._work = work
        self._waits_for = waits_for

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Data:  # noqa: A002
        """Do the work."""
        settled, token = ensure_config(config), _CALLED_SYNC.set(False)
        try:
            return await self._work(_keys(input), settled, is_sync=False)
        finally:
            _CALLED_SYNC.reset(token)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Data:  # noqa: A002
        """Do the work, from code that is not async."""
        settled, token = ensure_config(config), _CALLED_SYNC.set(True)
        try:
            return self._waits_for(lambda: self._work(_keys(input), settled, is_sync=True))
        finally:
            _CALLED_SYNC.reset(token)


def _keys(state: Any) -> State:
    """Return a node's state by its keys, whatever the graph declares it as."""
    return state if isinstance(state, Mapping) else vars(state)
