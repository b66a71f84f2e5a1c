"""Posts JSON objects and reads JSON objects, whole or as a stream of server-sent events."""

import asyncio
import json
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Literal, NamedTuple, TypeVar

from podium.errors import AnswerNotUtf8, WorkerBroken, WorkerRefused, WorkerTimeout
from podium.workers.openai.errors import Origin, answer_fault, status_fault
from podium.workers.openai.providers import Timeouts
from podium.workers.openai.transport import Download, Transport, Upload

MAX_LINE = 2**20
"""Maximum length of a line, in bytes."""
MAX_ANSWER = 32 * 2**20
"""Maximum size of a response, streamed or whole, in bytes."""


class SseEvent(NamedTuple):
    """A server-sent event."""

    name: str
    """Its `event` field; often empty."""
    data: str
    """Its `data` fields, joined by newlines."""


class SseReader:
    """Parses the pieces of a stream into events, as the HTML standard (section 9.2) defines."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._after_cr = False
        self._at_start = True
        self._size = 0
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Return the events that `piece` completes.

        Raises:
            AnswerNotUtf8: the data of an event is not UTF-8.
            WorkerBroken: a line is over `MAX_LINE` bytes, the stream is over `MAX_ANSWER`, or a line has JSON
                without the name of a field.
        """
        self._size += len(piece)
        if self._after_cr and piece:
            self._after_cr = False
            piece = piece.removeprefix(b"\n")
        if not piece:
            return []
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *lines = piece.split(b"\n")
        self._line += first
        events: list[SseEvent] = []
        for line in lines:
            self._end_line(events)
            self._line += line
        if len(self._line) > MAX_LINE or self._size > MAX_ANSWER:
            raise WorkerBroken(
                f"the stream has a line over {MAX_LINE:,} bytes or is over {MAX_ANSWER:,} bytes, "
                "which is too long for an answer",
                maybe_paid=True,
            )
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that the end of the stream truncated, if any. Its data may be incomplete."""
        events: list[SseEvent] = []
        self._end_line(events, cut=True)
        self._end_event(events)
        return events

    def _end_line(self, events: list[SseEvent], *, cut: bool = False) -> None:
        if self._at_start:
            self._at_start = False
            if self._line.startswith(b"\xef\xbb\xbf"):
                del self._line[:3]
        if not self._line:
            self._end_event(events)
            return
        field, _, value = bytes(self._line).partition(b":")
        self._line.clear()
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(_decoded(value, cut=cut))
        elif field == b"event":
            self._name = value.decode(errors="replace")
        elif field.lstrip().startswith((b"{", b"[")):  # the standard ignores unknown fields; this is data
            raise WorkerBroken("a line of the stream has JSON without `data:`", maybe_paid=True)

    def _end_event(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent(self._name, "\n".join(self._data)))
            self._data = []
        self._name = ""


def _decoded(data: bytes, *, cut: bool) -> str:
    """Decode data; if it was truncated (`cut`), its last character may be incomplete."""
    try:
        return data.decode(errors="replace" if cut else "strict")
    except UnicodeDecodeError as error:
        raise AnswerNotUtf8(f"an event of the stream is not UTF-8: {error}", maybe_paid=True) from error


TAIL_SECONDS = 1.0
"""Timeout for the end of a stream after `[DONE]`, in seconds. Only a finished stream frees its connection."""
_MAX_ERROR_BODY = 64 * 1024

T = TypeVar("T")


class _Body(NamedTuple):
    """The body of a response."""

    content: bytes
    has_end: bool
    """Whether its end was seen, and not only the end of the connection."""

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode(errors="replace")

    @property
    def received(self) -> str | None:
        """See `WorkerError.received`."""
        return self.text if self.has_end else None


class Exchange:
    """Requests to one server in one event loop.

    Args:
        origin: the server, for error messages.
        headers: the HTTP headers of every request.
        timeouts: the timeouts for the server.
    """

    def __init__(self, origin: Origin, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        self._origin = origin
        self._timeouts = timeouts
        self._transport = Transport(origin.url, headers)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def ask(
        self, path: str, body: Mapping[str, Any], end: float, headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """Post `body`, and return the JSON object of the response.

        Args:
            path: appended to the base URL.
            body: the request.
            end: when the response must be complete, in seconds on the event loop's clock.
            headers: the request's own HTTP headers.

        Raises:
            WorkerError: the server did not return a JSON object.
        """
        upload = self._upload(body, end, headers)
        return self._read_object(await self._wait(self._fetch(path, upload), upload, end))

    async def get(self, path: str, end: float) -> dict[str, Any]:
        """Return the JSON object at a path; `ask` describes the arguments and errors."""
        upload = Upload(b"")
        return self._read_object(await self._wait(self._fetch(path, upload, "GET"), upload, end))

    async def listen(
        self, path: str, body: Mapping[str, Any], end: float, headers: Mapping[str, str]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Post `body`, and yield the JSON object of each event of the streamed response.

        `ask` describes the arguments and errors.
        """
        upload = self._upload(body, end, headers)
        first = min(end, get_running_loop().time() + self._timeouts.first_byte)
        download = await self._wait(self._send(path, upload), upload, first)
        try:
            if "json" in download.headers.get("content-type", ""):
                content = await self._wait(_read(download, MAX_ANSWER), upload, end)
                yield self._read_object(_Body(content, download.has_end))
                return
            reader, limit, done = SseReader(), first, False
            while piece := await self._read_piece(download, upload, limit, done=done):
                for event in reader.feed(piece):
                    raw = self._read_event(event)
                    done = done or raw is None
                    if raw:
                        yield raw
                wait = TAIL_SECONDS if done else self._timeouts.idle
                limit = min(end, get_running_loop().time() + wait)
            for event in reader.close():
                if raw := self._read_event(event, cut=True):
                    yield raw
            if not (done or download.has_end):
                told = f"the stream of {self._origin.url} ended with its connection, without [DONE]"
                raise WorkerBroken(told, maybe_paid=True)
        finally:
            await download.aclose()

    def _upload(self, body: Mapping[str, Any], end: float, headers: Mapping[str, str]) -> Upload:
        if end <= get_running_loop().time():  # an expired scope would still send on an open connection
            raise WorkerTimeout(f"{self._origin.url} was not called: the deadline had passed")
        try:
            return Upload(json.dumps(body).encode(), headers)
        except (TypeError, ValueError, RecursionError) as exc:
            raise WorkerRefused(f"the messages have a value that is not JSON data: {exc}") from exc

    async def _fetch(self, path: str, upload: Upload, method: Literal["GET", "POST"] = "POST") -> _Body:
        download = await self._send(path, upload, method)
        try:
            return _Body(await _read(download, MAX_ANSWER), download.has_end)
        finally:
            await download.aclose()

    async def _send(self, path: str, upload: Upload, method: Literal["GET", "POST"] = "POST") -> Download:
        """Send a request, and return its response if the status is 200 and the body is not compressed."""
        download = await self._transport.send(
            path, upload, connect_seconds=self._timeouts.connect, method=method
        )
        encoding = download.headers.get("content-encoding", "identity")
        if download.status == HTTPStatus.OK and encoding == "identity":
            return download
        try:
            if download.status == HTTPStatus.OK:
                raise WorkerBroken(
                    f"{self._origin.url} compressed its answer ({encoding}), although the request forbids "
                    "compression: the size of such an answer cannot be limited",
                    maybe_paid=True,
                )
            content = await _read(download, _MAX_ERROR_BODY, cut=True)
            raise status_fault(self._origin, download.status, download.headers, content)
        finally:
            await download.aclose()

    async def _wait(self, answer: Awaitable[T], upload: Upload, limit: float) -> T:
        seconds = max(0.0, limit - get_running_loop().time())
        try:
            # Not an anyio scope, which takes three times as long on every call.
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as exc:
            raise WorkerTimeout(
                f"{self._origin.url} did not respond within {seconds:.3g} s: "
                "raise the endpoint's timeouts or the limits of the run if it needs more time",
                maybe_paid=upload.begun,
            ) from exc

    async def _read_piece(self, download: Download, upload: Upload, limit: float, *, done: bool) -> bytes:
        try:
            return await self._wait(download.read(), upload, limit)
        except (WorkerTimeout, WorkerBroken):
            if done:
                return b""
            raise

    def _read_object(self, body: _Body) -> dict[str, Any]:
        try:
            raw = json.loads(body.content)
        except UnicodeDecodeError as exc:
            told = f"{self._origin.url}: its answer is not UTF-8: {exc}"
            raise AnswerNotUtf8(told, maybe_paid=True, received=body.received) from exc
        except (ValueError, RecursionError) as exc:
            raise self._broken("its answer is not JSON", body.text, body.received) from exc
        return self._checked(raw, body)

    def _read_event(self, event: SseEvent, *, cut: bool = False) -> dict[str, Any] | None:
        """Return the object of an event: `None` for `[DONE]`, an empty object for an event without data."""
        data = event.data.strip()
        if data == "[DONE]":
            return None
        try:
            raw = json.loads(data) if data else {}
        except (ValueError, RecursionError) as exc:
            if cut:
                return {}
            if event.name == "error":
                raise answer_fault(self._origin, {"error": data}) from exc
            raise self._broken("an event of its stream is not JSON", data) from exc
        if event.name == "error":
            raise answer_fault(self._origin, raw if isinstance(raw, dict) else {"error": data})
        return self._checked(raw)

    def _checked(self, raw: object, body: _Body | None = None) -> dict[str, Any]:
        if isinstance(raw, list) and len(raw) == 1:  # Gemini wraps an error in a list
            raw = raw[0]
        if not isinstance(raw, dict):
            received = None if body is None else body.received
            raise self._broken("its answer is not a JSON object", repr(raw), received)
        if raw.get("object") == "error" or (raw.get("detail") and not raw.keys() & _ANSWERS):
            raise answer_fault(self._origin, raw)
        for part in (raw, *_choices(raw)):
            if part.get("error") not in (None, "", False) or part.get("errors"):
                raise answer_fault(self._origin, part)
        return raw

    def _broken(self, what: str, said: str, received: str | None = None) -> WorkerBroken:
        told = f"{self._origin.url}: {what}: {self._origin.quote(said)!r}"
        return WorkerBroken(told, maybe_paid=True, received=received)


_ANSWERS = {"choices", "object", "type"}
"""Fields that answers have; an object with `detail` and without them is an error."""


def _choices(raw: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the choices of a chat completion and their messages, in which some servers report errors."""
    choices = raw.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            yield choice
            yield from (
                part for part in (choice.get("delta"), choice.get("message")) if isinstance(part, dict)
            )


async def _read(download: Download, most: int, *, cut: bool = False) -> bytes:
    """Return the body. If it is over `most` bytes, truncate it if `cut` is true, else raise an error."""
    pieces, size = [], 0
    while piece := await download.read():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            if cut:
                break
            raise WorkerBroken(f"the answer is over {most:,} bytes: no answer is that long", maybe_paid=True)
    return b"".join(pieces)
