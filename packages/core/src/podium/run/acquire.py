"""Acquires the record of a run: creates it, resumes it, or waits for the process that executes the run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import anyio

from podium.budget.limits import Limits
from podium.errors import ConfigError, JournalError, LimitExceeded, RunExists, RunHeld, RunUnknown
from podium.execution.context import ConductorSettings, RunRequest
from podium.journal.journal import Head, Journal, head_of
from podium.run.forecast import plan_key, remember
from podium.run.request import checked_plan, policy_of
from podium.run_state.paid import PaidResults, unbilled
from podium.run_state.recorder import RunRecorder
from podium.run_state.state import fold
from podium.secrets import scrub
from podium.types.events import Event, PlanReady, RunEnded, RunStarted, StepEnded
from podium.types.result import Result
from podium.workers.pool import CallRecord, Pool

SHORTEST_LOOK = 0.05
LONGEST_LOOK = 1.0
"""Seconds between two checks of a run that another process executes."""
_RECALLED = 20
"""Runs whose calls are read for workers without history."""
_RECORDED = ("query", "context", "asker", "tools", "sampling", "tool_messages")
"""The fields of a request that its record has, too."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """A run to execute, with its recorder; or a run that has ended, without a recorder."""

    request: RunRequest
    """The request; for a resumed run, with the recorded query."""
    recorder: RunRecorder | None = None
    """Records the run; `None` if the run has ended."""
    before: Result | None = None
    """The recorded result so far; `None` for a new run."""
    limits: Limits | None = None
    """The recorded limits of a resumed run; `None` for a new or a nested run."""
    head: Head | None = None
    """The head of the record, if the run has ended."""


async def acquire(journal: Journal, request: RunRequest, settings: ConductorSettings) -> Acquired:
    """Create the run's record, resume the run, or return its recorded result."""
    if request.resumes:
        return await _claim(journal, request, settings)
    try:
        log = await journal.begin(started(request, settings), minted=request.is_new_id)
    except RunExists:
        return await _join(journal, request, settings)
    return Acquired(request, RunRecorder(log, None, settings.pool.names))


async def recall_calls(journal: Journal, pool: Pool) -> None:
    """Add the latest recorded runs to the histories of a pool that has workers without calls, once."""
    if pool.is_recalled:
        return
    pool.is_recalled = True
    histories = {name: pool.states[number].history for number, name in enumerate(pool.names)}
    unknown = {name: history for name, history in histories.items() if not history.calls}
    for row in reversed(await journal.runs(limit=_RECALLED) if unknown else ()):
        try:
            entries = await journal.read(row.run_id)
        except JournalError:  # the new run does not need this record, whose reader gets the error
            continue
        state = fold(entry.event for entry in entries)
        for current in state.rounds_so_far():
            remember(pool, current, state.workers)
        ended = [entry.event.outcome for entry in entries if isinstance(entry.event, StepEnded)]
        for outcome in ended:
            # An answer with a problem may be cut: its worker needed more than it wrote.
            if (
                outcome.worker in unknown
                and outcome.attempts
                and (outcome.status, outcome.problem) == ("ok", None)
            ):
                call = outcome.calls[-1] if outcome.calls else outcome.as_call()
                read, written = call.usage.total_input_tokens, call.usage.total_output_tokens
                took = CallRecord(
                    outcome.seconds, ok=True, input_tokens=read, output_tokens=written, cost=call.cost
                )
                unknown[outcome.worker].add(took)


async def _join(journal: Journal, request: RunRequest, settings: ConductorSettings) -> Acquired:
    """Wait while another process executes the run; resume the run if no process does."""
    wait = SHORTEST_LOOK
    with anyio.move_on_after(settings.limits.seconds):
        while True:
            entries = await journal.read(request.run_id)
            events = [entry.event for entry in entries]
            if request.caller is None:  # the id of a nested run already depends on its query
                _check_same(request, events, settings.pool.names)
            state = fold(events)
            is_over = state.has_ended or (isinstance(state.last, RunEnded) and state.waits)
            if is_over and not _goes_on(request, ended := state.result()):
                return Acquired(request, before=ended, head=head_of(entries))
            try:
                return await _claim(journal, request, settings)
            except RunHeld:
                await anyio.sleep(wait)
                wait = min(2 * wait, LONGEST_LOOK)
    message = f"another process still executes run {request.run_id}: raise Limits.seconds to wait longer"
    raise LimitExceeded("seconds", message)


