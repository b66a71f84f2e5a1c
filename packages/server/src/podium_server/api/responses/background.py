"""Runs responses in the background.

A job runs a response after its client has disconnected. If its process ends, a job of another process, or of
the next start, continues the run.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup, TaskStatus

from podium.errors import JournalBroken, JournalError, RunDead, RunExists, RunFailed
from podium.journal import Journal, new_holder
from podium.resume import waiting_for
from podium.secrets import scrub
from podium_server.api.endpoint import logged_fault
from podium_server.api.errors import fault_of
from podium_server.api.responses.asks import Ask, Asks, response_of
from podium_server.api.responses.job import Job, JobLost
from podium_server.api.responses.leases import Leases
from podium_server.api.responses.store import ResponseStore, ResponseUnknown, Stored
from podium_server.api.responses.writer import Event, ResponseWriter
from podium_server.http import InFlight, ServerBusy
from podium_server.keys import Access
from podium_server.turn import Turn, Turns

LOGGER = logging.getLogger("podium")
PERIOD = 5.0
"""Seconds between two looks for responses to continue or to cancel."""
_RETRY_SECONDS = 15.0
"""How long a response waits after its run was refused for the moment."""
_POLL_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 10.0
_DECISION_SECONDS = 2.0
"""Seconds between two looks for the approval of a plan."""
_CANCEL_SECONDS = 10.0
_LASTING = (JournalBroken, RunDead, RunExists)
"""Errors of the journal that another attempt would have, too."""


class Background:
    """The responses that this process runs in the background.

    Args:
        store: the stored responses.
        journal: records their runs.
        turns: makes the turns.
        access: finds the callers of responses that are continued.
        in_flight: counts the jobs.
        period: see `PERIOD`.
    """

    def __init__(
        self,
        store: ResponseStore,
        journal: Journal,
        turns: Turns,
        access: Access,
        in_flight: InFlight,
        *,
        period: float = PERIOD,
    ) -> None:
        self._store = store
        self._journal = journal
        self._turns = turns
        self._access = access
        self._in_flight = in_flight
        self._period = period
        self._asks = Asks(store)
        self._leases = Leases(store)
        self._jobs: dict[str, Job] = {}
        """The jobs by the ids of their responses."""
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def opened(self, drain_seconds: float) -> AsyncGenerator[None, None]:
        """Run responses in the block. At its end, jobs may end within some seconds; others are released."""
        async with anyio.create_task_group() as self._tasks:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._watch)
                try:
                    yield
                finally:
                    watching.cancel_scope.cancel()
            await self._in_flight.ended(drain_seconds)
            for job in self._jobs.values():
                job.cancel("stopped")

    async def begin(self, ask: Ask) -> Mapping[str, str]:
        """Store a response and begin its run; return headers for the client.

        If an earlier request with the same idempotency key has stored the response, nothing is begun.

        Raises:
            ServerBusy: too many requests and jobs are running.
            PodiumError: see `Turns.admitted`; the response is then not stored.
        """
        assert self._tasks is not None
        headers: Mapping[str, str] = await self._tasks.start(self._begin, ask)
        return headers

    async def events(self, response_id: str, after: int = -1) -> AsyncGenerator[Event, None]:
        """Yield the events of a response, until the response has ended.

        Args:
            response_id: the response.
            after: the number of the last known event.

        Raises:
            ResponseUnknown: the response was deleted.
        """
        has_ended = False
        while True:
            job = self._jobs.get(response_id)
            changed = None if job is None else job.changed
            found = await self._leases.events(response_id, after)
            for event in found:
                yield event
                after = event["sequence_number"]
            if found:
                continue
            if has_ended:
                return
            stored = await self._store.any(response_id)
            if stored is None:
                raise ResponseUnknown(response_id)
            has_ended = stored.has_ended  # its last events may be later than those that were read
            if not has_ended:
                await _wait(changed)

    async def has_event(self, response_id: str, number: int) -> bool:
        """Return whether a response has an event with this number."""
        return bool(await self._leases.events(response_id, number - 1))

    async def cancel(self, stored: Stored) -> None:
        """Cancel a response, and wait some seconds until it has ended."""
        await self._leases.cancel(stored.response_id)
        if stored.response_id in self._jobs:
            self._jobs[stored.response_id].cancel("cancelled")
        else:
            await self._look()
        with anyio.move_on_after(_CANCEL_SECONDS):
            async for _ in self.events(stored.response_id):
                pass

    async def _begin(self, ask: Ask, *, task_status: TaskStatus[Mapping[str, str]]) -> None:
        model = self._turns.catalogue.find(ask.request.model).versioned_id
        job = Job(self._leases, ResponseWriter(ask.response(model)), is_new=True)
        begun = job.writer.begin("queued")
        stored = ask.stored(job.writer.response)
        headers = {"x-podium-run-id": ask.run_id, "x-podium-model": model}
        with self._in_flight.counted():
            if not await self._leases.add(stored, job.holder, begun):
                task_status.started(headers | {"idempotent-replayed": "true"})
                return

            async def same() -> Ask:
                return ask

            try:
                await self._run(job, same, lambda turn: task_status.started(turn.headers))
            except BaseException as error:  # also after a cancellation, because the client has gone
                if not job.is_admitted:
                    with anyio.CancelScope(shield=True):
                        await self._store.delete(stored)
                elif isinstance(error, Exception):
                    _log(job.response_id, error)
                    return
                raise
            if not job.is_admitted:  # it was cancelled before
                task_status.started(headers)

    async def _watch(self) -> None:
        """Look for responses to continue or to cancel, now and every `period` seconds."""
        while True:
            try:
                await self._look()
            except JournalError as error:
                LOGGER.warning("responses in the background cannot be looked for: %s", error)
            await anyio.sleep(self._period)

    async def _look(self) -> None:
        jobs = list(self._jobs.values())
        held = await self._leases.renew([job.holder for job in jobs]) if jobs else {}
        for job in jobs:
            if job.holder not in held:
                job.cancel("lost")
            elif held[job.holder]:
                job.cancel("cancelled")
        assert self._tasks is not None
        for response_id, before in await self._leases.free():
            self._tasks.start_soon(self._continue, response_id, before)

    async def _continue(self, response_id: str, before: str) -> None:
        """Continue a response whose job has ended."""
        try:
            with self._in_flight.counted():
                await self._claim(response_id, before)
        except ServerBusy:
            return  # the next look finds it again
        except Exception as error:  # noqa: BLE001 - logged: one response must not end the others
            _log(response_id, error)

    async def _claim(self, response_id: str, before: str) -> None:
        holder = new_holder()
        stored = await self._leases.claim(response_id, before, holder)
        if stored is None:
            return
        events = await self._leases.all_events(response_id)
        job = Job(self._leases, ResponseWriter.continued(response_of(stored), events), holder)
        if stored.is_cancelled:
            job.cancel("cancelled")

        async def again() -> Ask:
            return await self._asks.again(await self._access.caller(stored.caller_id), stored)

        await self._run(job, again)

    async def _run(
        self,
        job: Job,
        ask: Callable[[], Awaitable[Ask]],
        on_admitted: Callable[[Turn], None] = lambda _: None,
    ) -> None:
        """Run a response, and write its end, or release it.

        Args:
            job: the response.
            ask: returns its request.
            on_admitted: called when the run is admitted.

        Raises:
            PodiumError: the response is new, and its run was not admitted.
            JournalError: the end cannot be written; the response is continued when its lease has ended.
        """
        last: list[Event] | None = None
        self._jobs[job.response_id] = job
        try:
            with job.scope:
                last = await self._last_events(job, ask, on_admitted)
            if last is None and job.why == "cancelled":
                last = job.writer.cancel()
            if last is not None:
                await job.write(last, ends=True)
            elif job.why != "lost":
                seconds = 0.0 if job.why == "stopped" else _RETRY_SECONDS
                await self._leases.release(job.response_id, job.holder, seconds)
        except JobLost:
            LOGGER.info("response %s was deleted, or is run by another process", job.response_id)
        finally:
            del self._jobs[job.response_id]

    async def _last_events(
        self, job: Job, ask: Callable[[], Awaitable[Ask]], on_admitted: Callable[[Turn], None]
    ) -> list[Event] | None:
        """Run a response, and return its last events; `None` if it must be run again later.

        Raises:
            JobLost: another job holds the response.
            PodiumError: see `_run`.
        """
        while True:
            is_admitted = False
            try:
                asked = await ask()
                same = replace(asked.asked, may_exist=asked.asked.may_exist or job.is_admitted)
                async with self._turns.admitted(asked.caller, same) as turn:
                    is_admitted = True
                    if not job.is_admitted:
                        job.is_admitted = True
                        on_admitted(turn)
                    return await job.answer(turn)
            except JobLost:
                raise
            except Exception as error:  # the client gets it as an event, and the log if it is ours
                if job.is_new and not job.is_admitted:
                    raise
                if _is_temporary(error, is_admitted=is_admitted):
                    return None
                if not _is_waiting(error):
                    return job.writer.fail(logged_fault(error))
            await self._decided(job.writer.response.run_id)

    async def _decided(self, run_id: str) -> None:
        """Wait until the plan of a run is approved or refused."""
        while True:
            entries = await self._journal.read(run_id)
            if waiting_for([entry.event for entry in entries]) is None:
                return
            await anyio.sleep(_DECISION_SECONDS)


def _is_waiting(error: Exception) -> bool:
    return isinstance(error, RunFailed) and error.result is not None and error.result.status == "waiting"


def _is_temporary(error: Exception, *, is_admitted: bool) -> bool:
    """Return whether a later attempt may succeed without paying again."""
    if isinstance(error, JournalError):
        return not isinstance(error, _LASTING)
    return not is_admitted and fault_of(error).status in (429, 503)


def _log(response_id: str, error: BaseException) -> None:
    LOGGER.warning("response %s is continued later: %s", response_id, scrub(str(error)))


async def _wait(changed: anyio.Event | None) -> None:
    """Wait until a job of this process has written, or for some time if another process has the job."""
    with anyio.move_on_after(_POLL_SECONDS if changed is None else _LONGEST_WAIT_SECONDS):
        await (anyio.sleep_forever() if changed is None else changed.wait())
