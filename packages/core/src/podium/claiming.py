"""How a run comes by its record: begun, taken up where it broke off, or waited for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from podium.durable import has_ended, result_of, waiting_for
from podium.errors import ConfigError, LimitExceeded, RunExists, RunHeld
from podium.events import ApprovalGiven, Event, PlanReady, RunResumed, RunStarted
from podium.job import Job
from podium.journal.journal import Journal
from podium.recording import Recording
from podium.result import Result

SHORTEST_LOOK = 0.05
LONGEST_LOOK = 1.0
"""Seconds between two looks at a run that someone else carries out."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that may be carried out, with its record; or one that has come to its end."""

    job: Job
    """As it was asked for; of a run that is taken up, with the query it was begun for."""
    recording: Recording | None = None
    ended: Result | None = None
    """What it came to before: with a recording, it goes on all the same."""


async def take(journal: Journal, job: Job, workers: Sequence[str], *, seconds: float) -> Taken:
    """Begin the run's record, take it up, or find its end there.

    Args:
        journal: where it is recorded.
        job: the run.
        workers: the names of the pool's workers.
        seconds: how long to wait for one that someone else carries out.

    Raises:
        RunExists: the run of this id is of another query or plan.
        LimitExceeded: someone else carried it out for all that time.
        JournalError: it cannot be recorded, or not be taken up.
    """
    if job.resumes:
        return await _claim(journal, job, workers)
    try:
        log = await journal.begin(started(job, workers), minted=job.is_minted)
    except RunExists:
        if job.caller is not None:
            return await _claim(journal, job, workers)
        return await _join(journal, job, workers, seconds)
    return Taken(job, Recording(log, (), workers))


async def _join(journal: Journal, job: Job, workers: Sequence[str], seconds: float) -> Taken:
    """Wait for a run that someone carries out; take up one that nobody does."""
    wait = SHORTEST_LOOK
    with anyio.move_on_after(seconds):
        while True:
            events = [entry.event for entry in await journal.read(job.run_id)]
            _check_same(job, events)
            if has_ended(events):
                return Taken(job, ended=result_of(events))
            try:
                return await _claim(journal, job, workers)
            except RunHeld:
                await anyio.sleep(wait)
                wait = min(2 * wait, LONGEST_LOOK)
    message = f"run {job.run_id} is carried out elsewhere and did not end: raise Limits.seconds"
    raise LimitExceeded("seconds", message)


async def _claim(journal: Journal, job: Job, workers: Sequence[str]) -> Taken:
    """Take the run's record up, unless it has come to an end that stands."""
    log = await journal.claim(job.run_id, force=job.force)
    try:
        events = [entry.event for entry in log.entries]
        ended = result_of(events) if has_ended(events) else None
        if ended is not None and not _goes_on(job, ended):
            await log.aclose()
            return Taken(job, ended=ended)
        recording = Recording(log, events, workers)
        first = next(event for event in events if isinstance(event, RunStarted))
        return Taken(replace(job, query=first.query, labels=first.labels | job.labels), recording, ended)
    except BaseException:
        await log.aclose()
        raise


def _goes_on(job: Job, ended: Result) -> bool:
    """Say whether a run is taken up although it has come to its end."""
    return job.resumes or (job.caller is not None and ended.status == "failed")


def _check_same(job: Job, events: Sequence[Event]) -> None:
    """Raise `RunExists` if a recorded run is another than what was asked for."""
    first = next((event for event in events if isinstance(event, RunStarted)), None)
    plan = next((event.plan for event in events if isinstance(event, PlanReady)), None)
    same_plan = job.plan is None or plan is None or plan == job.plan
    if first is None or first.query != job.query or not same_plan:
        raise RunExists(f"run {job.run_id} is of another query or plan: give this one an id of its own")


def started(job: Job, workers: Sequence[str]) -> RunStarted:
    """Return the first event of a run."""
    caller = job.caller
    return RunStarted(
        run_id=job.run_id,
        at=0.0,
        workers=tuple(workers),
        query=job.query,
        labels=job.labels,
        parent=None if caller is None else (caller.run_id, caller.round, caller.step, caller.attempt),
    )


async def decide(journal: Journal, given: ApprovalGiven, workers: Sequence[str]) -> None:
    """Record what someone says of the plan of a run that waits for it.

    Raises:
        ConfigError: the run waits for nothing.
        JournalError: it cannot be taken up, or the decision cannot be recorded.
    """
    log = await journal.claim(given.run_id)
    try:
        asked = waiting_for([entry.event for entry in log.entries])
        if asked is None:
            told = f"run {given.run_id} waits for no decision: look at it with `podium show {given.run_id}`"
            raise ConfigError(told)
        at, run_id = asked.at, given.run_id
        log.append(RunResumed(run_id=run_id, at=at, workers=tuple(workers), recovery=log.recovery))
        log.append(replace(given, at=at, round=asked.round))
        await log.flush()
    finally:
        await log.aclose()
