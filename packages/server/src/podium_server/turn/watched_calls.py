"""Streams the calls of a run in the background while somebody watches it."""

from collections.abc import AsyncGenerator

from podium.conductor import Conductor
from podium.hosts.chat import whole_answers
from podium.types import Completion
from podium.workers import CallMiddleware, Request, Worker
from podium_server.turn.live_pieces import LivePieces


def watched_calls(live: LivePieces, run_id: str, inner: CallMiddleware | None = None) -> CallMiddleware:
    """Return a middleware that streams the calls of a run that has a viewer when the call begins.

    Other calls are made without streaming, and so are calls of conductors: the pieces of a nested run do not
    fit its answer if a retry writes another text.

    Args:
        live: knows the viewers.
        run_id: the run.
        inner: another middleware for the call; `None` calls the worker directly.
    """
    whole = whole_answers(inner)

    def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        if isinstance(worker, Conductor) or not live.is_watched(run_id):
            return whole(worker, request)
        return worker.call(request) if inner is None else inner(worker, request)

    return middleware
