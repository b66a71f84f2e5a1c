"""Computes the tokens and costs of a run's calls from its recorded events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from podium.budget.charging import charge
from podium.budget.spend import Spend
from podium.types.events import (
    AttemptFailed,
    Event,
    PlannerEnded,
    PlannerStarted,
    RunResumed,
    StepEnded,
    StepStarted,
    WorkerRunEnded,
)
from podium.types.outcome import Call, Outcome, Problem, Proposal
from podium.usage import Usage
from podium.workers.worker import Card
from podium.workers.worst_case import Overlong

UNKNOWN = Problem("unknown", "the run was interrupted during the call, which may be billed")


def spent_by(events: Sequence[Event]) -> tuple[Spend, ...]:
    """Return the spending of each call; a call without a recorded end counts with its reservation."""
    spends: list[Spend] = []
    planning: Spend | None = None
    for event in events:
        if isinstance(event, PlannerStarted):
            spends += [] if planning is None else [planning]
            planning = event.reserved
        elif isinstance(event, PlannerEnded) and planning is not None:
            proposal = event.proposal
            spends.append(charge(planning, proposal.usage, proposal.cost, proposal.charged))
            planning = None
        elif isinstance(event, RunResumed) and planning is not None:
            spends.append(planning)
            planning = None
        elif isinstance(event, WorkerRunEnded):  # the call that started the run has its tokens and cost
            spends.append(Spend(event.calls))
    if planning is not None:
        spends.append(planning)
    for call in calls_of(events):
        bill = call.bill
        if call.reserved.calls:  # a nested run counts its own calls
            spends.append(charge(call.reserved, bill.usage, bill.cost, bill.charged))
    return tuple(spends)


def note_lengths(events: Sequence[Event], overlong: Overlong, cards: Mapping[str, Card]) -> None:
    """Add the recorded answers that were longer than their token limit to `overlong`.

    Args:
        events: the events of the run.
        overlong: the collection of such answers.
        cards: the cards of the pool, by name.
    """
    for call in calls_of(events):
        overlong.note(cards.get(call.bill.worker), call.reserved, call.bill.usage)


def steps_of(events: Sequence[Event]) -> int:
    """Return the number of steps that the run has started, including runs that its workers' code started."""
    own = {(event.round, event.step) for event in events if isinstance(event, StepStarted)}
    return len(own) + sum(event.steps for event in events if isinstance(event, WorkerRunEnded))


@dataclass(frozen=True, slots=True)
class Called:
    """One recorded call of a worker."""

    round: int
    step: int
    reserved: Spend
    bill: Call
    """The call with its tokens and cost."""
    ended: Outcome | None
    """The outcome of its step; `None` if it was not recorded."""


def calls_of(events: Sequence[Event]) -> Iterator[Called]:
    """Yield every started call of a worker, with its tokens and cost, or its reservation without an end."""
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
                yield Called(*where, start.reserved, call, outcome)
            # A superseded step may end after the step that replaces it has started.
            told = {call.attempt for call in outcome.calls}
            for place in [p for p in begun if p[:2] == where and (p[2] <= outcome.attempts or p[2] in told)]:
                start = begun.pop(place)
                yield Called(*where, start.reserved, _bill(start, outcome), outcome)
    for (number, step), calls in failed.items():
        yield from (Called(number, step, start.reserved, call, None) for start, call in calls)
    for start in begun.values():
        yield Called(start.round, start.step, start.reserved, _unseen(start), None)


def _bill(start: StepStarted, outcome: Outcome) -> Call:
    """Return the call `start` with the tokens and cost of the outcome."""
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
        charged=outcome.charged,
    )


def _unseen(start: StepStarted) -> Call:
    """Return a call whose end was not recorded; its cost is its reservation."""
    reserved = start.reserved
    return Call(
        attempt=start.attempt,
        worker=start.worker,
        problem=UNKNOWN,
        usage=_reserved_usage(reserved),
        cost=reserved.cost if reserved.calls else None,  # a nested run counts its own calls
        maybe_paid=True,
        charged="reservation" if reserved.calls else "usage",
    )


def unseen_proposal(start: PlannerStarted) -> Proposal:
    """Return a planner call whose end was not recorded; its cost is its reservation."""
    reserved = start.reserved
    return Proposal(
        planner=start.planner,
        text="",
        problem=UNKNOWN,
        usage=_reserved_usage(reserved),
        cost=reserved.cost,
        maybe_paid=reserved.cost != 0,
        charged="reservation",
    )


def _reserved_usage(reserved: Spend) -> Usage:
    tokens = (reserved.input_tokens, reserved.output_tokens)
    return Usage(*tokens, estimated=True) if any(tokens) else Usage()
