"""A worker for tests, with scripted answers."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace

import anyio

from podium.errors import WorkerFailed
from podium.types.messages import Completion, estimate_usage
from podium.workers.worker import FREE, Card, Request, Worker

Reply = str | Completion | Exception
"""An answer, an answer with usage, or an exception to raise."""


class ScriptedWorker(Worker):
    """Answers from a table or a function after a fixed delay, and keeps its requests.

    The usage of a scripted text is computed from the text, and counts as measured. A scripted `Completion`
    has its own usage, to which the rules for the usage of servers apply.

    Args:
        name: its name, or its card.
        replies: one reply for every request, a table, or a function of the request. In a table, the first key
            that occurs in the request's text selects the reply.
        latency: delay before the first piece, in seconds.
        piece: characters per piece when streaming; `None` sends the text in one piece.
    """

    def __init__(
        self,
        name: str | Card,
        replies: Reply | Mapping[str, Reply] | Callable[[Request], Reply],
        *,
        latency: float = 0.0,
        piece: int | None = None,
    ) -> None:
        self.card = name if isinstance(name, Card) else Card(name=name, price=FREE)
        self._replies = replies
        self._latency = latency
        self._piece = piece
        self.requests: list[Request] = []
        """All requests so far, in order."""

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer as scripted."""
        self.requests.append(request)
        if self._latency:
            await anyio.sleep(self._latency)
        reply = self._reply(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            reply = Completion(reply, usage=replace(estimate_usage(request.messages, reply), estimated=False))
        if request.stream:
            size = self._piece or len(reply.text) or 1
            for start in range(0, len(reply.text), size):
                yield reply.text[start : start + size]
        yield reply

    def _reply(self, request: Request) -> Reply:
        if callable(self._replies):
            return self._replies(request)
        if isinstance(self._replies, Mapping):
            text = request.messages[-1].text
            unknown = WorkerFailed(f"no scripted reply of {self.card.name!r} fits {text[:80]!r}")
            return next((reply for key, reply in self._replies.items() if key in text), unknown)
        return self._replies
