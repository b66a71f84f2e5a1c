"""A chat worker in front of a scripted server, in one call."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from servers.chat_server import Call, ChatServer, Script

from podium.types import Completion, Message, Sampling
from podium.workers import ChatWorker, Endpoint, Request


@dataclass
class Asked:
    """What a call of a chat worker came to."""

    completion: Completion
    pieces: list[str]
    """What was streamed before it."""
    call: Call
    """The request as the server saw it."""

    @property
    def body(self) -> dict[str, Any]:
        """The JSON the server was sent."""
        return self.call.body


async def ask(  # noqa: PLR0913  (what a call may consist of)
    script: Script,
    *,
    stream: bool = False,
    model: str = "m",
    messages: Sequence[Message] = (Message("user", "why?"),),
    sampling: Sampling | None = None,
    defaults: Sampling | None = None,
    deadline: float | None = None,
    **endpoint: Any,
) -> Asked:
    """Call a worker of a server that replies by `script`, and return what came of it.

    Args:
        script: what the server replies.
        stream: whether somebody reads along.
        model: the worker's model.
        messages: of the request.
        sampling: of the request.
        defaults: the worker's own sampling.
        deadline: of the request.
        endpoint: arguments of `Endpoint`.
    """
    request = Request(
        messages=tuple(messages), sampling=sampling or Sampling(), stream=stream, deadline=deadline
    )
    async with ChatServer(script) as server:
        worker = ChatWorker(model, endpoint=Endpoint(server.url, **endpoint), sampling=defaults or Sampling())
        async with worker, aclosing(worker.call(request)) as call:
            *pieces, last = [piece async for piece in call]
    assert isinstance(last, Completion)
    return Asked(last, [piece for piece in pieces if isinstance(piece, str)], server.calls[0])
