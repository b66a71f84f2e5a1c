"""A node that works in sync and async graphs, and is traced once."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_podium.cancellation import until_left
from podium.aio import run_sync

State = Mapping[str, Any]
"""A graph's state, as the input of a node."""
Data = dict[str, Any]
"""A node's update of the state: plain JSON, and messages."""
Work = Callable[[Any, RunnableConfig], Awaitable[Data]]
"""The function of a node."""
_CALLED_SYNC: Final = ContextVar("podium_called_sync", default=False)


def is_called_sync() -> bool:
    """Return whether sync code called the graph of the current node."""
    return _CALLED_SYNC.get()


class Node(Runnable[Any, Data]):
    """A node as LangGraph calls it; a `RunnableLambda` would be traced as a separate run."""

    def __init__(
        self,
        name: str,
        work: Work,
        waits_for: Callable[[Callable[[], Awaitable[Data]]], Data] = run_sync,
        *,
        acts: bool = False,
    ) -> None:
        self.name = name
        self.acts = acts
        self._work = work
        self._waits_for = waits_for

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Data:  # noqa: A002
        """Run the node."""
        token = _CALLED_SYNC.set(False)
        try:
            return await self._work(input, ensure_config(config))
        finally:
            _CALLED_SYNC.reset(token)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Data:  # noqa: A002
        """Run the node from sync code."""
        settled, token = ensure_config(config), _CALLED_SYNC.set(True)
        try:
            return self._waits_for(lambda: until_left(settled, lambda: self._work(input, settled)))
        finally:
            _CALLED_SYNC.reset(token)
