"""The events of a run as server-sent events, while the run is executed by any process."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, Protocol

from podium.journal import Entry
from podium_server.api.errors import Fault
from podium_server.api.runs.agui import AgUiEvents
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.refusals import NotBegun
from podium_server.api.streams import sse
from podium_server.http import Stopping
from podium_server.jobs.table import JobTable
from podium_server.turn import public_data

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 1.0
"""Seconds between two looks for new events."""


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
    """

    def __init__(self, index: RunIndex, table: JobTable, run_id: str, form: Form, stopping: Stopping) -> None:
        self._index = index
        self._table = table
        self._run_id = run_id
        self._form = form
        self._stopping = stopping

    async def frames(self, after: int) -> AsyncGenerator[bytes, None]:
        """Yield the events after the number `after`, until no process executes the run.

        Raises:
            RunUnknown: the run was deleted.
            NotBegun: the run failed before it began.
            ServerStopping: the server stops before the run has ended.
        """
        seen, wait = 0, _FIRST_WAIT
        while True:
            is_open = await self._is_open()  # before the events, so that the last events are read
            entries = await self._index.read(self._run_id, seen)
            for entry in entries:
                frames = self._form.of(entry)  # also of events before `after`, on which later ones depend
                for frame in frames if entry.number > after else ():
                    yield frame
            seen += len(entries)
            if not is_open:
                break
            wait = _FIRST_WAIT if entries else min(2 * wait, _LONGEST_WAIT)
            await self._stopping.pause(wait)
        for frame in self._form.end():
            yield frame

    async def _is_open(self) -> bool:
        job = await self._table.find(self._run_id)
        if job is not None and job.error is not None:
            raise NotBegun(job.error)
        if job is not None:
            return True
        return (await self._index.row(self._run_id)).state == "running"


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
