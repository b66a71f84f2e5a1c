"""What LangGraph raises to leave a node is no failure of a worker, and leaves a run as it came.

`interrupt()` and `Command(graph=Command.PARENT)` are exceptions. Raised inside a worker's
call they pass the run as a `BaseException`, which no retry and no error boundary takes, and
are what they were again in the node.
"""

from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import TypeVar

from langgraph.errors import GraphBubbleUp

from podium.errors import PodiumError
from podium.types import Completion
from podium.workers import CallMiddleware, Request, Worker

T = TypeVar("T")


class Bubble(BaseException):
    """Carries what a worker's call was left by through the run.

    Attributes:
        raised: what LangGraph raised.
        worker: the name of the worker.
    """

    def __init__(self, raised: GraphBubbleUp, worker: str) -> None:
        super().__init__(worker)
        self.raised = raised
        self.worker = worker


def letting_through(inner: CallMiddleware | None) -> CallMiddleware:
    """Return what calls workers as `inner` does, and lets through what LangGraph raises in them."""

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        call = worker.call(request) if inner is None else inner(worker, request)
        try:
            async with aclosing(call) as pieces:
                async for piece in pieces:
                    yield piece
        except (GraphBubbleUp, PodiumError) as error:
            raised = bubble_in(error)
            if raised is None:
                raise
            raise Bubble(raised, worker.card.name) from None

    return middleware


def bubble_in(error: BaseException | None) -> GraphBubbleUp | None:
    """Return what LangGraph raised, where an error is that or came of it."""
    while error is not None:
        if isinstance(error, GraphBubbleUp):
            return error
        error = error.__cause__
    return None


async def unwrapped(run: Awaitable[T]) -> T:
    """Await what may be left by a `Bubble`, which leaves here alone, without the groups of a task group."""
    try:
        return await run
    except BaseExceptionGroup as group:
        found = _first(group)
        if found is None:
            raise
        raise found from None


def _first(group: BaseExceptionGroup[BaseException]) -> Bubble | None:
    for error in group.exceptions:
        if isinstance(error, Bubble):
            return error
        if isinstance(error, BaseExceptionGroup) and (found := _first(error)) is not None:
            return found
    return None


def enclosing(namespace: str) -> str:
    """Return the namespace of the node that the graph of a node is inside of; empty for a root graph's."""
    parts = [part for part in namespace.split("|") if not part.isdigit()]
    return "|".join(parts[:-1])
