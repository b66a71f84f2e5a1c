"""Every wait of a chat worker has a limit, and stopping reaches the socket."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any

import anyio
import pytest
from servers.chat_call import ask
from servers.chat_server import STALL, Call, ChatServer, Pause, Reply, Script, chunk, events, says, whole

from podium.errors import WorkerError, WorkerTimeout, WorkerUnavailable
from podium.types import Message
from podium.workers import ChatWorker, Endpoint, Request, Timeouts, complete

pytestmark = pytest.mark.anyio

WHY = (Message("user", "why?"),)
PIECE = chunk({"content": "half"})
END = chunk({}, finish_reason="stop")
SILENCE = Reply((STALL,))
SOON = 0.3
"""Seconds that a call has: time enough to send a request on a machine with other work."""
TRICKLE: list[Any] = [Pause(0.02), PIECE] * 500
ERROR = b"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n"


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[tuple[ChatWorker, ChatServer]]:
    """Open a worker in front of a server."""
    async with ChatServer(script) as server, ChatWorker("m", endpoint=Endpoint(server.url)) as worker:
        yield worker, server


@pytest.mark.parametrize(
    ("reply", "timeouts", "stream"),
    [
        pytest.param(SILENCE, {"first_byte": SOON}, True, id="no headers"),
        pytest.param(events(STALL), {"first_byte": SOON}, True, id="headers and nothing else"),
        pytest.param(events(PIECE, STALL), {"idle": SOON}, True, id="silence within the stream"),
        pytest.param(events(*TRICKLE), {"total": SOON}, True, id="a trickle"),
        pytest.param(SILENCE, {"total": SOON}, False, id="a whole answer"),
        pytest.param(Reply((ERROR, STALL)), {"total": SOON}, False, id="the body of an error"),
    ],
)
async def test_what_stands_still_is_given_up(
    reply: Reply, timeouts: dict[str, float], *, stream: bool
) -> None:
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

    async with serving(script) as (worker, server):
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
    """A server that does not take connections is given up, and nothing is paid."""
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


@pytest.mark.parametrize(
    ("reply", "stream"), [(SILENCE, False), (SILENCE, True), (events(PIECE, STALL), True)]
)
async def test_cancel_closes_the_connection(reply: Reply, *, stream: bool) -> None:
    """A cancelled call hangs up, so that the server can stop writing."""
    arrived = anyio.Event()

    def script(_: Call) -> Reply:
        arrived.set()
        return reply

    async with serving(script) as (worker, server):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(complete, worker, Request(messages=WHY, stream=stream))
            await arrived.wait()
            tasks.cancel_scope.cancel()
        await server.calls[0].hung_up.wait()


async def test_an_endless_answer_closes_the_connection() -> None:
    """A stream without end is given up while it still runs."""
    data = b"data: " + b"x" * 100_000 + b"\n\n"
    part = b"%x\r\n%b\r\n" % (len(data), data)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(lambda _: Reply(chain([head], repeat(part)))) as (worker, server):
        with pytest.raises(WorkerError):
            await complete(worker, Request(messages=WHY, stream=True))
        await server.calls[0].hung_up.wait()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_is_used_again(*, stream: bool) -> None:
    """Calls one after the other share a connection, refused ones too."""

    def script(call: Call) -> Reply:
        return says(call, "hello") if len(server.calls) % 2 else whole("no", status=400)

    async with serving(script) as (worker, server):
        for _ in range(4):
            try:
                await complete(worker, Request(messages=WHY, stream=stream))
            except WorkerError:
                continue
        assert len(server.calls) == 4
        assert server.connections == 1


async def test_an_early_refusal_of_a_large_question_is_read() -> None:
    """A server that refuses before it has read the question leaves nothing hanging."""

    async def refuse(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive(1000)
            await stream.send(b"HTTP/1.1 413 No\r\nContent-Length: 8\r\n\r\ntoo much")
            await anyio.sleep(0.2)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, refuse)
        port: Any = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  (no Django)
        messages = (Message("user", "x" * 2**23),)
        worker = ChatWorker("m", endpoint=Endpoint(f"http://127.0.0.1:{port}/v1"))
        with pytest.raises(WorkerError):
            await complete(worker, Request(messages=messages))
        group.cancel_scope.cancel()
