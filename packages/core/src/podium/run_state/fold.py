"""The state of a run, folded from its events: rounds, spending, actions, result."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from podium.budget.ledger import charge
from podium.budget.limits import Limits, Spend
from podium.errors import ConfigError, JournalBroken
from podium.run_state.action_log import Execution, Level, Path, plan_hash
from podium.types import events as told
from podium.types.events import Event
from podium.types.outcome import (
    Action,
    Call,
    Outcome,
    Problem,
    Proposal,
    Round,
    StepStatus,
    total_cost,
    totals,
)
from podium.types.plan import Plan, PlannedBy
from podium.types.result import Result, conclusion
from podium.usage import Usage

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
        start, outcome = self.start, self.ended
        if self.failed is not None:
            return self.failed.call
        for call in () if outcome is None else outcome.calls:
            if call.attempt == start.attempt:
                return call
        if outcome is None or outcome.attempts != start.attempt:
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

    @property
    def nests(self) -> bool:
        """Whether it is a call of a conductor, whose nested run counts its own calls."""
        return not self.start.reserved.calls


@dataclass(slots=True)
class StepState:
    """One step, with the calls and outcomes of all plans of its round."""

    calls: list[CallState] = field(default_factory=list)
    outcome: Outcome | None = None
    """Its latest outcome; `None` without one."""
    end: told.StepEnded | None = None
    """Its latest end, also of a superseded step."""
    billed: set[str] = field(default_factory=set)
    """The keys of its ends that have the cost of a call."""
    since: float | None = None
    """When it started, in seconds since the run began; `None` while it does not run."""

    @property
    def status(self) -> StepStatus | Literal["waiting", "running"]:
        """The status of its outcome, or `waiting` or `running` without one."""
        if self.since is not None:
            return "running"
        return "waiting" if self.outcome is None else self.outcome.status

    @property
    def lost(self) -> list[CallState]:
        """The calls whose cost is in no outcome."""
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
    is_asked: bool = False
    """Whether the plan needed an approval."""
    decision: told.ApprovalGiven | None = None
    """The decision on the plan, which has the worker numbers of `RunState.names`."""
    steps: dict[int, StepState] = field(default_factory=dict)
    """By index; a worker that judges the answer follows the last step of the plan."""
    replaced: list[Outcome] = field(default_factory=list)
    """The outcomes that are no longer outcomes of a step of the plan."""

    def step(self, index: int) -> StepState:
        """Return a step; add it if it is missing."""
        return self.steps.setdefault(index, StepState())


@dataclass(slots=True)
class RunState:
    """The state of one run after the events that it has taken."""

    run_id: str = ""
    started: told.RunStarted | None = None
    workers: tuple[str, ...] = ()
    """The names of the latest pool's workers."""
    names: list[str] = field(default_factory=list)
    """The names of the workers of all pools."""
    limits: Limits | None = None
    """The recorded limits; `None` without any."""
    rounds: dict[int, RoundState] = field(default_factory=dict)
    planning: told.PlannerStarted | None = None
    """The call of a planner that has not ended."""
    ends: list[told.StepEnded] = field(default_factory=list)
    """The ends of steps, in order."""
    settled: int = 0
    """How many of them were recorded when the run last ended or stopped, without pauses."""
    is_planned: bool = False
    """Whether a plan was made after the run last ended, without pauses."""
    approvals: dict[tuple[int, int, str], told.ApprovalGiven | None] = field(default_factory=dict)
    """By round, step and `Action.key`: the latest decision on an action; `None` if nobody has decided."""
    asked: dict[tuple[int, int | None], told.ApprovalAsked] = field(default_factory=dict)
    end: told.RunEnded | told.RunStopped | None = None
    """The end; `None` if the run has not ended, or was resumed."""
    last: Event | None = None
    at: float = 0.0
    """Its duration so far, in seconds, without interruptions."""
    nested: Sequence["RunState"] | None = None
    """Its nested runs, at any depth; `None` if they are unknown."""
    _spends: list[Spend] = field(default_factory=list)
    """The spending of planners, and of runs that the code of workers started."""
    _inner_steps: int = 0
    _called: dict[tuple[int, int, int], tuple[str, Level]] = field(default_factory=dict)
    """By round, step and attempt: the worker; a changed plan may begin a step's attempts again."""
    actions: list[tuple[str, Execution]] = field(default_factory=list)
    """The actions, each after the id of the run that a worker's code started, empty for the run's own."""
    _acting: dict[tuple[int, int], Execution] = field(default_factory=dict)
    """The latest action of each step."""
    taken: dict[tuple[str, int, int], Execution] = field(default_factory=dict)
    """The actions that steps took because equal ones had begun, by their run, round and step."""

    def take(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each event
        """Change the state by the next event of the run."""
        self.run_id, self.last, self.at = event.run_id, event, max(self.at, event.at)
        match event:
            case told.RunStarted() | told.RunResumed():
                if isinstance(event, told.RunStarted):
                    self.started = event
                self._lose_planning()
                self._stop_steps()
                self.workers, self.end = event.workers, None
                self.names += [name for name in event.workers if name not in self.names]
                self.limits = event.limits or self.limits
            case told.RoundStarted():
                current = self.round(event.round)
                current.reason = current.why = event.why
            case told.PlannerStarted():
                self._lose_planning()
                self.planning = event
            case told.PlannerEnded():
                done, begun = event.proposal, self.planning
                if begun is not None:
                    self._spends.append(charge(begun.reserved, done.usage, done.cost, done.charged))
                self.planning = None
                self.round(event.round).planned.append(event)
            case told.PlanReady():
                self._take_plan(event)
            case told.ApprovalAsked():
                self.asked[event.round, event.step] = event
                if event.step is None:
                    self.round(event.round).is_asked = True
                else:
                    self.approvals.setdefault((event.round, event.step, event.action), None)
            case told.ApprovalGiven():
                self.asked.pop((event.round, event.step), None)
                if event.step is None:
                    plan = event.plan and renumbered(event.plan, self.workers, self.names)
                    self.round(event.round).decision = replace(event, plan=plan)
                else:
                    self.approvals[event.round, event.step, event.action] = event
            case told.ActionDecided():
                if (event.round, event.step) in self._acting:
                    self._acting[event.round, event.step].decide(done=event.done)
                for each in self.taken.values():
                    if (each.action.round, each.action.step) == (event.round, event.step):
                        each.decide(done=event.done)
            case told.StepStarted():
                self._start_step(event)
            case told.AttemptFailed():
                if (event.round, event.step) in self._acting:  # it did not reach the worker
                    self._acting[event.round, event.step].decide(done=False)
                for call in self.round(event.round).step(event.step).lost:
                    if call.start.attempt == event.attempt and call.failed is None:
                        call.failed = event
            case told.StepEnded():
                self._end_step(event)
            case told.WorkerRunEnded():  # the call that started the run has its tokens and cost
                self._spends.append(Spend(event.calls))
                self._inner_steps += event.steps
                worker, level = self.called_at(event.round, event.step, event.attempt)
                for action in event.actions:
                    self.actions.append((event.nested, _of_other_run(action, worker, level)))
            case told.RunEnded() | told.RunStopped():
                self._end(event)
            case told.NestedRunEnded() | told.PlanDelta() | told.StepDelta() | told.AnswerDelta():
                pass
            case _:
                assert_never(event)

    def round(self, number: int) -> RoundState:
        """Return a round; add it if it is missing."""
        return self.rounds.setdefault(number, RoundState(number))

    def _lose_planning(self) -> None:
        """End a planner's call whose end was not recorded; it counts with its reservation."""
        if self.planning is not None:
            self.round(self.planning.round).planned.append(_unseen_planning(self.planning))
            self._spends.append(self.planning.reserved)
            self.planning = None

    def _stop_steps(self) -> None:
        for current in self.rounds.values():
            for step in current.steps.values():
                step.since = None

    def _take_plan(self, event: told.PlanReady) -> None:
        current, plan = self.round(event.round), renumbered(event.plan, self.workers, self.names)
        decision, before = current.decision, current.ready
        if decision is not None and plan != (decision.plan or (before and before.plan)):
            current.decision = None  # the plan has changed since
        current.ready, current.plan_hash = replace(event, plan=plan), plan_hash(plan, self.names)
        if not plan.steps and current.why and event.why.startswith(current.why):
            current.why = event.why
        for index, step in sorted(current.steps.items()):
            if index >= len(plan.steps) and step.outcome is not None:
                current.replaced.append(step.outcome)
                step.outcome = None
        self.asked.clear()
        self.is_planned = True

    def _start_step(self, event: told.StepStarted) -> None:
        step = self.round(event.round).step(event.step)
        # A changed plan may begin the attempts again.
        step.calls = [call for call in step.calls if not _is_again(call, event)]
        step.calls.append(CallState(event))
        step.since = event.at if step.since is None else step.since
        own, level = self._note_call(event, event.worker)
        if event.action:
            action = Action(
                run_id=event.run_id,
                round=event.round,
                step=event.step,
                worker=event.worker,
                asked=event.asked,
                key=event.action,
            )
            begun = Execution(action, path=(own,), levels=(level,), is_nested_run=event.nests)
            self._acting[event.round, event.step] = begun
            self.actions.append(("", begun))
        self.asked.pop((event.round, None), None)
        self.asked.pop((event.round, event.step), None)

    def _end_step(self, event: told.StepEnded) -> None:
        current, outcome = self.round(event.round), event.outcome
        step = current.step(event.step)
        self.ends.append(event)
        step.end = event
        if outcome.attempts:
            step.billed.add(event.key)
        named = {call.attempt for call in outcome.calls}
        for call in step.lost:
            # A superseded step may end after the step that replaces it has started.
            number = call.start.attempt
            if call.failed is not None or number <= outcome.attempts or number in named:
                call.ended = outcome
        if not is_superseded(outcome) or not step.calls or step.calls[-1].start.attempt <= event.attempt:
            step.since = None
        if is_aside(outcome):
            current.replaced.append(outcome)
        else:
            if step.outcome is not None and not _bills(outcome, step.outcome):
                current.replaced.append(step.outcome)
            step.outcome = outcome
        own, level = self._note_call(event, outcome.worker)
        if outcome.action and event.attempt:
            begun = self._acting.get((event.round, event.step))
            if begun is not None and (not outcome.reused or begun.action.end == "unknown"):
                begun.end(outcome)  # a host may have stored the end that the record lacks
        if (took := event.took) is not None:
            here = replace(took, run_id=event.run_id, round=event.round, step=event.step)
            taken = Execution(here, path=(own,), levels=(level,))
            self.taken.setdefault((took.run_id, took.round, took.step), taken).end(outcome)

    def _end(self, event: told.RunEnded | told.RunStopped) -> None:
        self.end = event
        if isinstance(event, told.RunEnded) and event.result.status == "waiting":
            return
        self.settled = len(self.ends)
        if isinstance(event, told.RunStopped):
            self._stop_steps()
        else:
            self.is_planned = False
            self.asked.clear()

    def _note_call(self, event: told.StepStarted | told.StepEnded, worker: str) -> tuple[str, Level]:
        """Note the worker of a call; return the worker that the plan names, and the level of the step."""
        current = self.round(event.round)
        steps = () if current.ready is None else current.ready.plan.steps
        own = self.names[steps[event.step].worker] if event.step < len(steps) else worker
        level = Level(event.run_id, event.round, event.step, current.plan_hash)
        place = (event.round, event.step, event.attempt)
        if isinstance(event, told.StepStarted) or place not in self._called:
            self._called[place] = worker, level
        return own, level

    def called_at(self, number: int, step: int, attempt: int) -> tuple[str, Level]:
        """Return the worker of a call, and its step."""
        unknown = "", Level(self.run_id, number, step, "")
        return self._called.get((number, step, attempt), unknown)

    @property
    def calls(self) -> Iterator[CallState]:
        """The calls of workers, by round and step."""
        steps = (step for current in self.rounds.values() for step in current.steps.values())
        return (call for step in steps for call in step.calls)

    @property
    def steps(self) -> int:
        """The number of steps that were started, including those of runs that the code of workers started."""
        rounds = self.rounds.values()
        own = sum(bool(step.calls) for current in rounds for step in current.steps.values())
        return own + self._inner_steps

    @property
    def waiting(self) -> tuple[told.ApprovalAsked, ...]:
        """The approvals that the run waits for: of its plan, or of actions; empty if it does not wait."""
        return tuple(self.asked.values())

    @property
    def is_undecided(self) -> bool:
        """Whether the run has stopped to wait for a decision."""
        return isinstance(self.last, told.RunEnded) and bool(self.asked)

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended and was not resumed after that."""
        return isinstance(self.end, told.RunEnded) and self.end.result.status != "waiting"

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
        usage = Usage.total(r.usage for r in results) - Usage.total(b.usage for b in billed)
        cost, known = total_cost(r.cost for r in results), total_cost(b.cost for b in billed)
        left = None if cost is None or known is None else max(cost - known, 0.0)
        return replace(call.bill, usage=usage if usage.total_tokens > 0 else Usage(), cost=left)

    @property
    def parent(self) -> tuple[str, int, int, int]:
        """Run, round, step and attempt that started the nested run; an empty id for another run."""
        return (self.started and self.started.parent) or ("", 0, 0, 0)

    def rounds_so_far(self) -> tuple[Round, ...]:
        """Return the rounds; their plans have the worker numbers of the latest pool.

        Raises:
            ConfigError: the latest pool lacks a worker of a plan.
        """
        return tuple(self._round(self.rounds[number]) for number in sorted(self.rounds))

    def _round(self, current: RoundState) -> Round:
        number, ready, planned = current.number, current.ready, current.planned
        if self.planning is not None and self.planning.round == number:
            planned = [*planned, _unseen_planning(self.planning)]
        plan = None if ready is None else renumbered(ready.plan, self.names, self.workers)
        steps = sorted(current.steps.items())
        lost = {index: [self.bill_of(step, call) for call in step.lost] for index, step in steps if step.lost}
        own = {index: step.outcome for index, step in steps if step.outcome is not None}
        outcomes = list(own.values())
        if plan is not None:
            workers = [self.workers[step.worker] for step in plan.steps]
            outcomes = [
                own.get(index) or _with_calls((number, index), worker, UNFINISHED, lost.pop(index, ()))
                for index, worker in enumerate(workers)
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
            JournalBroken: the first event is not `RunStarted`.
        """
        if self.started is None or self.last is None:
            raise JournalBroken("the record does not begin with the start of a run")
        rounds = self.rounds_so_far()
        actions = tuple(each.action for each in self.executions() if each.counts)
        if isinstance(self.end, told.RunEnded) and (self.has_ended or self.end is self.last):
            result = self.end.result
            others = () if self.nested else (a for a in result.actions if a.run_id != self.run_id)
            others = (a for a in others if (a.run_id, a.round, a.step) not in self.taken)
            return replace(result, rounds=rounds, workers=self.workers, actions=(*actions, *others))
        answer, status, _ = conclusion(rounds)
        return Result(
            run_id=self.run_id,
            answer=answer,
            status="failed" if status == "failed" else "partial",
            problem=self.last.problem if isinstance(self.last, told.RunStopped) else UNFINISHED,
            rounds=rounds,
            workers=self.workers,
            actions=actions,
            seconds=self.at,
        )

    def executions(self) -> list[Execution]:
        """Return the actions of the run and its nested runs.

        An action without a recorded end counts as unknown: the process may have died during the call. The run
        also counts an action of another run that a step takes, as in a replay or the turn after tool calls.
        """
        family = {state.run_id: state for state in (self, *(self.nested or ()))}
        begun, taken = list[Execution](), list[Execution]()
        for state in family.values():
            path, levels = state.around(family)
            begun += [each.inside(path, levels) for run_id, each in state.actions if run_id not in family]
            elsewhere = (each for (run_id, *_), each in state.taken.items() if run_id not in family)
            taken += [each.inside(path, levels) for each in elsewhere]
        return [*begun, *taken]

    def around(self, family: Mapping[str, "RunState"]) -> tuple[Path, tuple[Level, ...]]:
        """Return the workers and the steps that the run is nested in."""
        run_id, *place = self.parent
        outer = family.get(run_id)
        if outer is None:
            return (), ()
        path, levels = outer.around(family)
        worker, level = outer.called_at(*place)
        return (*path, worker), (*levels, level)


def fold(events: Iterable[Event], nested: Iterable[Iterable[Event]] | None = None) -> RunState:
    """Return the state of a run.

    Args:
        events: the events of the run, in order.
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


def is_superseded(outcome: Outcome) -> bool:
    """Return whether the step's plan was replaced."""
    return outcome.problem is not None and outcome.problem.code == "superseded"


def is_aside(outcome: Outcome) -> bool:
    """Return whether an outcome belongs to no step of the plan: superseded, or interrupted by a crash."""
    return outcome.problem is not None and outcome.problem.code in ("superseded", UNKNOWN.code)


def outcomes_of_lost(lost: Mapping[tuple[int, int], Sequence[Call]]) -> list[Outcome]:
    """Return an outcome for the calls of each step that was interrupted and did not run again.

    Args:
        lost: the calls, by round and step.
    """
    return [_with_calls(place, calls[-1].worker, UNKNOWN, calls) for place, calls in lost.items() if calls]


def renumbered(plan: Plan, then: Sequence[str], now: Sequence[str]) -> Plan:
    """Return a plan with the worker numbers of another pool; workers are found by name.

    Raises:
        ConfigError: the pool lacks a worker of the plan.
    """
    if tuple(then) == tuple(now):
        return plan
    gone = {then[step.worker] for step in plan.steps} - set(now)
    if gone:
        names = ", ".join(repr(name) for name in sorted(gone))
        raise ConfigError(f"the run's plan names {names}, which the pool lacks: add a worker with that name")
    return plan.renumbered([now.index(name) if name in now else 0 for name in then])


def _is_again(call: CallState, event: told.StepStarted) -> bool:
    return call.start.attempt == event.attempt and call.failed is None and call.ended is None


def _bills(outcome: Outcome, before: Outcome) -> bool:
    """Return whether an outcome includes all calls of the outcome that it replaces."""
    calls = {call.attempt for call in before.calls} or ({before.attempts} if before.attempts else set[int]())
    return before.status != "ok" and calls <= {call.attempt for call in outcome.calls}


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


def _unseen(start: told.StepStarted) -> Call:
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


def _unseen_planning(start: told.PlannerStarted) -> told.PlannerEnded:
    """Return the end of a planner's call that was not recorded; its cost is its reservation."""
    reserved = start.reserved
    proposal = Proposal(
        planner=start.planner,
        text="",
        problem=UNKNOWN,
        usage=_reserved_usage(reserved),
        cost=reserved.cost,
        maybe_paid=reserved.cost != 0,
        charged="reservation",
    )
    return told.PlannerEnded(run_id=start.run_id, at=start.at, round=start.round, proposal=proposal)


def _reserved_usage(reserved: Spend) -> Usage:
    tokens = (reserved.input_tokens, reserved.output_tokens)
    return Usage(*tokens, estimated=True) if any(tokens) else Usage()


def _of_other_run(action: Action, worker: str, level: Level) -> Execution:
    """Return an action of a run that the code of a worker started, with only its end."""
    inner = Level(action.run_id, action.round, action.step, "")
    found = Execution(action, path=(worker, action.worker), levels=(level, inner))
    is_done = action.end == "done"
    found.outcome = Outcome(
        round=action.round,
        step=action.step,
        worker=action.worker,
        status="ok" if is_done else "failed",
        text=action.output if is_done else "",
        problem=None if is_done else Problem("worker_failed", action.output),
        action=action.end,
    )
    return found
