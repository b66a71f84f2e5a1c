"""Requests and answers as JSON objects, whole or as a stream of events.

It owns the waits, the bounds and the reading of JSON; `transport` owns the sockets. It is
imported when an endpoint is first opened. It knows no messages and no models.
"""

import asyncio
import json
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from podium.errors import WorkerBroken, WorkerRefused, WorkerTimeout
from podium.workers.openai.error_mapping import Origin, answer_fault, status_fault
from podium.workers.openai.sse import MAX_ANSWER, SseEvent, SseReader
from podium.workers.openai.timeouts import Timeouts
from podium.workers.openai.transport import Download, Transport, Upload

TAIL_SECONDS = 1.0
"""How long a stream may go on after its `[DONE]`, so that its connection can be used again."""
_MAX_ERROR_BODY = 64 * 1024

T = TypeVar("T")


class Exchange:
    """Posts to one server within one event loop, and reads what it answers.

    Every method takes the moment `end` by which the answer must be whole, on the event
    loop's clock, in seconds.
    """

    def __init__(self, origin: Origin, headers: Mapping[str, str], timeouts: Timeouts) -> None:
        self._origin = origin
        self._timeouts = timeouts
        self._transport = Transport(origin.url, headers)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def ask(self, path: str, body: Mapping[str, Any], end: float) -> dict[str, Any]:
        """Post `body` and return the JSON object that answers it."""
        upload = self._upload(body, end)
        content = await self._wait(self._fetch(path, upload), upload, end)
        return self._read_object(content)

    async def listen(
        self, path: str, body: Mapping[str, Any], end: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Post `body` and yield the JSON object of each event of the stream that answers it."""
        upload = self._upload(body, end)
        first = min(end, get_running_loop().time() + self._timeouts.first_byte)
        download = await self._wait(self._post(path, upload), upload, first)
        try:
            if "json" in download.headers.get("content-type", ""):
                yield self._read_object(await self._wait(_read(download, MAX_ANSWER), upload, end))
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
        finally:
            await download.aclose()

    def _upload(self, body: Mapping[str, Any], end: float) -> Upload:
        if end <= get_running_loop().time():  # on an open connection a cancel would come after the request
            raise WorkerTimeout(f"{self._origin.url} was not asked: the time for it had run out")
        try:
            return Upload(json.dumps(body).encode())
        except (TypeError, ValueError, RecursionError) as exc:
            raise WorkerRefused(f"the messages hold something JSON cannot say: {exc}") from exc

    async def _fetch(self, path: str, upload: Upload) -> bytes:
        download = await self._post(path, upload)
        try:
            return await _read(download, MAX_ANSWER)
        finally:
            await download.aclose()

    async def _post(self, path: str, upload: Upload) -> Download:
        """Send a request; return its answer if that is one."""
        download = await self._transport.post(path, upload, connect_seconds=self._timeouts.connect)
        encoding = download.headers.get("content-encoding", "identity")
        if download.status == HTTPStatus.OK and encoding == "identity":
            return download
        try:
            if download.status == HTTPStatus.OK:
                raise WorkerBroken(
                    f"{self._origin.url} compressed its answer ({encoding}) though asked not to: "
                    "what it unpacks to has no bound",
                    maybe_paid=True,
                )
            content = await _read(download, _MAX_ERROR_BODY, cut=True)
            raise status_fault(self._origin, download.status, download.headers, content)
        finally:
            await download.aclose()

    async def _wait(self, answer: Awaitable[T], upload: Upload, limit: float) -> T:
        seconds = max(0.0, limit - get_running_loop().time())
        try:
            # Paid on every call, and a third of the price of an anyio scope; aiohttp needs asyncio anyway.
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError as exc:
            raise WorkerTimeout(
                f"{self._origin.url} kept us waiting for {seconds:.3g} s: "
                "raise the endpoint's timeouts or the limits of the run if it may take longer",
                maybe_paid=upload.begun,
            ) from exc

    async def _read_piece(self, download: Download, upload: Upload, limit: float, *, done: bool) -> bytes:
        try:
            return await self._wait(download.read(), upload, limit)
        except (WorkerTimeout, WorkerBroken):
            if done:
                return b""
            raise

    def _read_object(self, content: bytes) -> dict[str, Any]:
        try:
            raw = json.loads(content)
        except (ValueError, RecursionError) as exc:
            raise self._broken("its answer is not JSON", content.decode(errors="replace")) from exc
        return self._checked(raw)

    def _read_event(self, event: SseEvent, *, cut: bool = False) -> dict[str, Any] | None:
        """Return the object of an event, `None` for `[DONE]`; empty for one that says nothing."""
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

    def _checked(self, raw: object) -> dict[str, Any]:
        if isinstance(raw, list) and raw:  # Gemini wraps an error in a list
            raw = raw[0]
        if not isinstance(raw, dict):
            raise self._broken("its answer is not a JSON object", repr(raw))
        if raw.get("error") or raw.get("object") == "error":
            raise answer_fault(self._origin, raw)
        return raw

    def _broken(self, what: str, said: str) -> WorkerBroken:
        return WorkerBroken(f"{self._origin.url}: {what}: {self._origin.quote(said)!r}", maybe_paid=True)


async def _read(download: Download, most: int, *, cut: bool = False) -> bytes:
    """Return the body; what is over `most` bytes is cut off, or else an error."""
    pieces, size = [], 0
    while piece := await download.read():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            if cut:
                break
            raise WorkerBroken(f"the answer is over {most:,} bytes: no answer is that long", maybe_paid=True)
    return b"".join(pieces)
