"""The events of a run as server-sent events, while the run is executed by any process."""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from anyio.streams.memory import MemoryObjectReceiveStream

from podium.hosts.completions import sse
from podium.journal import Entry
from podium.types import PlanDelta
from podium.types.steps import task_of
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.queued import queued_event
from podium_server.api.runs.refusals import NotBegun
from podium_server.errors import Fault, public_data
from podium_server.http import Stopping
from podium_server.jobs.table import JobTable, StoredJob
from podium_server.turn import LivePieces, Written


class EventStream:
    """The events of a run.

    Args:
        index: reads the runs.
        table: has the runs in the background, which a process is about to begin or to continue.
        run_id: the run.
        stopping: ends the stream when the server stops.
        live: has pieces of texts, which are sent between the recorded events; `None` sends none.
    """

    def __init__(
        self,
        index: RunIndex,
        table: JobTable,
        run_id: str,
        stopping: Stopping,
        live: LivePieces | None = None,
    ) -> None:
        self._index = index
        self._table = table
        self._run_id = run_id
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
            seen, is_told = after + 1, False
            while True:
                job = await self._job()  # before the events, so that the last events are read
                is_open = job is not None or await self._is_running()
                entries = await self._index.read(self._run_id, seen)
                if pieces is not None and job is not None and not (seen or entries or is_told):
                    yield _frame(queued_event(job), event="run_queued")
                    is_told = True
                for frame in _waiting(pieces):  # they were written before these events
                    yield frame
                for entry in entries:
                    yield _of_entry(entry)
                seen += len(entries)
                if not is_open:
                    break
                while not await follower.wait():
                    self._stopping.check()
                    if frames := b"".join(_waiting(pieces)):
                        yield frames
                self._stopping.check()

    async def _job(self) -> StoredJob | None:
        """Return the job of the run; `None` if it has none, or the job has ended."""
        job = await self._table.find(self._run_id)
        if job is not None and job.error is not None:
            raise NotBegun(job.error)
        return job

    async def _is_running(self) -> bool:
        return (await self._index.row(self._run_id)).state == "running"


def _of_entry(entry: Entry) -> bytes:
    data = {"number": entry.number, "recorded": entry.at, **entry.event.to_json()}
    return _frame(data, event=entry.event.type, number=entry.number)


def _waiting(pieces: MemoryObjectReceiveStream[Written] | None) -> Iterator[bytes]:
    """Yield the frames of the pieces that wait."""
    while pieces is not None and pieces.statistics().current_buffer_used:
        yield _of_piece(pieces.receive_nowait())


def _of_piece(written: Written) -> bytes:
    data = {**written.piece.to_json(), "is_whole": written.is_whole}
    if isinstance(written.piece, PlanDelta):
        data["steps"] = [{"subtask": task_of(step), "access": list(step.access)} for step in written.steps]
    return _frame(data, event=written.piece.type)


def error_frame(fault: Fault) -> bytes:
    """Return the last event of a stream that failed."""
    return _frame(fault.to_openai(), event="error")


def _frame(data: Mapping[str, Any], *, event: str | None = None, number: int | None = None) -> bytes:
    return sse(public_data(data), event=event, number=number)
