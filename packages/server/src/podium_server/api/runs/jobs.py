"""Executes runs in the background.

A job executes its run after the request that began it has been answered. If its process ends, another
process, or the next start, continues the run: the journal has what was paid for.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup, TaskStatus

from podium.errors import JournalBroken, JournalError, RunDead, RunExists, RunUnknown
from podium.journal import new_holder
from podium.types import Event, Message
from podium_server.api.endpoint import logged_fault
from podium_server.api.errors import fault_of
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.requests import JobRequest
from podium_server.api.runs.store import RunStore, StoredJob
from podium_server.api.runs.work import execute
from podium_server.http import InFlight, ServerBusy
from podium_server.keys import Access
from podium_server.turn import Asked, Turns

LOGGER = logging.getLogger("podium")
PERIOD = 2.0
"""Seconds between two looks for runs to continue or to cancel."""
_RETRY_SECONDS = 15.0
"""How long a run waits that was refused for the moment."""
_LASTING = (JournalBroken, RunDead, RunExists, RunUnknown)
"""Errors of the journal that another attempt would have, too."""
_OPEN = ("running", "stopped")


class Jobs:
    """The runs that this process executes in the background.

    Args:
        store: has the jobs of all processes.
        index: reads the runs.
        turns: admits the runs.
        access: finds the callers of runs that are continued.
        in_flight: counts the jobs.
        period: see `PERIOD`.
    """

    def __init__(
        self,
        store: RunStore,
        index: RunIndex,
        turns: Turns,
        access: Access,
        in_flight: InFlight,
        *,
        period: float = PERIOD,
    ) -> None:
        self._store = store
        self._index = index
        self._turns = turns
        self._access = access
        self._in_flight = in_flight
        self._period = period
        self._holder = new_holder()
        self._running: dict[str, anyio.CancelScope] = {}
        """The scopes of the runs that this process executes."""
        self._is_stopping = False
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None, None]:
        """Execute runs in the block; at its end, release them, so that the next start continues them."""
        async with anyio.create_task_group() as self._tasks:
            async with anyio.create_task_group() as watching:
                watching.start_soon(self._watch)
                try:
                    yield
                finally:
                    watching.cancel_scope.cancel()
            self._is_stopping = True
            for scope in self._running.values():
                scope.cancel()

    async def begin(self, run_id: str, caller_id: str, request: JobRequest, *, events: int = 0) -> None:
        """Begin the job of a run, and return when its first event is recorded.

        Args:
            run_id: the run.
            caller_id: the caller that pays for it.
            request: what to do.
            events: the number of recorded events of the run.

        Raises:
            RunHeld: the run has a job.
            ServerBusy: too many requests and jobs are running.
            PodiumError: the run was not admitted, or cannot begin.
        """
        assert self._tasks is not None
        job = StoredJob(
            run_id=run_id,
            caller_id=caller_id,
            request=request.model_dump(mode="json"),
            events=events,
            holder=self._holder,
        )
        failure: Exception | None = await self._tasks.start(self._begin, job)
        if failure is not None:
            raise failure

    async def cancel(self, run_id: str, seconds: float) -> bool:
        """Cancel the job of a run, wait some seconds for its end, and return whether there was one."""
        if not await self._store.cancel(run_id):
            return False
        if run_id in self._running:
            self._running[run_id].cancel()
        else:
            await self._look()
        with anyio.move_on_after(seconds):
            while await self._store.has(run_id):  # noqa: ASYNC110 - another process may have the job
                await anyio.sleep(0.05)
        return True

    async def _begin(self, job: StoredJob, *, task_status: TaskStatus[Exception | None]) -> None:
        is_told = False

        def tell(failure: Exception | None = None) -> None:
            nonlocal is_told
            if not is_told:
                is_told = True
                task_status.started(failure)

        try:
            with self._in_flight.counted():
                await self._store.add(job)
                await self._hold(job, tell)
        except Exception as error:  # noqa: BLE001 - raised in the request that began the job
            tell(error)
        else:
            tell()

    async def _watch(self) -> None:
        """Look for runs to continue or to cancel, now and every `period` seconds."""
        while True:
            try:
                await self._look()
            except JournalError as error:
                LOGGER.warning("runs in the background cannot be looked for: %s", error)
            await anyio.sleep(self._period)

    async def _look(self) -> None:
        assert self._tasks is not None
        for job in await self._store.jobs():
            if job.run_id in self._running:
                if job.is_due:
                    await self._store.hold(job.run_id, self._holder, self._holder)
                if job.is_cancelled:
                    self._running[job.run_id].cancel()
            elif job.is_free or (job.is_cancelled and not job.holder):
                self._tasks.start_soon(self._continue, job)

    async def _continue(self, job: StoredJob) -> None:
        """Continue the job of a process that has ended."""
        try:
            with self._in_flight.counted():
                if not await self._store.hold(job.run_id, self._holder, job.holder):
                    return
                if job.is_cancelled or await self._is_done(job):
                    await self._store.remove(job.run_id, self._holder)
                else:
                    await self._hold(job, lambda: None, is_new=False)
        except ServerBusy:
            return  # the next look finds it again
        except Exception as error:  # noqa: BLE001 - logged: one run must not end the others
            LOGGER.warning("run %s cannot be continued: %s", job.run_id, logged_fault(error).message)

    async def _is_done(self, job: StoredJob) -> bool:
        """Return whether the run has ended since the job was stored."""
        try:
            row = await self._index.row(job.run_id)
        except RunUnknown:
            return False
        if row.state == "dead":
            return True
        return row.state not in _OPEN and len(await self._index.read(job.run_id)) > job.events

    async def _hold(self, job: StoredJob, begun: Callable[[], None], *, is_new: bool = True) -> None:
        """Execute the run of a job, and delete the job at its end, or release it.

        Raises:
            Exception: the run failed before its first event, and the job is new.
        """
        has_begun, failure = False, None
        scope = self._running[job.run_id] = anyio.CancelScope()

        def on_event(event: Event) -> None:
            nonlocal has_begun
            if not has_begun and event.run_id == job.run_id:
                has_begun = True
                begun()

        try:
            with scope:
                await self._execute(job, on_event)
        except Exception as error:  # noqa: BLE001 - raised below, or recorded by the run
            failure = error
        finally:
            del self._running[job.run_id]
        with anyio.CancelScope(shield=True):
            if scope.cancelled_caught and self._is_stopping:
                await self._store.hold(job.run_id, "", self._holder, 0.0)
            elif failure is not None and not is_new and not has_begun and _is_temporary(failure):
                await self._store.hold(job.run_id, "", self._holder, _RETRY_SECONDS)
            else:
                with suppress(JournalError):  # the lease ends, and another look finds that the run has ended
                    await self._store.remove(job.run_id, self._holder)
        if failure is not None and not has_begun:
            raise failure
        if failure is not None and fault_of(failure).status == 500:
            logged_fault(failure)

    async def _execute(self, job: StoredJob, on_event: Callable[[Event], None]) -> None:
        request = JobRequest.model_validate(job.request)
        caller = await self._access.caller(job.caller_id)
        recorded = job.run_id if request.kind == "resume" else request.of
        entries = () if recorded is None else await self._index.read(recorded)
        asked = Asked(
            model=request.model,
            messages=[Message.from_wire(message) for message in request.query],
            run_id=job.run_id,
            effort=request.effort,
        )
        async with self._turns.admitted_run(caller, asked) as turn:
            turn.settle(await execute(turn, request, [entry.event for entry in entries], on_event))


def _is_temporary(error: Exception) -> bool:
    """Return whether a later attempt may succeed."""
    if isinstance(error, JournalError):
        return not isinstance(error, _LASTING)
    return fault_of(error).status in (429, 503)
