"""What recorded events say of a run: its rounds and result, and what is paid for already.

It reads events and knows no database. A run that is resumed is planned and executed as
any other, with a `Recall` filled here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from podium.conclusion import conclusion
from podium.errors import ConfigError, JournalBroken
from podium.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    PlannerEnded,
    PlannerStarted,
    PlanReady,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
    StepEnded,
    StepStarted,
)
from podium.ledger import Spend
from podium.outcome import Call, Outcome, Problem, Proposal, Round
from podium.plan import Plan
from podium.recall import Recall
from podium.result import Result
from podium.usage import Usage

UNKNOWN = Problem("unknown", "the run broke off while the call was under way; it may have been paid for")
UNFINISHED = Problem("unfinished", "the run has not come to its end")


@dataclass(slots=True)
class _Round:
    """A round, as far as its events have been read."""

    number: int
    why: str = ""
    plan: Plan | None = None
    proposals: list[Proposal] = field(default_factory=list)
    places: dict[int, Outcome] = field(default_factory=dict)
    replaced: list[Outcome] = field(default_factory=list)

    def renumber(self, then: Sequence[str], now: Sequence[str]) -> None:
        self.plan = self.plan and renumbered(self.plan, then, now)

    def take_plan(self, event: PlanReady, plan: Plan) -> None:
        self.plan, steps = plan, len(plan.steps)
        self.why = event.why if not steps and self.why and event.why.startswith(self.why) else self.why
        self.replaced += [self.places.pop(index) for index in sorted(self.places) if index >= steps]

    def take_end(self, outcome: Outcome) -> None:
        before = self.places.get(outcome.step)
        superseded = outcome.problem is not None and outcome.problem.code == "superseded"
        if superseded:
            self.replaced.append(outcome)
            return
        if before is not None and before.status == "ok":  # paid for; of one that failed, the new one tells
            self.replaced.append(before)
        self.places[outcome.step] = outcome

    def finished(self, names: Sequence[str]) -> Round:
        steps = () if self.plan is None else self.plan.steps
        outcomes = [self.places.get(index) or self._open(index, names) for index in range(len(steps))]
        if self.plan is None:
            outcomes = [self.places[index] for index in sorted(self.places)]
        return Round(
            number=self.number,
            plan=self.plan,
            proposals=tuple(self.proposals),
            outcomes=(*outcomes, *self.replaced),
            why=self.why,
            check=self.places.get(len(steps)) if self.plan is not None else None,
        )

    def _open(self, index: int, names: Sequence[str]) -> Outcome:
        """Return what stands for a step whose end was not recorded."""
        assert self.plan is not None
        worker = names[self.plan.steps[index].worker]
        return Outcome(round=self.number, step=index, worker=worker, status="cancelled", problem=UNFINISHED)


def rounds_of(events: Iterable[Event]) -> tuple[Round, ...]:
    """Return the rounds that events tell of, their plans numbered as the last pool was."""
    rounds: dict[int, _Round] = {}
    names: tuple[str, ...] = ()
    planning: PlannerStarted | None = None
    for event in events:
        match event:
            case RunStarted() | RunResumed():
                if planning is not None:
                    rounds[planning.round].proposals.append(_broken_off(planning))
                    planning = None
                for current in rounds.values():
                    current.renumber(names, event.workers)
                names = event.workers
            case RoundStarted():
                rounds.setdefault(event.round, _Round(event.round)).why = event.why
            case PlannerStarted():
                planning = event
            case PlannerEnded():
                planning = None
                rounds[event.round].proposals.append(event.proposal)
            case PlanReady():
                rounds[event.round].take_plan(event, event.plan)
            case StepEnded():
                rounds[event.round].take_end(event.outcome)
    return tuple(rounds[number].finished(names) for number in sorted(rounds))


def result_of(events: Sequence[Event]) -> Result:
    """Return what a recorded run came to, or as far as it has come.

    Raises:
        JournalBroken: the events are those of no run.
    """
    if not events or not isinstance(events[0], RunStarted):
        raise JournalBroken("the record does not begin with the start of a run")
    rounds = rounds_of(events)
    started, last = events[0], events[-1]
    names = next(e.workers for e in reversed(events) if isinstance(e, RunStarted | RunResumed))
    ended = next((e for e in reversed(events) if isinstance(e, RunEnded)), None)
    if ended is not None and has_ended(events):
        return replace(ended.result, rounds=rounds, workers=names)
    problem = last.problem if isinstance(last, RunStopped) else UNFINISHED
    answer, status, _ = conclusion(rounds)
    return Result(
        run_id=started.run_id,
        answer=answer,
        status="failed" if status == "failed" else "partial",
        problem=problem,
        rounds=rounds,
        workers=names,
        seconds=last.at,
    )


def has_ended(events: Sequence[Event]) -> bool:
    """Say whether the run came to its end, and was not taken up again after that."""
    for event in reversed(events):
        if isinstance(event, RunEnded):
            return event.result.status != "waiting"
        if isinstance(event, RunResumed | RunStopped):
            return False
    return False


def waiting_for(events: Sequence[Event]) -> ApprovalAsked | None:
    """Return what the run waits for; `None` if it waits for no decision."""
    for event in reversed(events):
        if isinstance(event, ApprovalAsked):
            return event
        if isinstance(event, ApprovalGiven | PlanReady | StepStarted):
            return None
    return None


def recall_of(events: Sequence[Event], workers: Sequence[str], *, again: bool = True) -> Recall:
    """Return what the run has paid for, its plans numbered as the pool is now.

    What the calls of a step that is tried again have cost is not forgotten.

    Args:
        events: the run's, in order.
        workers: the names of the pool's workers.
        again: whether steps that failed in the last round are tried again; else they stand.

    Raises:
        ConfigError: the pool lacks a worker that a plan names.
    """
    recall = Recall()
    names: tuple[str, ...] = ()
    latest = max((e.round for e in events if isinstance(e, RoundStarted)), default=0) if again else inf
    latest += not again
    for event in events:
        if isinstance(event, RunStarted | RunResumed):
            names = event.workers
        elif isinstance(event, RoundStarted):
            recall.reasons[event.round] = event.why
        elif isinstance(event, PlannerEnded):
            recall.proposals.setdefault(event.round, []).append(event.proposal)
        elif isinstance(event, PlanReady):
            ready = replace(event, plan=renumbered(event.plan, names, workers))
            _forget_decision(recall, event.round, ready.plan)
            recall.plans[event.round] = ready
        elif isinstance(event, ApprovalGiven):
            plan = event.plan and renumbered(event.plan, names, workers)
            recall.decisions[event.round] = replace(event, plan=plan)
        elif isinstance(event, StepEnded) and event.key and _stands(event.outcome, latest):
            recall.add(event.key, event.outcome)
    for call in calls_of(events):
        ended = call.ended
        if ended is None or (ended.status != "ok" and ended.round == latest):
            recall.lost.setdefault((call.round, call.step), []).append(call.bill)
    return recall


def _forget_decision(recall: Recall, number: int, plan: Plan) -> None:
    """Drop what was decided of a round's plan where that is not the plan any more."""
    decided, before = recall.decisions.get(number), recall.plans.get(number)
    if decided is not None and plan != (decided.plan or (before and before.plan)):
        del recall.decisions[number]


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
        spends.append(_spend(call.reserved, bill.usage, bill.cost, unknown=bill.maybe_paid))
    return tuple(spends)


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
            outcome = event.outcome
            for start, call in failed.pop((event.round, event.step), []):
                yield _Called(event.round, event.step, start.reserved, call, outcome)
            for place in [p for p in begun if p[:2] == (event.round, event.step)]:
                start = begun.pop(place)
                yield _Called(*place[:2], start.reserved, _bill(start, outcome), outcome)
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


def _broken_off(start: PlannerStarted) -> Proposal:
    free = start.reserved.cost == 0
    return Proposal(
        planner=start.planner, text="", problem=UNKNOWN, cost=0.0 if free else None, maybe_paid=not free
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


def renumbered(plan: Plan, then: Sequence[str], now: Sequence[str]) -> Plan:
    """Return a plan for another order of the pool's workers, found by name.

    Raises:
        ConfigError: one of its workers is not there.
    """
    if tuple(then) == tuple(now):
        return plan
    gone = {then[step.worker] for step in plan.steps} - set(now)
    if gone:
        told = ", ".join(repr(name) for name in sorted(gone))
        raise ConfigError(f"the run's plan names {told}, which the pool lacks: put it back under that name")
    return plan.renumbered([now.index(name) if name in now else 0 for name in then])
