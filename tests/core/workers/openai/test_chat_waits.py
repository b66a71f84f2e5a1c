"""Every wait of a chat worker has a limit, and stopping reaches the socket."""

import socket
from typing import Any

import anyio
import pytest
from servers.chat_call import ask
from servers.chat_server import STALL, Call, ChatServer, Pause, Reply, chunk, events, says

from podium import ChatWorker, Endpoint, Message
from podium.errors import WorkerTimeout, WorkerUnavailable
from podium.workers import Request, Timeouts, complete

pytestmark = pytest.mark.anyio

WHY = (Message("user", "why?"),)
PIECE = chunk({"content": "half"})
END = chunk({}, finish_reason="stop")
SILENCE = Reply((STALL,))
SOON = 0.3
"""Seconds that a call has: time enough to send a request on a machine with other work."""
TRICKLE: list[Any] = [Pause(0.02), PIECE] * 500
ERROR = b"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize(
    ("reply", "timeouts", "stream"),
    [
        pytest.param(SILENCE, {"first_byte": SOON}, True, id="no headers"),
        pytest.param(events(PIECE, STALL), {"idle": SOON}, True, id="silence within the stream"),
        pytest.param(events(*TRICKLE), {"total": SOON}, True, id="a trickle"),
        pytest.param(Reply((ERROR, STALL)), {"total": SOON}, False, id="the body of an error"),
    ],
)
async def test_what_stands_still_is_given_up(reply: Reply, timeouts: Any, *, stream: bool) -> None:
    """Each timeout ends a call, which is perhaps paid, and hangs up."""
    async with ChatServer(lambda _: reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url, timeouts=Timeouts(**timeouts)))
        with pytest.raises(WorkerTimeout) as caught:
            await complete(worker, Request(messages=WHY, stream=stream))
        assert caught.value.maybe_paid
        await server.calls[0].hung_up.wait()


async def test_the_deadline_of_a_request_counts() -> None:
    """A deadline ends a call long before the timeouts do; nothing is sent that nobody waits for."""

    def script(call: Call) -> Reply:
        return SILENCE if server.calls[1:] else says(call, "in time")

    async with ChatServer(script) as server, ChatWorker("m", endpoint=Endpoint(server.url)) as worker:
        await complete(worker, Request(messages=WHY))  # leaves a connection open
        for seconds, count in ((-1.0, 1), (SOON, 2)):
            request = Request(messages=WHY, deadline=anyio.current_time() + seconds)
            with pytest.raises(WorkerTimeout) as caught:
                await complete(worker, request)
            assert caught.value.maybe_paid is (seconds > 0)
            assert len(server.calls) == count


async def test_waiting_is_not_an_end() -> None:
    """An answer that is slow but within its limits arrives; what follows `[DONE]` is not waited for."""
    parts = (Pause(0.02), PIECE, Pause(0.02), END, b"data: [DONE]\n\n", STALL)
    asked = await ask(lambda _: events(*parts), stream=True, timeouts=Timeouts(first_byte=5, idle=5))
    assert asked.completion.text == "half"


async def test_a_connection_that_is_not_made_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)  # noqa: FBT003
            one.connect_ex(("127.0.0.1", port))
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", timeouts=Timeouts(connect=0.1))
        with pytest.raises(WorkerUnavailable, match="no connection") as caught:
            await complete(ChatWorker("m", endpoint=endpoint), Request(messages=WHY))
        assert not caught.value.maybe_paid
        for one in waiting:
            one.close()
