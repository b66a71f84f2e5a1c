"""Every wait of a chat worker has a limit, and stopping reaches the socket."""

import socket
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
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
SILENCE = Reply((STALL,))
SOON = 0.3
"""Seconds that a call has: time enough to send a request on a machine with other work."""
TRICKLE: list[Any] = [Pause(0.02), PIECE] * 500


@asynccontextmanager
async def serving(script: Script, **timeouts: float) -> AsyncIterator[tuple[ChatWorker, ChatServer]]:
    """Open a worker in front of a server."""
    async with ChatServer(script) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url, timeouts=Timeouts(**timeouts)))
        async with worker:
            yield worker, server


@pytest.mark.parametrize(
    ("reply", "timeouts"),
    [
        pytest.param(SILENCE, {"first_byte": SOON}, id="no headers"),
        pytest.param(events(STALL), {"first_byte": SOON}, id="headers and nothing else"),
        pytest.param(events(PIECE, STALL), {"idle": SOON}, id="silence within the stream"),
        pytest.param(events(*TRICKLE), {"total": SOON}, id="a trickle"),
        pytest.param(events(PIECE, STALL), {"total": SOON}, id="total before idle"),
    ],
)
async def test_a_stream_that_stands_still_is_given_up(reply: Reply, timeouts: dict[str, float]) -> None:
    """Each timeout ends a stream, which is perhaps paid."""
    with pytest.raises(WorkerTimeout) as caught:
        await ask(lambda _: reply, stream=True, timeouts=Timeouts(**timeouts))
    assert caught.value.maybe_paid


@pytest.mark.parametrize(
    "reply", [SILENCE, Reply((b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", STALL)),
              Reply((b"HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n", STALL))],
)  # fmt: skip
async def test_a_whole_answer_that_does_not_come_is_given_up(reply: Reply) -> None:
    """The total bounds an answer in one piece, the reading of errors included."""
    with pytest.raises(WorkerTimeout) as caught:
        await ask(lambda _: reply, timeouts=Timeouts(total=SOON))
    assert caught.value.maybe_paid


@pytest.mark.parametrize("stream", [False, True])
async def test_the_deadline_of_a_request_counts(*, stream: bool) -> None:
    """A deadline ends a call long before the timeouts do."""
    deadline = anyio.current_time() + SOON
    with pytest.raises(WorkerTimeout) as caught:
        await ask(lambda _: SILENCE, stream=stream, deadline=deadline)
    assert caught.value.maybe_paid


@pytest.mark.parametrize("stream", [False, True])
async def test_a_deadline_that_has_passed_sends_nothing(*, stream: bool) -> None:
    """Nothing is sent that nobody waits for."""
    async with serving(lambda call: says(call, "late")) as (worker, server):
        await complete(worker, Request(messages=WHY))  # leaves a connection open
        request = Request(messages=WHY, stream=stream, deadline=anyio.current_time() - 1)
        with pytest.raises(WorkerTimeout) as caught:
            await complete(worker, request)
        assert not caught.value.maybe_paid
        assert len(server.calls) == 1


async def test_waiting_is_not_an_end() -> None:
    """An answer that is slow but within its limits arrives."""
    pauses = (Pause(0.02), PIECE, Pause(0.02), chunk({}, finish_reason="stop"))
    asked = await ask(lambda _: events(*pauses), stream=True, timeouts=Timeouts(first_byte=5, idle=5))
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


@pytest.mark.parametrize("reply", [SILENCE, events(STALL), events(PIECE, STALL)])
@pytest.mark.parametrize("stream", [False, True])
async def test_cancel_closes_the_connection(reply: Reply, *, stream: bool) -> None:
    """A cancelled call hangs up, so that the server can stop writing."""
    async with serving(lambda _: reply) as (worker, server):
        with anyio.move_on_after(SOON):
            await complete(worker, Request(messages=WHY, stream=stream))
        await server.calls[0].hung_up.wait()


async def test_stopping_early_closes_the_connection() -> None:
    """A caller who reads no further hangs up."""
    async with serving(lambda _: events(PIECE, STALL)) as (worker, server):
        async with aclosing(worker.call(Request(messages=WHY, stream=True))) as pieces:
            assert await anext(pieces) == "half"
        await server.calls[0].hung_up.wait()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_timeout_closes_the_connection(*, stream: bool) -> None:
    """A call that is given up hangs up."""
    async with serving(lambda _: SILENCE, total=SOON) as (worker, server):
        with pytest.raises(WorkerTimeout):
            await complete(worker, Request(messages=WHY, stream=stream))
        await server.calls[0].hung_up.wait()


async def test_an_endless_answer_closes_the_connection() -> None:
    """A stream without end is given up while it still runs."""
    data = b"data: " + b"x" * 1000 + b"\n\n"
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
        for _ in range(6):
            try:
                await complete(worker, Request(messages=WHY, stream=stream))
            except WorkerError:
                continue
        assert len(server.calls) == 6
        assert server.connections == 1


async def test_a_stream_that_stays_open_after_done_ends() -> None:
    """What follows `[DONE]` is not waited for."""
    end = chunk({}, finish_reason="stop")
    asked = await ask(lambda _: events(PIECE, end, b"data: [DONE]\n\n", STALL), stream=True)
    assert asked.completion.text == "half"


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
