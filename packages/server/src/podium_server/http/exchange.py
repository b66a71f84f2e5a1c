"""One HTTP request and its response, with limits for clients that are slow, or send too much.

A client that disconnects cancels the work on its request.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from hashlib import sha256
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qs

import anyio
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from podium.cli.screen import counted
from podium.errors import QueryError
from podium.hosts.completions import complaints_of
from podium.types import Message
from podium_server.errors import ServerError
from podium_server.http.serving import ABORT
from podium_server.settings import ServerSection

_KEEP_ALIVE = b": keep-alive\n\n"
_MOST_KEY_CHARS = 255
_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class BadRequest(ServerError):
    """The HTTP request is invalid."""

    code = "invalid_request"

    def __init__(
        self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code or self.code
        self.param = param

    @property
    def headers(self) -> Mapping[str, str]:
        """Close the connection if the rest of the body was not read."""
        return {"connection": "close"} if self.status in (408, 413) else {}


class ClientGone(Exception):
    """The client disconnected, or does not read the response."""


class Exchange:
    """One HTTP request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, bounds: ServerSection) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._bounds = bounds
        self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.path_params: Mapping[str, Any] = scope.get("path_params", {})
        self.method: str = scope["method"]
        self.scheme: str = scope["scheme"]
        self.query: str = scope["query_string"].decode("latin-1")
        self._abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT, {}).get("abort")
        self.status: int | None = None
        """Status of the response; `None` before it has begun."""
        self._is_ended = False
        """Whether the whole response was sent."""
        self.request_id = ""
        """The header `x-request-id` of the response; empty for none."""
        self.run_id: str | None = None
        """The run of the request, for the headers of an error; `None` if there is none."""

    @property
    def is_begun(self) -> bool:
        """Whether the response has begun."""
        return self.status is not None

    def header(self, name: str) -> str | None:
        """Return a header of the request by its name in lower case; `None` if there is none."""
        return self._headers.get(name)

    def single_header(self, name: str, code: str | None = None) -> str | None:
        """Return a header by its name in lower case; `None` if there is none."""
        if sum(each.decode("latin-1") == name for each, _ in self._scope["headers"]) > 1:
            raise BadRequest(f"the request has more than one header {name!r}: send it once", code=code)
        return self.header(name)

    def idempotency_key(self) -> str | None:
        """Return the header `Idempotency-Key`; `None` if there is none."""
        code = "invalid_idempotency_key"
        key = self.single_header("idempotency-key", code)
        if key is not None and not 0 < len(key.strip()) <= _MOST_KEY_CHARS:
            raise BadRequest(f"the Idempotency-Key must have 1 to {_MOST_KEY_CHARS} characters", code=code)
        return key

    async def body(self) -> bytes:
        """Return the body of the request."""
        most = self._bounds.body_bytes
        kind = (self.header("content-type") or "").partition(";")[0].strip().lower()
        if kind != "application/json":  # other types can be sent by any web page in a browser of this machine
            told = "the request has no header `Content-Type: application/json`"
            raise BadRequest(told, status=415, code="unsupported_media_type")
        length = self.header("content-length") or ""
        if length.isdecimal() and int(length) > most:
            raise _too_large(most)
        read = bytearray()
        try:
            with anyio.fail_after(self._bounds.read_seconds):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    read += message.get("body", b"")
                    if len(read) > most:
                        raise _too_large(most)
                    if not message.get("more_body"):
                        return bytes(read)
        except TimeoutError as error:
            told = f"the request did not arrive within {self._bounds.read_seconds:g} seconds"
            raise BadRequest(told, status=408, code="request_timeout") from error

    async def while_connected(
        self, work: Callable[[], Awaitable[None]], on_gone: Callable[[], None] = lambda: None
    ) -> None:
        """Do the work on a request whose body was read; cancel it when the client disconnects."""
        failure: Exception | None = None
        is_done = False

        async def watch() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            on_gone()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - raised below, where no task group wraps it
                failure = error
            is_done = True
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if not is_done and not self._is_ended:
            raise ClientGone

    async def forward(
        self,
        app: ASGIApp,
        body: bytes,
        facts: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """Let another application answer the request; see `while_connected`."""
        messages = [{"type": "http.request", "body": body, "more_body": False}]
        added = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]

        async def receive() -> dict[str, Any]:
            if not messages:
                await anyio.sleep_forever()  # `while_connected` notices the end of the connection
            return messages.pop()

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                message = {**message, "headers": [*message["headers"], *added]}
            await self._sent(message)

        await self.while_connected(lambda: app({**self._scope, **facts}, receive, send), on_gone)

    async def end(self) -> None:
        """End a response that was begun."""
        await self._sent({"type": "http.response.body", "body": b""})

    async def json(
        self, value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a response with JSON."""
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        await self.whole(body, "application/json", status=status, headers=headers)

    async def whole(
        self, body: bytes, content_type: str, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a response in one piece."""
        of_body = {"content-type": content_type, "content-length": str(len(body))}
        await self._begin(status, of_body | dict(headers or {}))
        await self._sent({"type": "http.response.body", "body": body})

    async def stream(
        self,
        frames: AsyncGenerator[bytes, None],
        headers: Callable[[], Mapping[str, str]],
        on_error: Callable[[Exception], bytes],
        keep_alive: Callable[[], bytes] = lambda: _KEEP_ALIVE,
    ) -> None:
        """Send server-sent events, and a comment after each time span without an event.

        The response begins with the first event or comment, or at the end without any. An exception before
        its beginning is raised; a later one becomes the last event.
        """
        writer, reader = anyio.create_memory_object_stream[bytes](16)
        failure: Exception | None = None

        async def produce() -> None:
            nonlocal failure
            async with writer, aclosing(frames):
                try:
                    async for frame in frames:
                        await writer.send(frame)
                except Exception as error:  # noqa: BLE001 - raised or sent below
                    failure = error

        gone: ClientGone | None = None
        async with anyio.create_task_group() as tasks, reader:
            tasks.start_soon(produce)
            try:
                while (frame := await self._next(reader, keep_alive)) is not None:
                    await self._event(frame, headers)
            except ClientGone as error:
                gone = error
                tasks.cancel_scope.cancel()
        if gone is not None:
            raise gone
        if failure is not None and not self.is_begun:
            raise failure
        await self._event(b"" if failure is None else on_error(failure), headers, is_last=True)

    async def _next(self, reader: Any, keep_alive: Callable[[], bytes]) -> bytes | None:
        """Return the next event, a comment if there is none for some time, or `None` at the end."""
        with anyio.move_on_after(self._bounds.keep_alive_seconds):
            try:
                frame: bytes = await reader.receive()
            except anyio.EndOfStream:
                return None
            return frame
        return keep_alive()

    async def _event(
        self, frame: bytes, headers: Callable[[], Mapping[str, str]], *, is_last: bool = False
    ) -> None:
        if not self.is_begun:
            await self._begin(200, {**_STREAM_HEADERS, **headers()})
        await self._sent({"type": "http.response.body", "body": frame, "more_body": not is_last})

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        if self.request_id:
            headers = {**headers, "x-request-id": self.request_id}
        raw = [
            (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()
        ]
        await self._sent({"type": "http.response.start", "status": status, "headers": raw})

    async def _sent(self, message: MutableMapping[str, Any]) -> None:
        try:
            with anyio.fail_after(self._bounds.write_seconds):
                await self._send(message)
            self._is_ended = message["type"] == "http.response.body" and not message.get("more_body")
        except (TimeoutError, OSError) as error:
            if self._abort is not None:
                self._abort()  # else the connection would wait for its client
            raise ClientGone from error


def _too_large(most: int) -> BadRequest:
    told = f"the request is larger than {most:,} bytes"
    return BadRequest(told, status=413, code="request_too_large")


_Model = TypeVar("_Model", bound=BaseModel)
_MOST_TOLD = 3
"""Maximum number of errors in a message."""


def read_body(raw: bytes, model: type[_Model]) -> _Model:
    """Return the body of a request."""
    return _validated(lambda: model.model_validate_json(raw))


def _validated(read: Callable[[], _Model]) -> _Model:
    try:
        return read()
    except ValidationError as error:
        found = error.errors(include_url=False)
        complaints = complaints_of(found)
        told = "; ".join(complaint.message for complaint in complaints[:_MOST_TOLD])
        more = len(complaints) - _MOST_TOLD
        told += f"; and {counted(more, 'more error')}" if more > 0 else ""
        code = "unknown_parameter" if found[0]["type"] == "extra_forbidden" else None
        raise BadRequest(told, code=code, param=complaints[0].param or None) from None


def read_query(query: str, model: type[_Model]) -> _Model:
    """Return the parameters of a URL. A field of the type `list` may be given several times."""
    given = parse_qs(query, keep_blank_values=True)
    lists = {name for name, field in model.model_fields.items() if get_origin(field.annotation) is list}
    values = {name: each if name in lists else each[-1] for name, each in given.items()}
    return _validated(lambda: model.model_validate(values, strict=False))


def read_messages(field: str, wires: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the messages of a conversation in the form of chat completions."""
    messages: list[Message] = []
    for number, wire in enumerate(wires):
        try:
            messages.append(Message.from_wire(wire))
        except QueryError as error:
            place = f"{field}[{number}]"
            raise BadRequest(f"{place}: {error}", code=error.code, param=place) from None
    return messages


def fingerprint_of(path: str, raw: bytes) -> str:
    """Return the hash of a request, for its idempotency key."""
    return sha256(path.encode() + b"\0" + raw).hexdigest()
