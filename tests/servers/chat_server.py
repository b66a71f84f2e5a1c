"""A scripted chat completions server on loopback, which can also produce faults.

It does not use Podium. A `reply` function gets each `Call` and returns a `Reply`: bytes, pauses and faults in
the order in which they are sent; `says`, `events` and `whole` build the usual replies.

    async with ChatServer(lambda call: says(call, "hello")) as server:
        ...  # server.url, server.calls, server.open_connections

`with ChatServer(reply).in_thread() as server` serves in a thread with its own event loop.
"""

import asyncio
import inspect
import json
import socket
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Self

MODEL = "scripted-1"
USAGE: Mapping[str, Any] = {"prompt_tokens": 211, "completion_tokens": 7, "total_tokens": 218}


@dataclass(frozen=True)
class Pause:
    """Sends nothing for some time."""

    seconds: float


STALL: Literal["stall"] = "stall"
"""Sends nothing more; the connection stays open until the client closes it."""
RESET: Literal["reset"] = "reset"
"""Ends the connection at once, with a TCP reset."""
CUT: Literal["cut"] = "cut"
"""Closes the connection normally after the sent bytes, even if the reply is incomplete."""

Part = bytes | Pause | Literal["stall", "reset", "cut"]


@dataclass(frozen=True)
class Reply:
    """The items to send, in order; an iterator may be endless."""

    parts: Iterable[Part]


@dataclass
class Call:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    """The headers, with names in lower case."""
    raw: bytes
    body: dict[str, Any]
    """The JSON body; empty if there was none."""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closes the connection before the whole reply is sent."""
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the whole reply is sent."""


Script = Callable[[Call], Reply | Awaitable[Reply]]


def whole(
    body: object,
    *,
    status: int = 200,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Return a reply in one piece: bytes or text verbatim, other values as JSON."""
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else _json(body)
    named = {"Content-Type": content_type, "Content-Length": str(len(data)), **(headers or {})}
    return Reply((_head(status, named) + data,))


def events(
    *items: Mapping[str, Any] | Part,
    slice_size: int | None = None,
    done: bool = True,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Return a reply of server-sent events.

    A mapping is one event with JSON data; bytes are sent verbatim. Nothing is sent after a fault. Each write
    has `slice_size` bytes, or one item; `data: [DONE]` follows if `done`.
    """
    named = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **(headers or {})}
    parts: list[Part] = [_head(200, named)]
    for item in (*items, b"data: [DONE]\n\n") if done else items:
        if isinstance(item, Mapping | bytes):
            data = item if isinstance(item, bytes) else b"data: " + _json(item) + b"\n\n"
            parts += _chunks(data, slice_size)
        else:
            parts.append(item)
    return Reply((*parts, b"0\r\n\r\n"))


