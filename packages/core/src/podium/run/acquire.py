"""Acquires the record of a run: begins it, resumes it, or waits for the process that holds it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from podium.budget.limits import Limits
from podium.errors import LimitExceeded, RunExists, RunHeld
from podium.execution.run_context import RunRequest
from podium.journal.hash_chain import Head, head_of
from podium.journal.journal import Journal
from podium.resume.rebuild import has_ended, is_undecided, limits_of, result_of
from podium.resume.recorder import RunRecorder
from podium.secrets import scrub
from podium.types.events import Event, PlanReady, RunStarted
from podium.types.messages import Message
from podium.types.plan import Plan
from podium.types.result import Result

SHORTEST_LOOK = 0.05
LONGEST_LOOK = 1.0
"""Seconds between two looks at a run that someone else carries out."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """A run that may be carried out, with its record; or one that has come to its end."""

    request: RunRequest
    """As it was asked for; of a run that is taken up, with the query it was begun for."""
    recorder: RunRecorder | None = None
    before: Result | None = None
    """What it has come to so far; `None` for a new run. Without a recorder, that is its end."""
    limits: Limits | None = None
    """The limits that the run has by its record; `None` for a new run and for a nested one, which is held
    to its conductor's limits and to those of the run around it."""
    head: Head | None = None
    """The head of the record of a run that has come to its end."""


async def acquire(
    journal: Journal, request: RunRequest, workers: Sequence[str], *, limits: Limits
) -> Acquired:
    """Begin the run's record, take it up, or find its end there.

    Args:
        journal: where it is recorded.
        request: the run.
        workers: the names of the pool's workers.
        limits: those of the conductor. A new run is recorded with them; `seconds` is the longest wait for
            a run that someone else carries out.

    Raises:
        RunExists: the run of this id is of another query or plan.
        LimitExceeded: someone else carried it out for all that time.
        JournalError: it cannot be recorded, or not be taken up.
    """
    if request.resumes:
        return await _claim(journal, request, workers)
    try:
        log = await journal.begin(started(request, workers, limits), minted=request.is_new_id)
    except RunExists:
        return await _join(journal, request, workers, limits.seconds)
    return Acquired(request, RunRecorder(log, (), workers))


async def _join(journal: Journal, request: RunRequest, workers: Sequence[str], seconds: float) -> Acquired:
    """Wait for a run that someone carries out; take up one that nobody does."""
    wait = SHORTEST_LOOK
    with anyio.move_on_after(seconds):
        while True:
            entries = await journal.read(request.run_id)
            events = [entry.event for entry in entries]
            if request.caller is None:  # else its id stands for what it was asked
                _check_same(request, events, workers)
            ended = result_of(events) if has_ended(events) or is_undecided(events) else None
            if ended is not None and not _goes_on(request, ended):
                return Acquired(request, before=ended, head=head_of(entries))
            try:
                return await _claim(journal, request, workers)
            except RunHeld:
                await anyio.sleep(wait)
                wait = min(2 * wait, LONGEST_LOOK)
    message = f"run {request.run_id} is carried out elsewhere and did not end: raise Limits.seconds"
    raise LimitExceeded("seconds", message)


async def _claim(journal: Journal, request: RunRequest, workers: Sequence[str]) -> Acquired:
    """Take the run's record up, unless it has come to an end that stands."""
    # One that is nested is not given up by itself: the run it is nested in is.
    log = await journal.claim(request.run_id, force=request.force or request.caller is not None)
    try:
        events = [entry.event for entry in log.entries]
        nested = await _nested_in(journal, request.run_id)
        before = result_of(events, nested)
        if has_ended(events) and not _goes_on(request, before):
            await log.aclose()
            return Acquired(request, before=before, head=head_of(log.entries))
        recorder = RunRecorder(log, events, workers, nested)
        first = next(event for event in events if isinstance(event, RunStarted))
        labels = first.labels | request.labels
        request = replace(
            request,
            query=first.query,
            context=first.context,
            labels=labels,
            tools=first.tools,
            sampling=first.sampling,
            tool_messages=first.tool_messages,
        )
        limits = limits_of(events) if request.caller is None else None
        return Acquired(request, recorder, before, limits)
    except BaseException:  # after a cancel, too, the run is let go
        await log.aclose()
        raise


async def _nested_in(journal: Journal, run_id: str) -> list[list[Event]]:
    """Return the events of all runs that are nested in a run, at any depth."""
    found: list[list[Event]] = []
    for row in await journal.runs(parent=run_id, nested=True, limit=None):
        found.append([entry.event for entry in await journal.read(row.run_id)])
        found += await _nested_in(journal, row.run_id)
    return found


def _goes_on(request: RunRequest, ended: Result) -> bool:
    """Say whether a run that has come to its end is continued."""
    if request.resumes:
        return request.plan is not None or ended.status != "ok"
    return request.caller is not None and ended.status == "failed"


def _check_same(request: RunRequest, events: Sequence[Event], workers: Sequence[str]) -> None:
    """Raise `RunExists` if a recorded run is another than what was asked for, secrets aside."""
    first = next((event for event in events if isinstance(event, RunStarted)), None)
    plan = next((event.plan for event in events if isinstance(event, PlanReady)), None)
    same = first is not None and _spelled(first.query + first.tool_messages) == _spelled(
        request.query + request.tool_messages
    )
    same = same and first is not None and _texts(first.context) == _texts(request.context)
    if same and first is not None and request.plan is not None and plan is not None:
        then, now = _named(plan, first.workers), _named(request.plan, workers)
        same = scrub(json.dumps(then)) == scrub(json.dumps(now))
    if not same:
        told = f"run {request.run_id} is of another query, context or plan"
        raise RunExists(f"{told}: give this one an id of its own")


def _spelled(query: Sequence[Message]) -> str:
    return scrub(json.dumps([message.to_wire() for message in query], sort_keys=True))


def _texts(context: Mapping[str, str]) -> str:
    return scrub(json.dumps(dict(context), sort_keys=True))


def _named(plan: Plan, workers: Sequence[str]) -> list[tuple[str, str, list[int | str]]]:
    return [(workers[step.worker], step.subtask, step.access_list) for step in plan.steps]


def started(request: RunRequest, workers: Sequence[str], limits: Limits) -> RunStarted:
    """Return the first event of a run."""
    caller = request.caller
    return RunStarted(
        run_id=request.run_id,
        at=0.0,
        workers=tuple(workers),
        query=request.query,
        context=dict(request.context),
        labels=request.labels,
        tools=request.tools,
        sampling=request.sampling,
        tool_messages=request.tool_messages,
        limits=limits,
        recalls=None if request.paid_results is None else request.paid_results.run_id,
        parent=None if caller is None else (caller.run_id, caller.round, caller.step, caller.attempt),
    )
