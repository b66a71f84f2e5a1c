"""Rebuilds the rounds, the costs and the result of a run from its recorded events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from podium.budget.ledger import charge
from podium.budget.limits import Limits, Spend
from podium.errors import ConfigError, JournalBroken
from podium.run_state.recorded_actions import executions_of
from podium.types.events import (
    ActionDecided,
    AnswerDelta,
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    NestedRunEnded,
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
    WorkerRunEnded,
)
from podium.types.outcome import Call, Outcome, Problem, Proposal, Round, total_cost, totals
from podium.types.plan import Plan, PlannedBy
from podium.types.result import Result, conclusion
from podium.usage import Usage
from podium.workers.pool import Overlong
from podium.workers.worker import Card

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


UNFINISHED = Problem("unfinished", "the run has not ended")


@dataclass(slots=True)
class _Round:
    """A round while its events are read."""

    number: int
    why: str = ""
    plan: Plan | None = None
    planner: PlannedBy | None = None
    proposals: list[Proposal] = field(default_factory=list)
    places: dict[int, Outcome] = field(default_factory=dict)
    replaced: list[Outcome] = field(default_factory=list)

    def renumber(self, then: Sequence[str], now: Sequence[str]) -> None:
        self.plan = self.plan and renumbered(self.plan, then, now)

    def take_plan(self, event: PlanReady, plan: Plan) -> None:
        self.plan, steps = plan, len(plan.steps)
        self.planner = PlannedBy(event.planner, event.why, event.is_fallback)
        self.why = event.why if not steps and self.why and event.why.startswith(self.why) else self.why
        self.replaced += [self.places.pop(index) for index in sorted(self.places) if index >= steps]

    def take_end(self, outcome: Outcome) -> None:
        before = self.places.get(outcome.step)
        if is_aside(outcome):
            self.replaced.append(outcome)
            return
        if before is not None and not _bills(outcome, before):
            self.replaced.append(before)
        self.places[outcome.step] = outcome

    def finished(self, names: Sequence[str], lost: Mapping[int, Sequence[Call]]) -> Round:
        """Return the round.

        Args:
            names: the names of the pool's workers.
            lost: by step, the calls whose cost is in no recorded outcome.
        """
        steps = () if self.plan is None else self.plan.steps
        outcomes = [
            self.places.get(index) or self._open(index, names, lost.get(index, ()))
            for index in range(len(steps))
        ]
        if self.plan is None:
            outcomes = [self.places[index] for index in sorted(self.places)]
        is_open = {index for index in range(len(steps)) if index not in self.places}
        others = {(self.number, step): calls for step, calls in lost.items() if step not in is_open}
        self.replaced += outcomes_of_lost(others)
        return Round(
            number=self.number,
            plan=self.plan,
            planner=self.planner,
            proposals=tuple(self.proposals),
            outcomes=(*outcomes, *self.replaced),
            why=self.why,
            check=self.places.get(len(steps)) if self.plan is not None else None,
        )

    def _open(self, index: int, names: Sequence[str], calls: Sequence[Call]) -> Outcome:
        """Return an outcome for a step whose end was not recorded."""
        assert self.plan is not None
        worker = names[self.plan.steps[index].worker]
        return _with_calls((self.number, index), worker, UNFINISHED, calls)


def outcomes_of_lost(lost: Mapping[tuple[int, int], Sequence[Call]]) -> list[Outcome]:
    """Return an outcome for each step that a crash interrupted and that did not run again.

    Args:
        lost: the calls, by round and step.
    """
    return [_with_calls(place, calls[-1].worker, UNKNOWN, calls) for place, calls in lost.items() if calls]


def _with_calls(place: tuple[int, int], worker: str, problem: Problem, calls: Sequence[Call]) -> Outcome:
    return Outcome(
        round=place[0],
        step=place[1],
        worker=worker,
        status="cancelled",
        problem=problem,
        **totals(calls),
        calls=tuple(calls),
    )


def _bills(outcome: Outcome, before: Outcome) -> bool:
    """Return whether an outcome includes all calls of the outcome that it replaces."""
    calls = {call.attempt for call in before.calls} or ({before.attempts} if before.attempts else set[int]())
    return before.status != "ok" and calls <= {call.attempt for call in outcome.calls}


def rounds_of(  # noqa: C901, PLR0912 - one case for each event
    events: Sequence[Event], nested: Sequence[Sequence[Event]] | None = None
) -> tuple[Round, ...]:
    """Return the rounds of a run; their plans have the worker numbers of the latest pool.

    Args:
        events: the events of the run.
        nested: the events of its nested runs, at any depth. They give the cost of a call of a nested
            conductor whose end was not recorded. With `None`, these events and such costs are unknown.
    """
    rounds: dict[int, _Round] = {}
    names: tuple[str, ...] = ()
    planning: PlannerStarted | None = None
    for event in events:
        match event:
            case RunStarted() | RunResumed():
                if planning is not None:
                    rounds[planning.round].proposals.append(unseen_proposal(planning))
                    planning = None
                for current in rounds.values():
                    current.renumber(names, event.workers)
                names = event.workers
            case RoundStarted():
                rounds.setdefault(event.round, _Round(event.round)).why = event.why
            case PlannerStarted():
                if planning is not None:
                    rounds[planning.round].proposals.append(unseen_proposal(planning))
                planning = event
            case PlannerEnded():
                planning = None
                rounds[event.round].proposals.append(event.proposal)
            case PlanReady():
                rounds[event.round].take_plan(event, event.plan)
            case StepEnded():
                rounds[event.round].take_end(event.outcome)
            case (
                ApprovalAsked()
                | ApprovalGiven()
                | ActionDecided()
                | StepStarted()
                | AttemptFailed()
                | NestedRunEnded()
                | WorkerRunEnded()
                | RunEnded()
                | RunStopped()
            ):
                pass  # not part of a round
            case PlanDelta() | StepDelta() | AnswerDelta():
                pass  # never recorded
            case _:
                assert_never(event)
    if planning is not None:
        rounds[planning.round].proposals.append(unseen_proposal(planning))
    lost: dict[int, dict[int, list[Call]]] = {}
    calls = list(calls_of(events))
    for call in calls:
        if call.ended is None:
            bill = with_nested(call, calls, nested, events[0].run_id)
            lost.setdefault(call.round, {}).setdefault(call.step, []).append(bill)
    return tuple(rounds[number].finished(names, lost.get(number, {})) for number in sorted(rounds))


def with_nested(
    call: Called, calls: Sequence[Called], nested: Sequence[Sequence[Event]] | None, run_id: str
) -> Call:
    """Return the tokens and cost of a call whose end was not recorded.

    The calls of a conductor in one step continue the same nested run. Part of the cost of the nested run may
    belong to no call with a recorded end. The first call without a recorded end gets this part; further such
    calls get no cost.

    Args:
        call: the call.
        calls: all calls of its run.
        nested: the events of that run's nested runs, at any depth; `None` if they are unknown.
        run_id: the id of the run.
    """
    if call.reserved.calls or nested is None:
        return call.bill
    place = (run_id, call.round, call.step)
    alike = [c for c in calls if (c.round, c.step) == place[1:] and not c.reserved.calls]
    if call is not next(c for c in alike if c.ended is None):
        return replace(call.bill, usage=Usage(), cost=0.0)
    billed = [c.bill for c in alike if c.ended is not None]
    results = [result_of(events, nested) for events in nested if _parent_of(events)[:3] == place]
    usage = Usage.total(r.usage for r in results) - Usage.total(b.usage for b in billed)
    cost, known = total_cost(r.cost for r in results), total_cost(b.cost for b in billed)
    left = None if cost is None or known is None else max(cost - known, 0.0)
    return replace(call.bill, usage=usage if usage.total_tokens > 0 else Usage(), cost=left)


def _parent_of(events: Sequence[Event]) -> tuple[str, int, int, int]:
    started = events[0]
    assert isinstance(started, RunStarted)
    assert started.parent is not None
    return started.parent


def result_of(events: Sequence[Event], nested: Sequence[Sequence[Event]] | None = None) -> Result:
    """Return the result of a recorded run, or its result so far.

    Args:
        events: the events of the run.
        nested: see `rounds_of`.

    Raises:
        JournalBroken: the first event is not `RunStarted`.
    """
    if not events or not isinstance(events[0], RunStarted):
        raise JournalBroken("the record does not begin with the start of a run")
    rounds = rounds_of(events, nested)
    started, last = events[0], events[-1]
    names = next(e.workers for e in reversed(events) if isinstance(e, RunStarted | RunResumed))
    ended = next((e for e in reversed(events) if isinstance(e, RunEnded)), None)
    own = executions_of((events, *(nested or ())))
    actions = tuple(each.action for each in own if each.counts)
    if ended is not None and (has_ended(events) or ended is last):
        known = {(t.run_id, t.round, t.step) for e in events if isinstance(e, StepEnded) and (t := e.took)}
        others = () if nested else (a for a in ended.result.actions if a.run_id != started.run_id)
        others = (a for a in others if (a.run_id, a.round, a.step) not in known)
        return replace(ended.result, rounds=rounds, workers=names, actions=(*actions, *others))
    problem = last.problem if isinstance(last, RunStopped) else UNFINISHED
    answer, status, _ = conclusion(rounds)
    return Result(
        run_id=started.run_id,
        answer=answer,
        status="failed" if status == "failed" else "partial",
        problem=problem,
        rounds=rounds,
        workers=names,
        actions=actions,
        seconds=max(event.at for event in events),  # a decision on a waiting run has the time of its request
    )


def limits_of(events: Sequence[Event]) -> Limits | None:
    """Return the recorded limits of a run; `None` if none are recorded."""
    said = (event.limits for event in reversed(events) if isinstance(event, RunStarted | RunResumed))
    return next((limits for limits in said if limits is not None), None)


def has_ended(events: Sequence[Event]) -> bool:
    """Return whether the run has ended and was not resumed after that."""
    for event in reversed(events):
        if isinstance(event, RunEnded):
            return event.result.status != "waiting"
        if isinstance(event, RunResumed | RunStopped):
            return False
    return False


def is_undecided(events: Sequence[Event]) -> bool:
    """Return whether the run has stopped to wait for a decision on its plan."""
    return isinstance(events[-1], RunEnded) and bool(waiting_for(events))


def waiting_for(events: Sequence[Event]) -> tuple[ApprovalAsked, ...]:
    """Return the approvals that the run waits for: of its plan, or of actions; empty if it does not wait."""
    asked: dict[tuple[int, int | None], ApprovalAsked] = {}
    for event in events:
        match event:
            case ApprovalAsked():
                asked[event.round, event.step] = event
            case ApprovalGiven():
                asked.pop((event.round, event.step), None)
            case PlanReady():
                asked = {}
            case RunEnded() if event.result.status != "waiting":
                asked = {}
            case StepStarted():
                asked.pop((event.round, None), None)
                asked.pop((event.round, event.step), None)
            case _:
                pass  # no decision
    return tuple(asked.values())


def is_aside(outcome: Outcome) -> bool:
    """Return whether an outcome belongs to no step of the plan: superseded, or interrupted by a crash."""
    return outcome.problem is not None and outcome.problem.code in ("superseded", UNKNOWN.code)


def renumbered(plan: Plan, then: Sequence[str], now: Sequence[str]) -> Plan:
    """Return a plan with the worker numbers of another pool; workers are found by name.

    Raises:
        ConfigError: the pool lacks a worker of the plan.
    """
    if tuple(then) == tuple(now):
        return plan
    gone = {then[step.worker] for step in plan.steps} - set(now)
    if gone:
        told = ", ".join(repr(name) for name in sorted(gone))
        raise ConfigError(f"the run's plan names {told}, which the pool lacks: add a worker with that name")
    return plan.renumbered([now.index(name) if name in now else 0 for name in then])