def says(  # noqa: PLR0913  (one argument for each part of an answer)
    call: Call,
    text: str,
    *,
    pieces: int = 3,
    usage: Mapping[str, Any] | None = USAGE,
    finish_reason: str | None = "stop",
    tool_calls: Sequence[Mapping[str, Any]] = (),
    delay: float = 0.0,
    slice_size: int | None = None,
) -> Reply:
    """Return the answer of a model: a stream of `pieces` if the request asks for it, else one body.

    The first byte is sent after `delay` seconds, a stream in writes of `slice_size` bytes. `None` leaves out
    the usage or the finish reason.
    """
    if call.body.get("stream"):
        length = max(1, -(-len(text) // pieces))
        cuts = [text[at : at + length] for at in range(0, len(text), length)]
        calls = [{"index": i, **one} for i, one in enumerate(tool_calls)]
        frames: list[Mapping[str, Any] | Part] = [chunk({"role": "assistant", "content": ""})]
        frames += [chunk({"content": cut}) for cut in cuts]
        frames += [chunk({"tool_calls": [one]}) for one in calls]
        frames.append(chunk({}, finish_reason=finish_reason))
        if usage is not None and call.body.get("stream_options", {}).get("include_usage"):
            frames.append({**_head_of("chat.completion.chunk"), "choices": [], "usage": usage})
        reply = events(*frames, slice_size=slice_size)
    else:
        reply = whole(completion(text, usage=usage, finish_reason=finish_reason, tool_calls=tool_calls))
    return Reply([Pause(delay), *reply.parts]) if delay else reply


def completion(
    text: object,
    *,
    usage: Mapping[str, Any] | None = USAGE,
    finish_reason: str | None = "stop",
    tool_calls: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the body of a whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = list(tool_calls)
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {**_head_of("chat.completion"), "choices": [choice]}
    return body if usage is None else {**body, "usage": dict(usage)}


def chunk(delta: Mapping[str, Any], *, finish_reason: str | None = None) -> dict[str, Any]:
    """Return the data of one event of a streamed answer."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish_reason}
    return {**_head_of("chat.completion.chunk"), "choices": [choice]}


def _head_of(kind: str) -> dict[str, Any]:
    return {"id": "c1", "object": kind, "created": 1, "model": MODEL}


class ChatServer:
    """Serves on 127.0.0.1 while it is entered; by HTTPS, if `tls` has a certificate."""

    def __init__(self, reply: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self.reply = reply
        """May be replaced at any time."""
        self.calls: list[Call] = []
        """All requests so far, in order."""
        self.connections = 0
        """Number of accepted connections so far."""
        self.open_connections = 0
        """The open connections."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.transports: set[asyncio.Transport] = set()
        self._port = 0
        self._tls = tls
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        about: Any = {"host": "127.0.0.1", "port": self._port, "backlog": 1024, "ssl": self._tls}
        self._server = await loop.create_server(lambda: _Connection(self), **about)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self.tasks.copy():
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
        for transport in self.transports.copy():  # idle connections of clients
            transport.abort()
        for _ in range(5):  # in which they close, and then the clients of libraries that keep them open
            await asyncio.sleep(0)

    @contextmanager
    def in_thread(self) -> Iterator[Self]:
        """Serve in a separate thread, for clients that block or have their own event loop."""
        ready, stop = threading.Event(), asyncio.Event()
        loop = asyncio.new_event_loop()

        async def serve() -> None:
            async with self:
                ready.set()
                await stop.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
        thread.start()
        ready.wait(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)
            loop.close()


class _Connection(asyncio.Protocol):
    """One client's connection: reads requests in sequence, and sends the reply to each."""

    def __init__(self, server: ChatServer) -> None:
        self._server = server
        self._buffer = b""
        self._call: Call | None = None
        self._task: asyncio.Task[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.transports.add(transport)
        self._server.connections += 1
        self._server.open_connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.transports.discard(self._transport)
        self._server.open_connections -= 1
        if self._call is not None and not self._call.answered.is_set():
            self._call.hung_up.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        request, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = request.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        raw, self._buffer = rest[:length], rest[length:]
        self._call = Call(method, path, headers, raw, json.loads(raw) if raw else {})
        self._server.calls.append(self._call)
        self._task = asyncio.get_running_loop().create_task(self._answer(self._call))
        self._server.tasks.add(self._task)
        self._task.add_done_callback(self._server.tasks.discard)

    async def _answer(self, call: Call) -> None:
        try:
            reply = self._server.reply(call)
            if inspect.isawaitable(reply):
                reply = await reply
        except Exception as exc:  # noqa: BLE001  (the client gets the error of the script)
            reply = whole({"error": {"message": f"the test's script raised {exc!r}"}}, status=500)
        for part in reply.parts:
            await self._play(part)
            if part in (RESET, CUT):
                return
        call.answered.set()

    async def _play(self, part: Part) -> None:
        match part:
            case bytes():
                self._transport.write(part)
                await self._writable.wait()
                if not part.startswith(b"HTTP/"):
                    await asyncio.sleep(0)  # so that a client in this loop reads piece by piece
            case Pause():
                await asyncio.sleep(part.seconds)
            case "stall":
                await asyncio.Event().wait()
            case "reset":
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self._transport.abort()
            case "cut":
                self._transport.close()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunks(data: bytes, size: int | None) -> Iterator[bytes]:
    for at in range(0, len(data), size or max(1, len(data))):
        cut = data[at : at + size] if size else data
        yield b"%x\r\n%b\r\n" % (len(cut), cut)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
