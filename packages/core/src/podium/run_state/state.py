"""The state of a run, folded from its events: rounds, spending, actions, result."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from podium.budget.ledger import charge
from podium.budget.limits import Limits, Spend
from podium.errors import ConfigError, JournalBroken
from podium.run_state.actions import Execution, Level, RecordedActions, plan_hash
from podium.types import events as told
from podium.types.events import Event
from podium.types.outcome import Call, Outcome, Problem, Proposal, Round, StepStatus, total_cost, totals
from podium.types.plan import Plan, PlannedBy
from podium.types.result import Result, conclusion
from podium.usage import Usage

Place = tuple[str, Level]
"""The worker that a plan names for a step, and the step itself."""
UNKNOWN = Problem("unknown", "the run was interrupted during the call, which may be billed")
UNFINISHED = Problem("unfinished", "the run has not ended")


@dataclass(slots=True)
class CallState:
    """One call of a step's worker."""

    start: told.StepStarted
    failed: told.AttemptFailed | None = None
    """Its failure, after which the step continues with another call; `None` without one."""
    ended: Outcome | None = None
    """The outcome of its step; `None` if it is not recorded."""

    @property
    def bill(self) -> Call:
        """Its tokens and cost; its reservation if its end is not recorded."""
        number, reserved, outcome = self.start.attempt, self.start.reserved, self.ended
        if self.failed is not None:
            return self.failed.call
        for call in () if outcome is None else outcome.calls:
            if call.attempt == number:
                return call
        if outcome is not None and outcome.attempts == number:
            problem = None if outcome.status == "ok" else outcome.problem
            return Call(attempt=number, worker=outcome.worker, problem=problem, **totals((outcome,)))
        return Call(
            attempt=number,
            worker=self.start.worker,
            problem=UNKNOWN,
            usage=_usage(reserved),
            cost=None if self.nests else reserved.cost,
            maybe_paid=True,
            charged="usage" if self.nests else "reservation",
        )

    @property
    def nests(self) -> bool:
        """Whether it is a call of a conductor, whose nested run counts its own calls."""
        return not self.start.reserved.calls


@dataclass(slots=True)
class StepState:
    """One step of a round, with the calls of all plans of the round."""

    calls: list[CallState] = field(default_factory=list)
    outcome: Outcome | None = None
    """Its latest outcome; `None` without one."""
    end: told.StepEnded | None = None
    """Its latest end; after a superseded step, the end of this step."""
    billed: set[str] = field(default_factory=set)
    """The keys of its ends that have the cost of a call."""
    since: float | None = None
    """When it started, in seconds since the run began; `None` while it does not run."""

    @property
    def status(self) -> StepStatus | Literal["waiting", "running"]:
        """The status of its outcome; `running`, or `waiting` without an outcome."""
        if self.since is not None:
            return "running"
        return "waiting" if self.outcome is None else self.outcome.status

    @property
    def lost(self) -> list[CallState]:
        """The calls whose cost is in no recorded outcome."""
        return [call for call in self.calls if call.ended is None]


@dataclass(slots=True)
class RoundState:
    """One round."""

    number: int
    reason: str | None = None
    """Why the round began; `None` if its start is not recorded."""
    why: str = ""
    """Why the round began, or why it is the last round."""
    ready: told.PlanReady | None = None
    """The plan, with the worker numbers of `RunState.names`."""
    plan_hash: str = ""
    planned: list[told.PlannerEnded] = field(default_factory=list)
    """The calls of planners; of a call without a recorded end, the problem is `UNKNOWN`."""
    approval: told.ApprovalAsked | told.ApprovalGiven | None = None
    """The latest request or decision, also on an action."""
    is_asked: bool = False
    """Whether the plan needed an approval."""
    decision: told.ApprovalGiven | None = None
    """The decision on the plan; a changed plan has the worker numbers of `RunState.names`."""
    steps: dict[int, StepState] = field(default_factory=dict)
    """By index; the call that judges the answer follows the last step of the plan."""
    replaced: list[Outcome] = field(default_factory=list)
    """The outcomes that are no longer outcomes of a step of the plan."""

    @property
    def proposals(self) -> list[Proposal]:
        """The calls of planners, as in the result."""
        return [each.proposal for each in self.planned]

    def step(self, index: int) -> StepState:
        """Return a step; add it if it is missing."""
        return self.steps.setdefault(index, StepState())

    def place(self, event: told.StepStarted | told.StepEnded, worker: str, names: Sequence[str]) -> Place:
        """Return the place of a step, whose call was one of `worker`."""
        steps = () if self.ready is None else self.ready.plan.steps
        own = names[steps[event.step].worker] if event.step < len(steps) else worker
        return own, Level(event.run_id, event.round, event.step, self.plan_hash)


