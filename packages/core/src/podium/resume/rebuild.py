"""Rebuilds the rounds and the result of a run from its recorded events.

It reads events and knows no database. `reuse` says what a resumed run does with them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from podium.errors import ConfigError, JournalBroken
from podium.types.conclusion import conclusion
from podium.types.events import (
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
)
from podium.types.outcome import Outcome, PlannedBy, Problem, Proposal, Round
from podium.types.plan import Plan
from podium.types.result import Result

UNKNOWN = Problem("unknown", "the run broke off while the call was under way; it may have been paid for")
UNFINISHED = Problem("unfinished", "the run has not come to its end")


@dataclass(slots=True)
class _Round:
    """A round, as far as its events have been read."""

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
        if is_superseded(outcome):
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
            planner=self.planner,
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


def rounds_of(events: Iterable[Event]) -> tuple[Round, ...]:  # noqa: C901 - one case for each event
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
            case (
                ApprovalAsked()
                | ApprovalGiven()
                | StepStarted()
                | AttemptFailed()
                | NestedRunEnded()
                | RunEnded()
                | RunStopped()
            ):
                pass  # no part of a round
            case PlanDelta() | StepDelta() | AnswerDelta():
                pass  # never recorded
            case _:
                assert_never(event)
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
    if ended is not None and (has_ended(events) or ended is last):
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


def is_undecided(events: Sequence[Event]) -> bool:
    """Say whether the run rests until someone has decided on its plan."""
    return isinstance(events[-1], RunEnded) and waiting_for(events) is not None


def waiting_for(events: Sequence[Event]) -> ApprovalAsked | None:
    """Return what the run waits for; `None` if it waits for no decision."""
    for event in reversed(events):
        if isinstance(event, ApprovalAsked):
            return event
        if isinstance(event, ApprovalGiven | PlanReady | StepStarted):
            return None
    return None


def _broken_off(start: PlannerStarted) -> Proposal:
    free = start.reserved.cost == 0
    return Proposal(
        planner=start.planner, text="", problem=UNKNOWN, cost=0.0 if free else None, maybe_paid=not free
    )


def is_superseded(outcome: Outcome) -> bool:
    """Say whether a step was stopped for a new plan."""
    return outcome.problem is not None and outcome.problem.code == "superseded"


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
