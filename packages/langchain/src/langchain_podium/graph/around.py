"""A node of a graph, and the graph around it: its state, its store, and the runtime context of the call.

A run has no part of LangGraph. What its workers may read of the graph is here, for the node that is running.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_podium.cancellation import until_left
from podium.aio import run_sync
from podium.errors import ConfigError

_READ: Final = "__pregel_read"
"""The configuration key of LangGraph's function that reads the graph's state."""
RUNTIME: Final = "__pregel_runtime"
"""The configuration key of the runtime, with the store and the context."""
CHECKPOINTER: Final = "__pregel_checkpointer"
"""The configuration key of the checkpointer of a node's graph."""
_OF_CONTEXT: Final = ("podium_labels", "podium_policy", "podium_limits", "podium_workers")
"""What Podium reads of the runtime context."""
UNDECLARED: Final = object()
"""Stands for the value of a key that the graph's state does not declare."""

State = Mapping[str, Any]
"""A graph's state, as the input of a node."""
Data = dict[str, Any]
"""A node's update of the state: plain JSON, and messages."""
Work = Callable[[Any, RunnableConfig], Awaitable[Data]]
"""The function of a node."""


@dataclass(frozen=True, slots=True)
class Around:
    """The graph around a conductor's node."""

    config: RunnableConfig
    """The configuration of the node."""
    given: Any = None
    """The input of the node; `None` if it is not known, as in a function of the user's."""

    @property
    def runtime(self) -> Any:
        """The runtime of the graph, with `store` and `context`."""
        return self._configured(RUNTIME)

    @property
    def channels(self) -> Mapping[str, Any]:
        """LangGraph's channel of each key of the state; empty outside of a graph."""
        read = self._configured(_READ)
        found: Mapping[str, Any] = {} if read is None else read.args[1]
        return found

    @property
    def state(self) -> Any:
        """The state of the graph: the input of the node, or else all keys that have a value."""
        if self.given is not None:
            return self.given
        return self._configured(_READ)(select=list(self.channels), fresh=True)

    def held(self, key: str) -> object:
        """Return the state's value of a key; `None` if it is empty, `UNDECLARED` if the key is unknown."""
        read: Callable[[str], object] | None = self._configured(_READ)
        if read is None:  # outside of a graph, where the node raises an error
            return None
        try:
            return read(key)
        except KeyError:
            return UNDECLARED

    def _configured(self, key: str) -> Any:
        return self.config.get("configurable", {}).get(key)


_AROUND: Final = ContextVar[Around | None]("podium_around", default=None)


def around() -> Around | None:
    """Return the graph around the current run; `None` outside of a graph."""
    found = _AROUND.get() or Around(ensure_config())
    return None if found.runtime is None else found


@contextmanager
def inside(given: Any, config: RunnableConfig | None) -> Iterator[None]:
    """Make the graph of a node the one that `around` returns."""
    token = _AROUND.set(Around(ensure_config(config), given))
    try:
        yield
    finally:
        _AROUND.reset(token)


def check_context() -> None:
    """Check that the runtime context has no other values for Podium than those that it reads."""
    graph = around()
    context = None if graph is None else graph.runtime.context
    names = context if isinstance(context, Mapping) else dir(context)
    unknown = [name for name in names if str(name).startswith("podium_") and name not in _OF_CONTEXT]
    if unknown:
        told = f"{unknown[0]!r} in the runtime context is unknown"
        raise ConfigError(f"{told}: set {', '.join(_OF_CONTEXT[:-1])} or {_OF_CONTEXT[-1]}")


def check_checkpointer(worker: str) -> None:
    """Check that a graph can store a run that waits for a person, for a worker that interrupts it."""
    graph = around()
    if graph is None or not graph.config.get("configurable", {}).get(CHECKPOINTER):
        raise ConfigError(
            f"worker {worker!r} calls interrupt(), and the run cannot wait: run its conductor in a node of a "
            "graph with a checkpointer, as in graph.compile(checkpointer=...)"
        )


def in_context(name: str, *kinds: type[Any]) -> Any:
    """Return a value of the runtime context; `None` without one; raise `ConfigError` for another type."""
    graph = around()
    context = None if graph is None else graph.runtime.context
    found = context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
    if found is not None and not isinstance(found, kinds):
        told = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"{name} in the runtime context is {found!r:.80}: set a {told}")
    return found


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