async def _claim(journal: Journal, request: RunRequest, settings: ConductorSettings) -> Acquired:
    """Resume a recorded run, or return its result if it has ended."""
    # A nested run never becomes dead by itself: its outer run does.
    log = await journal.claim(request.run_id, force=request.force or request.caller is not None)
    try:
        nested = await journal.nested(request.run_id)
        state = fold((entry.event for entry in log.entries), nested)
        before, first = state.result(), state.started
        if state.has_ended and not _goes_on(request, before):
            _check_calls(request, before)
            await log.aclose()
            return Acquired(request, before=before, head=head_of(log.entries))
        recorder = RunRecorder(log, state, settings.pool.names)
        assert first is not None  # else it has no result
        if first.tool_messages and first.recalls and request.paid_results is None:
            request = replace(request, paid_results=await _recalled(journal, first, settings))
        request = recorded_request(request, first, settings)
        limits = state.limits if request.caller is None else None
        return Acquired(request, recorder, before, limits)
    except BaseException:  # a cancelled task must release the run, too
        await log.aclose()
        raise


def _check_calls(request: RunRequest, ended: Result) -> None:
    """Raise `ConfigError` if a run that is resumed has ended with calls of the caller's tools."""
    if request.resumes and ended.tool_calls:
        told = f"run {request.run_id} has ended with {len(ended.tool_calls)} call(s) of the caller's tools"
        raise ConfigError(f"{told}: run its messages again, with the calls and their results")


async def _recalled(journal: Journal, first: RunStarted, settings: ConductorSettings) -> PaidResults | None:
    """Return the results of the run that a run continues after tool calls; `None` if it was deleted."""
    assert first.recalls is not None
    try:
        entries, nested = await journal.read(first.recalls), await journal.nested(first.recalls)
    except RunUnknown:
        return None
    events = [entry.event for entry in entries]
    is_moved = not isinstance(events[0], RunStarted) or events[0].query != first.query
    return unbilled([*events, *chain.from_iterable(nested)], settings.pool.names, moved=is_moved)


def recorded_request(request: RunRequest, first: RunStarted, settings: ConductorSettings) -> RunRequest:
    """Return the request for a recorded run, with its recorded query; raise `PlanError` for its new plan."""
    facts = {name: getattr(first, name) for name in _RECORDED}
    request = replace(request, labels=first.labels | request.labels, **facts)
    if request.plan is not None:
        plan = checked_plan(request.plan, settings, request, previous=True)
        policy_of(settings, request).verify(plan, settings.pool.cards, request.labels)
        request = replace(request, plan=plan)
    return request


def _goes_on(request: RunRequest, ended: Result) -> bool:
    """Return whether a run that has ended is resumed."""
    if request.resumes:
        return request.plan is not None or ended.status != "ok"
    return request.caller is not None and ended.status in ("failed", "partial")


def _check_same(request: RunRequest, events: Sequence[Event], workers: Sequence[str]) -> None:
    """Raise `RunExists` if the recorded run has another query, context or plan; secrets are not compared."""
    first = next((event for event in events if isinstance(event, RunStarted)), None)
    plan = next((event.plan for event in events if isinstance(event, PlanReady)), None)
    same = first is not None and _asked(first) == _asked(request)
    if same and first is not None and request.plan is not None and plan is not None:
        same = plan_key(plan, first.workers) == plan_key(request.plan, workers)
        same = same and scrub(json.dumps(plan.args)) == scrub(json.dumps(request.plan.args))
    if not same:
        told = f"the journal has a run {request.run_id} with another query, context or plan"
        raise RunExists(f"{told}: use another id")


def _asked(run: RunRequest | RunStarted) -> str:
    messages = [message.to_wire() for message in run.query + run.tool_messages]
    return scrub(json.dumps([messages, dict(run.context)], sort_keys=True))


def started(request: RunRequest, settings: ConductorSettings) -> RunStarted:
    """Return the first event of a run."""
    caller, plan = request.caller, request.plan
    return RunStarted(
        run_id=request.run_id,
        at=0.0,
        workers=settings.pool.names,
        labels=request.labels,
        limits=settings.limits,
        conductor=settings.name,
        recalls=None if request.paid_results is None else request.paid_results.run_id,
        parent=None if caller is None else (caller.run_id, caller.round, caller.step, caller.attempt),
        plan="" if plan is None else plan.name,
        args=None if plan is None else plan.args,
        client=request.client,
        user=request.user,
        **{name: getattr(request, name) for name in _RECORDED},
    )
