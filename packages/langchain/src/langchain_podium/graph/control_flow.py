"""Pass LangGraph's control-flow exceptions through a run unchanged.

`interrupt()` and `Command(graph=Command.PARENT)` raise exceptions. Inside a worker's call they are converted
to a `BaseException`, which no retry and no error boundary catches. The node raises the original exception.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand
from langgraph.types import Command

from podium.errors import ConfigError, PodiumError, WorkerError
from podium.execution import HostExit
from podium.types import Completion
from podium.usage import Usage
from podium.workers import CallMiddleware, Request, Worker

T = TypeVar("T")


class GraphExit(HostExit):
    """Carries a LangGraph exception, which a worker has `raised`, through the run."""

    def __init__(
        self, raised: GraphBubbleUp, worker: str, usage: Usage | None = None, *, continues: bool = True
    ) -> None:
        super().__init__(worker, usage=usage, continues=continues)
        self.raised = raised
        self.worker = worker


def pass_graph_exits(inner: CallMiddleware | None, *, waits: bool) -> CallMiddleware:
    """Return a middleware like `inner`, which raises `GraphExit` for LangGraph's exceptions.

    `waits` is whether a call that was interrupted is continued after the answer.
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


def raised_above(graph_exit: GraphExit, above: str) -> Exception:
    """Return the exception to raise from the conductor for a control-flow exception of a worker's call.

    A command to the parent graph is sent to the graph that contains the conductor's node, and not to the
    internal graphs in between. `above` is the namespace of this node; empty if there is none.
    """
    raised = graph_exit.raised
    if not isinstance(raised, ParentCommand):
        return raised
    if not above:
        told = "the conductor is the root graph: add it to a graph with conductor_node(...)"
        return ConfigError(
            f"worker {graph_exit.worker!r} sent a Command to the parent graph, but there is none: {told}"
        )
    command = raised.args[0]
    return ParentCommand(
        Command(graph=above, update=command.update, resume=command.resume, goto=command.goto)
    )
