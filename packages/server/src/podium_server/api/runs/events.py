"""The events of a run as server-sent events, while the run is executed by any process."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol

from anyio.streams.memory import MemoryObjectReceiveStream

from podium.journal import Entry
from podium.types import PlanDelta
from podium_server.api.errors import Fault
from podium_server.api.runs.agui import AgUiEvents
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.queued import queued_event
from podium_server.api.runs.refusals import NotBegun
from podium_server.api.streams import sse
from podium_server.http import Stopping
from podium_server.jobs.table import JobTable, StoredJob
from podium_server.turn import LivePieces, Written, public_data


class Form(Protocol):
    """Writes the recorded events of a run."""

    def first(self, after: int) -> int:
        """Return the number of the first event that it needs to write the events after a number."""

    def of(self, entry: Entry) -> list[bytes]:
        """Return the frames of an event."""

    def end(self) -> list[bytes]:
        """Return the frames for the end of the run."""


class PodiumForm:
    """The events as the journal has them."""

    def first(self, after: int) -> int:
        """Return the next number: no event depends on earlier ones."""
        return after + 1

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

    def first(self, after: int) -> int:
        """Return 0: the text of an event depends on all earlier ones."""
        del after
        return 0

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
        async with AsyncExitStack() as stack:
            follower = await stack.enter_async_context(self._table.following(self._run_id))
            stack.enter_context(self._stopping.waking(follower.wake))
            pieces = None
            if self._live is not None:
                pieces = stack.enter_context(self._live.of(self._run_id, follower.wake))
            seen, is_told = self._form.first(after), False
            while True:
                job = await self._job()  # before the events, so that the last events are read
                is_open = job is not None or await self._is_running()
                entries = await self._index.read(self._run_id, seen)
                if pieces is not None and job is not None and not (seen or entries or is_told):
                    yield _frame(queued_event(job), event="run_queued")
                    is_told = True
                for frame in _waiting(pieces):  # they were written before these events
                    yield frame
                for frame in self._frames_of(entries, after):
                    yield frame
                seen += len(entries)
                if not is_open:
                    break
                while not await follower.wait():
                    self._stopping.check()
                    if frames := b"".join(_waiting(pieces)):
                        yield frames
                self._stopping.check()
        for frame in self._form.end():
            yield frame

    def _frames_of(self, entries: Sequence[Entry], after: int) -> Iterator[bytes]:
        for entry in entries:
            frames = self._form.of(entry)  # also of events before `after`, on which later ones depend
            yield from frames if entry.number > after else ()

    async def _job(self) -> StoredJob | None:
        """Return the job of the run; `None` if it has none, or the job has ended."""
        job = await self._table.find(self._run_id)
        if job is not None and job.error is not None:
            raise NotBegun(job.error)
        return job

    async def _is_running(self) -> bool:
        return (await self._index.row(self._run_id)).state == "running"


def _waiting(pieces: MemoryObjectReceiveStream[Written] | None) -> Iterator[bytes]:
    """Yield the frames of the pieces that wait."""
    while pieces is not None and pieces.statistics().current_buffer_used:
        yield _of_piece(pieces.receive_nowait())


def _of_piece(written: Written) -> bytes:
    data = {**written.piece.to_json(), "is_whole": written.is_whole}
    if isinstance(written.piece, PlanDelta):
        data["steps"] = [{"subtask": step.subtask, "access": list(step.access)} for step in written.steps]
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
