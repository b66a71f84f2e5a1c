"""The job of a run: begins, resumes or replays it in the background."""

from collections.abc import Mapping

from podium.errors import RunUnknown
from podium.types import Event, Message, Plan
from podium_server.api.endpoint import logged_fault
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.queued import CANCELLED
from podium_server.api.runs.requests import JobRequest
from podium_server.api.runs.work import execute
from podium_server.jobs.jobs import Job
from podium_server.keys import Access
from podium_server.turn import Asked, Turns

_OPEN = ("running", "stopped")


def asked_of(request: JobRequest, run_id: str) -> Asked:
    """Return the request of a job in the words of Podium."""
    return Asked(
        model=request.model,
        messages=[Message.from_wire(message) for message in request.query],
        run_id=run_id,
        effort=request.effort,
        plan=None if request.plan is None else Plan.from_json(request.plan),
        context=request.context,
        labels=request.labels,
        only_plans=request.only_plans,
    )


class RunWork:
    """The work of one run.

    Args:
        job: the job.
        index: reads the runs.
        turns: admits the run.
        access: finds the caller.
    """

    def __init__(self, job: Job, *, index: RunIndex, turns: Turns, access: Access) -> None:
        self._job = job
        self._index = index
        self._turns = turns
        self._access = access

    async def run(self) -> None:
        """Execute the run, or continue it."""
        request = JobRequest.model_validate(self._job.stored.request)
        if not self._job.is_new and await self._has_ended(request):
            return
        run_id = self._job.job_id
        caller = await self._access.caller(self._job.stored.caller_id)
        recorded = run_id if request.kind == "resume" else request.of
        entries = () if recorded is None else await self._index.read(recorded)
        is_new = request.kind == "begin" and not await self._has_begun()
        async with self._turns.admitted_run(caller, asked_of(request, run_id), is_new=is_new) as turn:
            self._job.is_admitted = True
            self._job.result = result = await execute(
                turn, request, [entry.event for entry in entries], self._on_event
            )
            turn.settle(result)

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        """Return the end of a run that did not begin; the journal has the end of any other run."""
        fault = None if failure is None else logged_fault(failure)
        try:
            await self._index.row(self._job.job_id)
        except RunUnknown:
            return CANCELLED if fault is None else {"code": fault.code, "message": fault.message}
        return None

    async def drop(self) -> None:
        """Do nothing: the run has not begun."""

    def _on_event(self, event: Event) -> None:
        if event.run_id == self._job.job_id:
            self._job.begin()

    async def _has_begun(self) -> bool:
        try:
            await self._index.row(self._job.job_id)
        except RunUnknown:
            return False
        return True

    async def _has_ended(self, request: JobRequest) -> bool:
        """Return whether the run has ended since the job was stored."""
        try:
            row = await self._index.row(self._job.job_id)
        except RunUnknown:
            return False
        if row.state == "dead":
            return True
        return row.state not in _OPEN and len(await self._index.read(row.run_id)) > request.events
