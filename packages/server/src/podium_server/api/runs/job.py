"""The job of a run: begins, resumes or replays it in the background, and at the deadline of a question."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from math import inf
from time import time

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import PodiumError, RunUnknown
from podium.journal import SqlJournal
from podium.replay import replay
from podium.run import Listener, RunOptions
from podium.run_state import fold
from podium.secrets import scrub
from podium.types import Event, Message, Plan, Result
from podium_server.api.endpoint import logged_fault
from podium_server.api.runs.forms import CANCELLED
from podium_server.api.runs.query import RunIndex
from podium_server.api.runs.requests import JobRequest
from podium_server.background_tasks import beside, repeat
from podium_server.http import BadRequest
from podium_server.jobs.jobs import RETRY_SECONDS, Job, is_temporary
from podium_server.jobs.table import JobTable
from podium_server.keys import Access
from podium_server.turn import Asked, RunTurn, Turns, watched_calls

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
    """The work of one run."""

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
            with turn.live.publishing(run_id) as publish:

                def tell(event: Event) -> None:
                    publish(event)
                    if event.run_id == run_id:
                        self._job.begin()

                result = await _execute(turn, request, [entry.event for entry in entries], tell)
            self._job.result = result
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


async def _execute(turn: RunTurn, request: JobRequest, events: Sequence[Event], tell: Listener) -> Result:
    conductor, options = turn.conductor, turn.options.copy()
    run_id = str(options["run_id"])
    options["middleware"] = watched_calls(turn.live, run_id, options.get("middleware"))
    plan = None if request.plan is None else Plan.from_json(request.plan)
    limits = _limits(conductor, options, request.limits, events if request.kind == "resume" else ())
    if request.kind == "resume":
        return await conductor.resume(
            run_id,
            plan=plan,
            policy=options.get("policy"),
            limits=limits,
            refresh=request.refresh,
            force=request.force,
            journal=options.get("journal"),
            middleware=options["middleware"],
            on_event=tell,
        )
    options["limits"] = limits
    if request.kind == "replay":
        options.pop("sampling", None)
        again = None if request.again is None else (request.again[0], request.again[1])
        return await replay(conductor, events, plan=plan, again=again, on_event=tell, **options)
    options["context"] = request.context
    query = tuple(Message.from_wire(message) for message in request.query)
    asked = query if plan is None else replace(plan, query=query)
    return await conductor.run(asked, on_event=tell, **options)


def _limits(
    conductor: Conductor, options: RunOptions, given: Mapping[str, int | float], events: Sequence[Event]
) -> Limits | None:
    """Return the limits of a run; `None` for those of the conductor, or those that the run has recorded."""
    own = options.get("limits")
    if own is None and not given:
        return None
    most = own or conductor.limits
    limits = most
    if events:
        recorded = conductor.limits.keeping(fold(events).limits)
        cost = min((each.cost for each in (recorded, most) if each.cost is not None), default=None)
        limits = replace(recorded, cost=cost)
    for name, value in given.items():
        bound = getattr(most, name)
        if bound is not None and value > bound:
            told = f"limits.{name} is {value:g}: the model and the API key allow at most {bound:g}"
            raise BadRequest(told, param=f"limits.{name}")
    return replace(limits, **given)  # type: ignore[arg-type]  # `check_limits` has checked the names


LOGGER = logging.getLogger("podium")
_PERIOD = 2.0
"""Seconds between two looks at the runs that wait."""
_MOST_READ = 100
"""Maximum number of records that one look reads."""


class Deadlines:
    """Continues runs at the deadlines of their questions."""

    def __init__(
        self, journal: SqlJournal, table: JobTable, continue_late: Callable[[str], Awaitable[None]]
    ) -> None:
        self._journal = journal
        self._table = table
        self._continue_late = continue_late
        self._due: dict[tuple[str, float], float] = {}
        """By run and its last end: when it is to be continued, in seconds of Unix time."""

    @asynccontextmanager
    async def running(self, period: float = _PERIOD) -> AsyncGenerator[None, None]:
        """Look every `period` seconds, until the block ends; log failures of the database."""

        async def run() -> None:
            await repeat(self._look, period=period, told="the deadlines of questions cannot be looked for")

        async with beside(run):
            yield

    async def _look(self) -> None:
        waiting = await self._table.waiting()
        self._due = {each: self._due[each] for each in waiting if each in self._due}
        for each in [each for each in waiting if each not in self._due][:_MOST_READ]:
            self._due[each] = await deadline_of(self._journal, each[0])
        for each, due in list(self._due.items()):
            if due <= time():
                self._due[each] = await self._continue(each[0])

    async def _continue(self, run_id: str) -> float:
        """Continue a run, and return when to try it again if it still waits then."""
        try:
            await self._continue_late(run_id)
        except PodiumError as error:
            if not is_temporary(error, is_admitted=False):
                LOGGER.warning("run %s is not continued at its deadline: %s", run_id, scrub(str(error)))
                return inf
        return time() + RETRY_SECONDS


async def deadline_of(journal: SqlJournal, run_id: str) -> float:
    """Return when the first question of a run is late, in seconds of Unix time; infinity for never."""
    try:
        asked = fold(entry.event for entry in await journal.read(run_id)).waiting
    except RunUnknown:  # it was deleted
        return inf
    untils = [each.question.until for each in asked if each.question is not None]
    return min([until for until in untils if until is not None], default=inf)
