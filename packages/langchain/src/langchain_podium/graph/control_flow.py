"""Carries the exceptions with which LangGraph leaves a node through a run, unchanged.

`interrupt()` and `Command(graph=Command.PARENT)` are exceptions. Raised inside a worker's
call they pass the run as a `BaseException`, which no retry and no error boundary takes. The
node raises the original again.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TypeVar

from langgraph.errors import GraphBubbleUp

from podium.errors import PodiumError, WorkerError
from podium.execution import HostExit
from podium.types import Completion
from podium.usage import Usage
from podium.workers import CallMiddleware, Request, Worker

T = TypeVar("T")


class GraphExit(HostExit):
    """Carries an exception of LangGraph's from a worker's call through the run.

    Attributes:
        raised: the exception that LangGraph raised.
        worker: the name of the worker.
        usage: the tokens that the call has used; `None` if they are not known.
    """

    def __init__(self, raised: GraphBubbleUp, worker: str, usage: Usage | None = None) -> None:
        super().__init__(worker, usage=usage)
        self.raised = raised
        self.worker = worker


def pass_graph_exits(inner: CallMiddleware | None) -> CallMiddleware:
    """Return a middleware that calls workers as `inner`; LangGraph's exceptions become `GraphExit`."""

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
            raise GraphExit(raised, worker.card.name, usage) from None

    return middleware


def graph_exit_in(error: BaseException | None) -> GraphBubbleUp | None:
    """Return the exception of LangGraph's that an error is or was caused by; `None` where there is none."""
    while error is not None:
        if isinstance(error, GraphBubbleUp):
            return error
        error = error.__cause__
    return None


async def unwrap_graph_exit(run: Awaitable[T]) -> T:
    """Await a run; a `GraphExit` in the exception groups of its task groups is raised alone."""
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
    """Return the namespace of the node that the graph of a node is inside of; empty for a root graph's."""
    parts = [part for part in namespace.split("|") if not part.isdigit()]
    return "|".join(parts[:-1])
