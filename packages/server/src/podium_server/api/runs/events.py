"""The events of a run as server-sent events, while the run is executed by any process."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from podium.journal import Entry
from podium_server.api.errors import Fault
from podium_server.api.runs.agui import AgUiEvents
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.refusals import NotBegun
from podium_server.api.streams import sse
from podium_server.http import Stopping
from podium_server.jobs.table import JobTable
from podium_server.turn import LivePieces, Written, public_data

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0
"""Seconds between two looks for new events."""
_PIECES_WAIT = 0.2
"""The longest wait of a stream with pieces, during which it does not notice the stop of the server."""


class Form(Protocol):
    """Writes the recorded events of a run."""

    def of(self, entry: Entry) -> list[bytes]:
        """Return the frames of an event."""

    def end(self) -> list[bytes]:
        """Return the frames for the end of the run."""


class PodiumForm:
    """The events as the journal has them."""

    def of(self, entry: Entry) -> list[bytes]:
        """Return one frame, whose id is the number of the event."""
        data = {"number": entry.number, "recorded": entry.at, **entry.event.to_json()}
        return [_frame(data, event=entry.event.type, number=entry.number)]

    def end(self) -> list[bytes]:
        """Return nothing: the stream ends after the last event."""
        return []


class AgUiForm:
    """The events in the form of AG-UI.

    Args:
        run_id: the run.
    """

    def __init__(self, run_id: str) -> None:
        self._events = AgUiEvents(run_id)

    def of(self, entry: Entry) -> list[bytes]:
        """Return the frames of an event; the last has the number of the event as its id."""
        return _numbered(self._events.of(entry.event), entry.number)

    def end(self) -> list[bytes]:
        """Return the frames for the end of the run."""
        return [_frame(event) for event in self._events.end()]


class EventStream:
    """The events of a run.

    Args:
        index: reads the runs.
        table: has the runs in the background, which a process is about to begin or to continue.
        run_id: the run.
        form: the form of the events.
        stopping: ends the stream when the server stops.
        live: has pieces of texts, which are sent between the recorded events; `None` sends none.
    """

    def __init__(
        self,
        index: RunIndex,
        table: JobTable,
        run_id: str,
        form: Form,
        stopping: Stopping,
        live: LivePieces | None = None,
    ) -> None:
        self._index = index
        self._table = table
        self._run_id = run_id
        self._form = form
        self._stopping = stopping
        self._live = live

    async def frames(self, after: int) -> AsyncGenerator[bytes, None]:
        """Yield the events after the number `after`, until no process executes the run.

        Raises:
            RunUnknown: the run was deleted.
            NotBegun: the run failed before it began.
            ServerStopping: the server stops before the run has ended.
        """
        with nullcontext() if self._live is None else self._live.of(self._run_id) as pieces:
            seen, wait = 0, _FIRST_WAIT
            while True:
                is_open = await self._is_open()  # before the events, so that the last events are read
                entries = await self._index.read(self._run_id, seen)
                for frame in _waiting(pieces):  # they were written before these events
                    yield frame
                for entry in entries:
                    frames = self._form.of(entry)  # also of events before `after`, on which later ones depend
                    for frame in frames if entry.number > after else ():
                        yield frame
                seen += len(entries)
                if not is_open:
                    break
                wait = _FIRST_WAIT if entries else min(2 * wait, _LONGEST_WAIT)
                if pieces is None:
                    await self._stopping.pause(wait)
                    continue
                until = anyio.current_time() + min(wait, _PIECES_WAIT)
                while (piece := await _next(pieces, until)) is not None:
                    yield _of_piece(piece)
                await self._stopping.pause(0)
        for frame in self._form.end():
            yield frame

    async def _is_open(self) -> bool:
        job = await self._table.find(self._run_id)
        if job is not None and job.error is not None:
            raise NotBegun(job.error)
        if job is not None:
            return True
        return (await self._index.row(self._run_id)).state == "running"


async def _next(pieces: MemoryObjectReceiveStream[Written], until: float) -> Written | None:
    """Return the next piece; `None` if there is none until a time of the event loop's clock."""
    if anyio.current_time() < until:
        with anyio.CancelScope(deadline=until):
            return await pieces.receive()
    return None


def _waiting(pieces: MemoryObjectReceiveStream[Written] | None) -> Iterator[bytes]:
    """Yield the frames of the pieces that wait."""
    while pieces is not None and pieces.statistics().current_buffer_used:
        yield _of_piece(pieces.receive_nowait())


def _of_piece(written: Written) -> bytes:
    data = {**written.piece.to_json(), "is_whole": written.is_whole}
    return _frame(data, event=written.piece.type)


def error_frame(fault: Fault, *, is_agui: bool) -> bytes:
    """Return the last event of a stream that failed."""
    if is_agui:
        return _frame({"type": "RUN_ERROR", "message": fault.message, "code": fault.code})
    return _frame(fault.to_openai(), event="error")


def _numbered(events: Iterator[Mapping[str, Any]], number: int) -> list[bytes]:
    data: Sequence[Mapping[str, Any]] = list(events)
    return [_frame(event, number=number if at == len(data) - 1 else None) for at, event in enumerate(data)]


def _frame(data: Mapping[str, Any], *, event: str | None = None, number: int | None = None) -> bytes:
    return sse(public_data(data), event=event, number=number)
