"""The job of a response in the background: writes its events, each before any client can read it."""

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from time import time

import anyio

from podium.errors import RunWaiting
from podium.journal import SqlJournal
from podium_server.api.endpoint import logged_fault
from podium_server.api.responses.asks import Asks, response_of
from podium_server.api.responses.events import ResponseEvents
from podium_server.api.responses.form import id_of
from podium_server.api.responses.store import ResponseStore
from podium_server.api.responses.writer import Event, ResponseWriter
from podium_server.api.runs.deadlines import deadline_of
from podium_server.jobs.job import Job, JobLost, Postponed
from podium_server.keys import Access
from podium_server.keys.recorded import recorded_actions
from podium_server.turn import Turn, Turns

KIND = "response"


class ResponseWork:
    """The work of one response.

    Args:
        job: the job.
        store: the stored responses.
        journal: records the runs.
        turns: makes the turns.
        access: finds the caller.
    """

    def __init__(
        self, job: Job, *, store: ResponseStore, journal: SqlJournal, turns: Turns, access: Access
    ) -> None:
        self._job = job
        self._store = store
        self._events = ResponseEvents(store)
        self._asks = Asks(store)
        self._journal = journal
        self._turns = turns
        self._access = access
        self._writer: ResponseWriter | None = None
        """Writes the response; `None` before the first use."""
        self._unwritten: list[Event] = []

    async def run(self) -> None:
        """Run the response, or continue its run."""
        stored = await self._store.any(id_of(self._job.job_id))
        if stored is None:
            raise JobLost
        if stored.has_ended:
            return
        writer = await self._written()
        asked = await self._asks.again(await self._access.caller(stored.caller_id), stored)
        try:
            async with self._turns.admitted(asked.caller, asked.asked) as turn:
                self._job.is_admitted = True
                self._job.begin(turn.headers)
                last = await self._answer(turn, writer)
                self._job.result = turn.answer.result
        except RunWaiting as error:
            await self._decided()
            raise Postponed from error
        await self._write(writer, last)

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        """Write the end of a response that was cancelled, or failed."""
        stored = await self._store.any(id_of(self._job.job_id))
        if stored is not None and not stored.has_ended:
            writer = await self._written()
            if failure is None:
                last = writer.cancel(await recorded_actions(self._journal, self._job.job_id))
            else:
                last = writer.fail(logged_fault(failure))
            await self._write(writer, last)
        return None

    async def drop(self) -> None:
        """Delete the response."""
        stored = await self._store.any(id_of(self._job.job_id))
        if stored is not None:
            await self._store.delete(stored)

    async def _written(self) -> ResponseWriter:
        """Return the writer, with the events that were written before."""
        if self._writer is None:
            response_id = id_of(self._job.job_id)
            stored, events = await self._store.any(response_id), await self._events.all(response_id)
            if stored is None:
                raise JobLost
            self._writer = ResponseWriter.continued(response_of(stored), events)
        return self._writer

    async def _answer(self, turn: Turn, writer: ResponseWriter) -> list[Event]:
        """Run the turn, and return the last events.

        The text of the answer is written with the end, so that no restart takes text back.
        """
        if writer.response.status == "queued":
            await self._write(writer, writer.proceed())
        async with aclosing(turn.pieces()) as pieces:
            async for piece in pieces:
                self._unwritten += writer.piece(piece)
                if not writer.has_text:
                    await self._write(writer, ())
        return writer.end(turn)

    async def _write(self, writer: ResponseWriter, events: Iterable[Event]) -> None:
        """Write events and the response that they lead to.

        Raises:
            JobLost: another process has the job.
        """
        self._unwritten += events
        response = writer.response.to_json()
        if not await self._events.write(response, self._job, self._unwritten):
            raise JobLost
        self._unwritten = []
        await self._journal.tell([self._job.job_id])

    async def _decided(self) -> None:
        """Wait until a person has decided, or the time to answer is over."""
        self._job.needs_slot = False
        run_id = self._job.job_id
        left = await deadline_of(self._journal, run_id) - time()
        async with self._journal.following(run_id) as follower:
            with anyio.move_on_after(left):
                while any(row.state == "waiting" for row in await self._journal.runs(ids=[run_id])):
                    await follower.wait()
