"""A TCP proxy that does to a server's answers what networks, gateways and hostile servers do.

It stands between a client and a real server and passes requests on as they are, so that the
server sees every call. Answers go through a `Fault`: given the pieces as the server sent
them, it yields what goes to the client instead, and how that ends.

    async with ChatServer(script) as server, FaultProxy(server.url, cut(b'"content": "')) as proxy:
        ...  # proxy.url, proxy.connections, proxy.open_connections

Clients do not pipeline: a piece that begins with `HTTP/` is the beginning of an answer.
"""

import json
import socket
import struct
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Iterator
from enum import Enum
from functools import cache
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.lowlevel import checkpoint

MIB = 2**20


class End(Enum):
    """How a connection ends, or does not."""

    RESET = "reset"
    """At once, with a TCP reset."""
    CLOSE = "close"
    """In good order."""
    STALL = "stall"
    """Nothing more comes, until the client leaves."""


Fault = Callable[[AsyncIterable[bytes]], AsyncGenerator[bytes | End, None]]


async def untouched(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes | End, None]:
    """Pass the answer on as it is."""
    async for piece in pieces:
        yield piece


def late(seconds: float) -> Fault:
    """Hold back every piece for a while."""

    async def act(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes | End, None]:
        async for piece in pieces:
            await anyio.sleep(seconds)
            yield piece

    return act


def sliced(size: int) -> Fault:
    """Let so many bytes travel at a time."""

    async def act(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes | End, None]:
        async for piece in pieces:
            for at in range(0, len(piece), size):
                yield piece[at : at + size]

    return act


def cut(after: bytes, end: End = End.RESET) -> Fault:
    """Pass on what comes up to and with these bytes, and then end; empty ends before the first byte."""

    async def act(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes | End, None]:
        seen = b""
        async for piece in pieces:
            before, seen = len(seen), seen + piece
            at = seen.find(after)
            if at >= 0:
                yield piece[: at + len(after) - before]
                yield end
                return
            yield piece

    return act


def changed(old: bytes, new: bytes, end: End | None = None) -> Fault:
    """Put other bytes in the place of some, and end after the piece that held them if `end` says so."""

    async def act(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes | End, None]:
        async for piece in pieces:
            yield piece.replace(old, new)
            if end is not None and old in piece:
                yield end

    return act


def instead(make: Callable[[], Iterable[bytes]]) -> Fault:
    """Send another answer in the place of every one."""

    async def act(pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes | End, None]:
        async for piece in pieces:
            if piece.startswith(b"HTTP/"):
                for part in make():
                    yield part

    return act


def error_body(status: int = 200) -> Iterator[bytes]:
    """Make an answer that says in its body that it is none."""
    body = json.dumps({"error": {"message": "the model fell over", "type": "server_error"}}).encode()
    yield _head(status, "application/json", f"Content-Length: {len(body)}") + body


def long_line(mib: int = 10) -> Iterator[bytes]:
    """Make a stream whose first event has one endless line."""
    yield _head(200, "text/event-stream", "Transfer-Encoding: chunked")
    for part in (b'data: {"choices": [{"delta": {"content": "', *[b"a" * MIB] * mib):
        yield b"%x\r\n%b\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


def long_header(mib: int = 10) -> Iterator[bytes]:
    """Make an answer with an endless header."""
    yield b"HTTP/1.1 200 OK\r\nX-Long: "
    yield from [b"a" * MIB] * mib
    yield b"\r\n\r\n"


def gzip_bomb(status: int = 200, *, mib: int = 256) -> Iterator[bytes]:
    """Make an answer that unpacks to a thousand times what travels."""
    yield _head(status, "application/json", "Content-Encoding: gzip", "Transfer-Encoding: chunked")
    for part in _packed(mib):
        yield b"%x\r\n%b\r\n" % (len(part), part)
    yield b"0\r\n\r\n"


@cache
def _packed(mib: int) -> tuple[bytes, ...]:
    packer = zlib.compressobj(wbits=31)
    parts = (*(packer.compress(b"\0" * MIB) for _ in range(mib)), packer.flush())
    return tuple(part for part in parts if part)


class FaultProxy:
    """Stands before a server while entered.

    Args:
        url: the server's.
        fault: what is done to its answers.
        times: how many connections it befalls, the first ones; `None` means all.
    """

    def __init__(self, url: str, fault: Fault = untouched, *, times: int | None = None) -> None:
        self._to = urlsplit(url)
        self._fault = fault
        self._times = times
        self.url = ""
        """The base URL a client is given."""
        self.connections = 0
        """Connections accepted so far."""
        self.open_connections = 0
        """Connections open now."""
        self._tasks: TaskGroup

    async def __aenter__(self) -> Self:
        self._listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = self._listener.extra_attributes[SocketAttribute.local_port]()
        self.url = f"http://127.0.0.1:{port}{self._to.path}"
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._listener.serve, self._pass)
        await checkpoint()  # its task is there from now on
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        await self._listener.aclose()

    async def _pass(self, client: SocketStream) -> None:
        """Serve one connection, until either side leaves or the fault ends it."""
        self.connections += 1
        self.open_connections += 1
        fault = self._fault if self._times is None or self.connections <= self._times else untouched
        try:
            assert self._to.hostname is not None
            assert self._to.port is not None
            async with (
                client,
                await anyio.connect_tcp(self._to.hostname, self._to.port) as server,
                anyio.create_task_group() as both,
            ):
                both.start_soon(_pump, client, server, both)
                both.start_soon(_answer, server, client, fault, both)
        finally:
            self.open_connections -= 1


async def _pump(client: SocketStream, server: SocketStream, both: TaskGroup) -> None:
    try:
        async for piece in client:
            await server.send(piece)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # one of the two has left, which is what this waits for
    both.cancel_scope.cancel()


async def _answer(server: SocketStream, client: SocketStream, fault: Fault, both: TaskGroup) -> None:
    try:
        async for part in fault(server):
            if part is End.STALL:
                await anyio.sleep_forever()
            if isinstance(part, End):
                if part is End.RESET:
                    raw = client.extra_attributes[SocketAttribute.raw_socket]()
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                break
            await client.send(part)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    both.cancel_scope.cancel()


def _head(status: int, content_type: str, *more: str) -> bytes:
    lines = (f"HTTP/1.1 {status} Faulty", f"Content-Type: {content_type}", *more)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
