"""Reads from recorded events what is paid for: results, plans, decisions, and their cost.

A resumed run is planned and executed as any other run; it finds these results and does not pay again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import assert_never

from podium.budget.spend import Spend
from podium.resume.paid_results import PaidResults
from podium.resume.rebuild import UNKNOWN, is_superseded, renumbered, result_of
from podium.types.events import (
    AnswerDelta,
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    PlanDelta,
    PlannerEnded,
    PlannerStarted,
    PlanReady,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
    StepDelta,
    StepEnded,
    StepStarted,
)
from podium.types.outcome import Call, Outcome, total_cost
from podium.types.plan import Plan
from podium.usage import Usage


def paid_results_of(
    events: Sequence[Event],
    workers: Sequence[str],
    *,
    again: bool = True,
    nested: Sequence[Sequence[Event]] = (),
) -> PaidResults:
    """Return what the run has paid for, its plans numbered as the pool is now.

    What the calls of a step that is tried again have cost is not forgotten.

    Args:
        events: the run's, in order.
        workers: the names of the pool's workers.
        again: whether steps that failed in the last round are tried again; else they stand.
        nested: the events of the runs nested in it, which tell what a step of theirs has
            cost that did not end.

    Raises:
        ConfigError: the pool lacks a worker that a plan names.
    """
    latest = max((e.round for e in events if isinstance(e, RoundStarted)), default=0) if again else inf
    paid_results = _read(events, workers, latest)
    calls = list(calls_of(events))
    children = [run for run in nested if _parent_of(run)[0] == events[0].run_id]
    for call in calls:
        ended = call.ended
        if ended is None or (ended.status != "ok" and ended.round == latest and not is_superseded(ended)):
            bill = call.bill if ended is not None else _with_nested(call, calls, children)
            paid_results.lost.setdefault((call.round, call.step), []).append(bill)
    return paid_results


def unbilled(events: Sequence[Event], workers: Sequence[str]) -> PaidResults:
    """Return what a recorded run came to, for another run to use, which is not billed for it again.

    Steps that failed stand as they are. Workers and errors are as for `recall_of`.
    """
    free = [_unbilled(event) for event in events if not _is_call(event)]
    return replace(paid_results_of(free, workers, again=False), run_id=events[0].run_id)


def _is_call(event: Event) -> bool:
    """Say whether an event tells of a call alone, and nothing of what it came to."""
    return isinstance(event, StepStarted | AttemptFailed)


def _unbilled(event: Event) -> Event:
    """Return what was recorded without its bill, which the recorded run has had."""
    match event:
        case StepEnded():
            free = replace(event.outcome, usage=Usage(), cost=0.0, calls=(), maybe_paid=False)
            return replace(event, outcome=free)
        case PlannerEnded():
            return replace(event, proposal=replace(event.proposal, usage=Usage(), cost=0.0, maybe_paid=False))
        case _:
            return event


def _read(  # noqa: C901 - one case for each event
    events: Sequence[Event], workers: Sequence[str], latest: float
) -> PaidResults:
    paid_results = PaidResults()
    names: tuple[str, ...] = ()
    for event in events:
        match event:
            case RunStarted() | RunResumed():
                names = event.workers
            case RoundStarted():
                paid_results.reasons[event.round] = event.why
            case PlannerEnded():
                paid_results.proposals.setdefault(event.round, []).append(event.proposal)
            case PlanReady():
                ready = replace(event, plan=renumbered(event.plan, names, workers))
                _forget_decision(paid_results, event.round, ready.plan)
                paid_results.plans[event.round] = ready
            case ApprovalAsked():
                paid_results.asked.add(event.round)
            case ApprovalGiven():
                plan = event.plan and renumbered(event.plan, names, workers)
                paid_results.decisions[event.round] = replace(event, plan=plan)
            case StepEnded():
                if event.key and _stands(event.outcome, latest):
                    paid_results.add(event.key, event.outcome)
            case PlannerStarted() | StepStarted() | AttemptFailed() | RunEnded() | RunStopped():
                pass  # they pay for nothing
            case PlanDelta() | StepDelta() | AnswerDelta():
                pass  # never recorded
            case _:
                assert_never(event)
    return paid_results


def _with_nested(call: "_Called", calls: Sequence["_Called"], children: Sequence[Sequence[Event]]) -> Call:
    """Return the bill of a call that did not end: of a conductor, what its run spent and nobody billed."""
    place = (call.round, call.step)
    runs = [events for events in children if _parent_of(events)[1:3] == place]
    if call.reserved.calls or not runs:
        return call.bill
    billed = [c.bill for c in calls if (c.round, c.step) == place and c.ended is not None]
    results = [result_of(events) for events in runs]
    usage = Usage.total(r.usage for r in results) - Usage.total(b.usage for b in billed)
    cost, known = total_cost(r.cost for r in results), total_cost(b.cost for b in billed)
    left = None if cost is None or known is None else max(cost - known, 0.0)
    return replace(call.bill, usage=usage if usage.total_tokens > 0 else Usage(), cost=left)


def _parent_of(events: Sequence[Event]) -> tuple[str, int, int, int]:
    started = events[0]
    assert isinstance(started, RunStarted)
    assert started.parent is not None
    return started.parent


def _forget_decision(paid_results: PaidResults, number: int, plan: Plan) -> None:
    """Drop what was decided of a round's plan where that is not the plan any more."""
    decided, before = paid_results.decisions.get(number), paid_results.plans.get(number)
    if decided is not None and plan != (decided.plan or (before and before.plan)):
        del paid_results.decisions[number]


