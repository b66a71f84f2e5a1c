"""Pass LangGraph's control-flow exceptions through a run unchanged.

`interrupt()` and `Command(graph=Command.PARENT)` raise exceptions. Inside a worker's call they are converted
to a `BaseException`, which no retry and no error boundary catches. The node raises the original exception.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TypeVar

from langgraph.errors import GraphBubbleUp, GraphInterrupt

from podium.errors import PodiumError, WorkerError
from podium.execution import HostExit
from podium.types import Completion
from podium.usage import Usage
from podium.workers import CallMiddleware, Request, Worker

T = TypeVar("T")


class GraphExit(HostExit):
    """Carries a LangGraph exception from a worker's call through the run.

    Attributes:
        raised: the LangGraph exception.
        worker: the name of the worker.
        usage: the tokens that the call has used; `None` if unknown.
        continues: see `HostExit`.
    """

    def __init__(
        self, raised: GraphBubbleUp, worker: str, usage: Usage | None = None, *, continues: bool = True
    ) -> None:
        super().__init__(worker, usage=usage, continues=continues)
        self.raised = raised
        self.worker = worker


def pass_graph_exits(inner: CallMiddleware | None, *, waits: bool) -> CallMiddleware:
    """Return a middleware like `inner`, which raises `GraphExit` for LangGraph's exceptions.

    Args:
        inner: the middleware; `None` calls the worker directly.
        waits: whether a call that was interrupted is continued after the answer.
    """

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        call = worker.call(request) if inner is None else inner(worker, request)
        try:
            async with aclosing(call) as pieces:
                async for piece in pieces:
                    yield piece
        except (GraphBubbleUp, PodiumError) as error:
            raised = graph_exit_in(error)
            if raised is None:
                raise
            usage = error.usage if isinstance(error, WorkerError) else None
            continues = waits or not isinstance(raised, GraphInterrupt)
            raise GraphExit(raised, worker.card.name, usage, continues=continues) from None

    return middleware


def graph_exit_in(error: BaseException | None) -> GraphBubbleUp | None:
    """Return the LangGraph exception that an error is or was caused by; `None` if there is none."""
    while error is not None:
        if isinstance(error, GraphBubbleUp):
            return error
        error = error.__cause__
    return None


async def unwrap_graph_exit(run: Awaitable[T]) -> T:
    """Await a run; raise a `GraphExit` in its exception groups without the groups."""
    try:
        return await run
    except BaseExceptionGroup as group:
        found = _first(group)
        if found is None:
            raise
        raise found from None


def _first(group: BaseExceptionGroup[BaseException]) -> GraphExit | None:
    for error in group.exceptions:
        if isinstance(error, GraphExit):
            return error
        if isinstance(error, BaseExceptionGroup) and (found := _first(error)) is not None:
            return found
    return None


def enclosing(namespace: str) -> str:
    """Return the namespace of the node that contains a node's graph; empty for a root graph."""
    parts = [part for part in namespace.split("|") if not part.isdigit()]
    return "|".join(parts[:-1])
