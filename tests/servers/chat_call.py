"""Calls a chat worker on a scripted server."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from servers.chat_server import Call, ChatServer, Script

from podium.types import Completion, Message, Sampling
from podium.workers import ChatWorker, Endpoint, Request


@dataclass
class Asked:
    """The result of a chat worker's call."""

    completion: Completion
    pieces: list[str]
    """The streamed pieces."""
    call: Call
    """The request that the server received."""

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body of the request."""
        return self.call.body


async def ask(  # noqa: PLR0913  (one argument for each part of a call)
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
    """Call a worker, whose own sampling is `defaults`, on a server with the replies of `script`."""
    sampling = sampling or Sampling()
    request = Request(messages=tuple(messages), sampling=sampling, stream=stream, deadline=deadline)
    async with ChatServer(script) as server:
        worker = ChatWorker(model, endpoint=Endpoint(server.url, **endpoint), sampling=defaults or Sampling())
        async with worker, aclosing(worker.call(request)) as call:
            *pieces, last = [piece async for piece in call]
    assert isinstance(last, Completion)
    return Asked(last, [piece for piece in pieces if isinstance(piece, str)], server.calls[0])