@dataclass(slots=True)
class RunState:
    """The state of one run."""

    run_id: str = ""
    started: told.RunStarted | None = None
    workers: tuple[str, ...] = ()
    """The workers of the latest pool."""
    names: list[str] = field(default_factory=list)
    """The workers of all pools."""
    limits: Limits | None = None
    """The recorded limits; `None` if none are recorded."""
    rounds: dict[int, RoundState] = field(default_factory=dict)
    planning: told.PlannerStarted | None = None
    """The call of a planner that has not ended."""
    ends: list[told.StepEnded] = field(default_factory=list)
    settled: int = 0
    """How many of `ends` there were when the run last ended or stopped, pauses left out."""
    is_planned: bool = False
    """Whether there is a plan that is newer than the last end of the run, pauses left out."""
    asked: dict[tuple[int, int | None], told.ApprovalAsked] = field(default_factory=dict)
    """The approvals that the run waits for, by round and step."""
    approvals: dict[tuple[int, int, str], told.ApprovalGiven | None] = field(default_factory=dict)
    """By round, step and `Action.key`: the latest decision on an action; `None` if nobody has decided."""
    end: told.RunEnded | told.RunStopped | None = None
    """The end; `None` if the run has not ended, or was resumed."""
    last: Event | None = None
    at: float = 0.0
    """Its duration so far, in seconds, without interruptions."""
    actions: RecordedActions = field(default_factory=RecordedActions)
    nested: Sequence["RunState"] | None = None
    """Its nested runs, at any depth; `None` if they are unknown."""
    _spends: list[Spend] = field(default_factory=list)
    """The spending of planners, and of runs that the code of workers started."""
    _inner_steps: int = 0
    """The steps of those runs."""

    def take(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each event
        """Change the state by the next event of the run."""
        self.run_id, self.last, self.at = event.run_id, event, max(self.at, event.at)
        match event:
            case told.RunStarted() | told.RunResumed():
                self.started = event if isinstance(event, told.RunStarted) else self.started
                self.workers, self.limits, self.end = event.workers, event.limits or self.limits, None
                self.names += [name for name in event.workers if name not in self.names]
                self._interrupt()
            case told.RoundStarted():
                current = self.round(event.round)
                current.reason = current.why = event.why
            case told.PlannerStarted():
                self._end_planning(None)
                self.planning = event
            case told.PlannerEnded():
                self._end_planning(event)
            case told.PlanReady():
                self._take_plan(event)
            case told.ApprovalAsked():
                current = self.round(event.round)
                self.asked[event.round, event.step] = current.approval = event
                current.is_asked |= event.step is None
                if event.step is not None:
                    self.approvals.setdefault((event.round, event.step, event.action), None)
            case told.ApprovalGiven():
                current = self.round(event.round)
                current.approval = event
                self.asked.pop((event.round, event.step), None)
                if event.step is not None:
                    self.approvals[event.round, event.step, event.action] = event
                else:
                    plan = event.plan and renumbered(event.plan, self.workers, self.names)
                    current.decision = replace(event, plan=plan)
            case told.StepStarted():
                self._start_step(event)
            case told.AttemptFailed():
                self.actions.fail(event)
                for call in self.round(event.round).step(event.step).lost:
                    if call.start.attempt == event.attempt and call.failed is None:
                        call.failed = event
            case told.StepEnded():
                self._end_step(event)
            case told.ActionDecided():
                self.actions.decide(event)
            case told.WorkerRunEnded():  # the call that started the run has its tokens and cost
                self.actions.end_run(event)
                self._spends.append(Spend(event.calls))
                self._inner_steps += event.steps
            case told.RunEnded() if event.result.status == "waiting":
                self.end = event
            case told.RunEnded():
                self.end, self.settled, self.is_planned = event, len(self.ends), False
                self.asked.clear()
            case told.RunStopped():
                self.end, self.settled = event, len(self.ends)
                self._interrupt()
            case told.NestedRunEnded() | told.PlanDelta() | told.StepDelta() | told.AnswerDelta():
                pass
            case _:
                assert_never(event)

    def round(self, number: int) -> RoundState:
        """Return a round; add it if it is missing."""
        return self.rounds.setdefault(number, RoundState(number))

    def _interrupt(self) -> None:
        """End the call of a planner, which counts with its reservation, and stop the steps."""
        self._end_planning(None)
        for current in self.rounds.values():
            for step in current.steps.values():
                step.since = None

    def _end_planning(self, event: told.PlannerEnded | None) -> None:
        """End the call of a planner; with `None`, its end was not recorded."""
        if (begun := self.planning) is not None:
            event = event or _unseen(begun)
            done, self.planning = event.proposal, None
            self._spends.append(charge(begun.reserved, done.usage, done.cost, done.charged))
        if event is not None:
            self.round(event.round).planned.append(event)

    def _take_plan(self, event: told.PlanReady) -> None:
        current, plan = self.round(event.round), renumbered(event.plan, self.workers, self.names)
        decision, before = current.decision, current.ready
        if decision is not None and plan != (decision.plan or (before and before.plan)):
            current.decision = None  # it was about another plan
        current.ready, current.plan_hash = replace(event, plan=plan), plan_hash(plan, self.names)
        if not plan.steps and current.why and event.why.startswith(current.why):
            current.why = event.why
        for index, step in sorted(current.steps.items()):
            if index >= len(plan.steps):
                current.replaced += [] if step.outcome is None else [step.outcome]
                step.outcome = step.since = None
        self.asked.clear()
        self.is_planned = True

    def _start_step(self, event: told.StepStarted) -> None:
        current = self.round(event.round)
        step = current.step(event.step)
        for call in step.lost:
            if call.failed is None and call.start.attempt == event.attempt:
                step.calls.remove(call)  # a changed plan may begin the attempts again
        step.calls.append(CallState(event))
        step.since = event.at if step.since is None else step.since
        self.actions.start(event, *current.place(event, event.worker, self.names))
        self.asked.pop((event.round, None), None)
        self.asked.pop((event.round, event.step), None)

    def _end_step(self, event: told.StepEnded) -> None:
        current, outcome = self.round(event.round), event.outcome
        step, before = current.step(event.step), current.step(event.step).outcome
        step.end = event
        self.ends.append(event)
        if outcome.attempts:
            step.billed.add(event.key)
        billed = {call.attempt for call in outcome.calls}
        for call in step.lost:
            # A superseded step may end after the step that replaces it has started.
            number = call.start.attempt
            if call.failed is not None or number <= outcome.attempts or number in billed:
                call.ended = outcome
        code = "" if outcome.problem is None else outcome.problem.code
        if code != "superseded" or not step.calls or step.calls[-1].start.attempt <= event.attempt:
            step.since = None
        if is_aside(outcome):
            current.replaced.append(outcome)
        else:
            earlier = (*current.replaced, *([] if before is None else [before]))
            current.replaced = [each for each in earlier if is_aside(each) or not _bills(outcome, each)]
            step.outcome = outcome
        self.actions.end(event, *current.place(event, outcome.worker, self.names))

    @property
    def calls(self) -> Iterator[CallState]:
        """The calls of workers, by round and step."""
        steps = (step for current in self.rounds.values() for step in current.steps.values())
        return (call for step in steps for call in step.calls)

    @property
    def steps(self) -> int:
        """The number of steps that were started, including those of runs that the code of workers started."""
        return len({(call.start.round, call.start.step) for call in self.calls}) + self._inner_steps

    @property
    def waiting(self) -> tuple[told.ApprovalAsked, ...]:
        """The approvals that the run waits for: of its plan, or of actions; empty if it does not wait."""
        return tuple(self.asked.values())

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended and was not resumed after that; a run that waits has not ended."""
        return isinstance(self.end, told.RunEnded) and self.end.result.status != "waiting"

    @property
    def is_undecided(self) -> bool:
        """Whether the run has stopped to wait for a decision."""
        return isinstance(self.last, told.RunEnded) and bool(self.asked)

    @property
    def parent(self) -> tuple[str, int, int, int]:
        """Run, round, step and attempt that started the run; the run is empty if a user started it."""
        return (self.started and self.started.parent) or ("", 0, 0, 0)

    def spent(self) -> list[Spend]:
        """Return the spending of each call; a call without a recorded end counts with its reservation."""
        planning = [] if self.planning is None else [self.planning.reserved]
        own = ((call.start.reserved, call.bill) for call in self.calls if not call.nests)
        charged = (charge(reserved, bill.usage, bill.cost, bill.charged) for reserved, bill in own)
        return [*self._spends, *planning, *charged]

    def bill_of(self, step: StepState, call: CallState) -> Call:
        """Return the tokens and cost of a call whose end may not be recorded.

        The calls of a conductor in one step continue the same nested run. Part of the cost of the nested run
        may belong to no call with a recorded end. The first call without a recorded end gets this part.
        """
        if call.ended is not None or not call.nests or self.nested is None:
            return call.bill
        alike = [other for other in step.calls if other.nests]
        if call is not next(other for other in alike if other.ended is None):
            return replace(call.bill, usage=Usage(), cost=0.0)
        billed = [other.bill for other in alike if other.ended is not None]
        place = (self.run_id, call.start.round, call.start.step)
        results = [each.result() for each in self.nested if each.parent[:3] == place]
        usage = Usage.total(r.usage for r in results).beyond(Usage.total(b.usage for b in billed))
        cost, known = total_cost(r.cost for r in results), total_cost(b.cost for b in billed)
        left = None if cost is None or known is None else max(cost - known, 0.0)
        return replace(call.bill, usage=usage, cost=left)

    def rounds_so_far(self) -> tuple[Round, ...]:
        """Return the rounds; their plans have the worker numbers of the latest pool.

        Raises:
            ConfigError: the latest pool lacks a worker of a plan.
        """
        return tuple(self._round(self.rounds[number]) for number in sorted(self.rounds))

    def _round(self, current: RoundState) -> Round:
        number, ready, planned = current.number, current.ready, current.planned
        if self.planning is not None and self.planning.round == number:
            planned = [*planned, _unseen(self.planning)]
        plan = None if ready is None else renumbered(ready.plan, self.names, self.workers)
        steps = sorted(current.steps.items())
        lost = {index: [self.bill_of(step, call) for call in step.lost] for index, step in steps}
        own = {index: step.outcome for index, step in steps if step.outcome is not None}
        outcomes = [*own.values()]
        if plan is not None:
            names = [self.workers[step.worker] for step in plan.steps]
            outcomes = [
                own.get(index) or _with_calls((number, index), name, UNFINISHED, lost.pop(index, ()))
                for index, name in enumerate(names)
            ]
        aside = outcomes_of_lost({(number, index): calls for index, calls in lost.items()})
        return Round(
            number=number,
            plan=plan,
            planner=None if ready is None else PlannedBy(ready.planner, ready.why, ready.is_fallback),
            proposals=tuple(each.proposal for each in planned),
            outcomes=(*outcomes, *current.replaced, *aside),
            why=current.why,
            check=None if plan is None else own.get(len(plan.steps)),
        )

    def result(self) -> Result:
        """Return the result, or the result so far.

        Raises:
            ConfigError: the latest pool lacks a worker of a plan.
            JournalBroken: the start of the run is missing.
        """
        if self.started is None or self.last is None:
            raise JournalBroken("the record does not begin with the start of a run")
        rounds = self.rounds_so_far()
        actions = tuple(each.action for each in self.executions() if each.counts)
        if isinstance(self.end, told.RunEnded) and (self.has_ended or self.end is self.last):
            for action in () if self.nested else self.end.result.actions:
                if (
                    action.run_id != self.run_id
                    and (action.run_id, action.round, action.step) not in self.actions.taken
                ):
                    actions = (*actions, action)
            return replace(self.end.result, rounds=rounds, workers=self.workers, actions=actions)
        answer, status, _ = conclusion(rounds)
        return Result(
            run_id=self.run_id,
            answer=answer,
            status="failed" if status == "failed" else "partial",
            problem=self.last.problem if isinstance(self.last, told.RunStopped) else UNFINISHED,
            rounds=rounds,
            workers=self.workers,
            actions=actions,
            seconds=self.at,  # a decision on a waiting run has the time of its request
        )

    def executions(self) -> list[Execution]:
        """Return the recorded actions of the run and its nested runs, for an action log."""
        family = (self, *(self.nested or ()))
        return RecordedActions.of_family({each.run_id: (each.actions, each.parent) for each in family})


def fold(events: Iterable[Event], nested: Iterable[Iterable[Event]] | None = None) -> RunState:
    """Return the state of a run after these events.

    Args:
        events: the events of the run.
        nested: the events of its nested runs, at any depth. They give the cost of a call of a nested
            conductor whose end was not recorded. With `None`, these events and such costs are unknown.
    """
    state = RunState()
    for event in events:
        state.take(event)
    if nested is not None:
        state.nested = [fold(each) for each in nested]
        for each in state.nested:
            each.nested = state.nested
    return state


def is_aside(outcome: Outcome) -> bool:
    """Return whether an outcome belongs to no step of the plan: superseded, or interrupted by a crash."""
    return outcome.problem is not None and outcome.problem.code in ("superseded", UNKNOWN.code)


def outcomes_of_lost(lost: Mapping[tuple[int, int], Sequence[Call]]) -> list[Outcome]:
    """Return an outcome for the calls, by round and step, of steps that did not run again."""
    return [_with_calls(place, calls[-1].worker, UNKNOWN, calls) for place, calls in lost.items() if calls]


def renumbered(plan: Plan, then: Sequence[str], now: Sequence[str]) -> Plan:
    """Return a plan with the worker numbers of another pool; workers are found by name.

    Raises:
        ConfigError: the pool lacks a worker of the plan.
    """
    if tuple(then) == tuple(now):
        return plan
    if gone := {then[step.worker] for step in plan.steps} - set(now):
        names = ", ".join(repr(name) for name in sorted(gone))
        raise ConfigError(f"the run's plan names {names}, which the pool lacks: add a worker with that name")
    return plan.renumbered([now.index(name) if name in now else 0 for name in then])


def _bills(outcome: Outcome, before: Outcome) -> bool:
    """Return whether an outcome includes all calls of an earlier outcome of its step."""
    calls = before.calls or ((before.as_call(),) if before.attempts else ())
    known = {(call.attempt, call.usage, call.cost) for call in outcome.calls}
    is_known = all((call.attempt, call.usage, call.cost) in known for call in calls)
    return before.step == outcome.step and before.status != "ok" and is_known


def _with_calls(place: tuple[int, int], worker: str, problem: Problem, calls: Sequence[Call]) -> Outcome:
    bare = Outcome(round=place[0], step=place[1], worker=worker, status="cancelled", problem=problem)
    return replace(bare, calls=tuple(calls), **totals(calls))


def _unseen(start: told.PlannerStarted) -> told.PlannerEnded:
    """Return the end of a planner's call that was not recorded; its cost is its reservation."""
    cost = start.reserved.cost
    proposal = Proposal(
        planner=start.planner,
        text="",
        problem=UNKNOWN,
        usage=_usage(start.reserved),
        cost=cost,
        maybe_paid=cost != 0,
        charged="reservation",
    )
    return told.PlannerEnded(run_id=start.run_id, at=start.at, round=start.round, proposal=proposal)


def _usage(reserved: Spend) -> Usage:
    tokens = (reserved.input_tokens, reserved.output_tokens)
    return Usage(*tokens, estimated=True) if any(tokens) else Usage()