def spent_by(events: Sequence[Event]) -> tuple[Spend, ...]:
    """Return what the run has spent; a call whose end nobody saw has spent all it had reserved."""
    spends: list[Spend] = []
    planning: Spend | None = None
    for event in events:
        if isinstance(event, PlannerStarted):
            planning = event.reserved
        elif isinstance(event, PlannerEnded) and planning is not None:
            proposal = event.proposal
            spends.append(_spend(planning, proposal.usage, proposal.cost, unknown=proposal.maybe_paid))
            planning = None
        elif isinstance(event, RunResumed) and planning is not None:
            spends.append(planning)
            planning = None
    if planning is not None:
        spends.append(planning)
    for call in calls_of(events):
        bill = call.bill
        if call.reserved.calls:  # else a conductor's, whose own run tells what it spent
            spends.append(_spend(call.reserved, bill.usage, bill.cost, unknown=bill.maybe_paid))
    return tuple(spends)


def steps_of(events: Sequence[Event]) -> int:
    """Return how many steps the run has started."""
    return len({(event.round, event.step) for event in events if isinstance(event, StepStarted)})


@dataclass(frozen=True, slots=True)
class _Called:
    """One recorded call of a worker, and what it came to."""

    round: int
    step: int
    reserved: Spend
    bill: Call
    ended: Outcome | None
    """The outcome of its step; `None` when that was not recorded."""


def calls_of(events: Sequence[Event]) -> Iterator[_Called]:
    """Yield every call of a worker that was begun, with its bill, known or not."""
    begun: dict[tuple[int, int, int], StepStarted] = {}
    failed: dict[tuple[int, int], list[tuple[StepStarted, Call]]] = {}
    for event in events:
        if isinstance(event, StepStarted):
            begun[event.round, event.step, event.attempt] = event
        elif isinstance(event, AttemptFailed):
            start = begun.pop((event.round, event.step, event.attempt), None)
            if start is not None:
                failed.setdefault((event.round, event.step), []).append((start, event.call))
        elif isinstance(event, StepEnded):
            outcome, where = event.outcome, (event.round, event.step)
            for start, call in failed.pop(where, []):
                yield _Called(*where, start.reserved, call, outcome)
            # One that a new plan replaced may end after its successor has begun.
            for place in [p for p in begun if p[:2] == where and p[2] <= outcome.attempts]:
                start = begun.pop(place)
                yield _Called(*where, start.reserved, _bill(start, outcome), outcome)
    for (number, step), calls in failed.items():
        yield from (_Called(number, step, start.reserved, call, None) for start, call in calls)
    for start in begun.values():
        yield _Called(start.round, start.step, start.reserved, _unseen(start), None)


def _bill(start: StepStarted, outcome: Outcome) -> Call:
    """Return the call of an outcome that tells of it."""
    for call in outcome.calls:
        if call.attempt == start.attempt:
            return call
    if outcome.attempts != start.attempt:
        return _unseen(start)
    return Call(
        attempt=start.attempt,
        worker=outcome.worker,
        problem=None if outcome.status == "ok" else outcome.problem,
        usage=outcome.usage,
        cost=outcome.cost,
        maybe_paid=outcome.maybe_paid,
    )


def _unseen(start: StepStarted) -> Call:
    free = start.reserved.cost == 0
    usage = Usage() if free else Usage(start.reserved.input_tokens, estimated=True)
    return Call(
        attempt=start.attempt,
        worker=start.worker,
        problem=UNKNOWN,
        usage=usage,
        cost=0.0 if free else None,
        maybe_paid=True,
    )


def _stands(outcome: Outcome, latest: float) -> bool:
    """Say whether a recorded outcome is taken as it is."""
    if outcome.status == "ok":
        return True
    return outcome.status == "failed" and outcome.round < latest


def _spend(reserved: Spend, usage: Usage, cost: float | None, *, unknown: bool) -> Spend:
    """Return what a call counts as; where nobody knows, all that was reserved for it."""
    if unknown:
        return reserved
    return Spend.of(usage, reserved.cost if cost is None else cost, calls=reserved.calls)
