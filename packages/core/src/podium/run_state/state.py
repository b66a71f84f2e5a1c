"""The state of a run, folded from its events: rounds, spending, actions, result."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from podium.budget.ledger import charge
from podium.budget.limits import Limits, Spend
from podium.errors import ConfigError, JournalBroken
from podium.run_state.actions import Execution, Level, Path, plan_hash
from podium.run_state.round_state import (
    UNKNOWN,
    CallState,
    RecordedStep,
    RoundState,
    reserved_usage,
    superseded,
)
from podium.types import events as told
from podium.types.events import Event
from podium.types.outcome import (
    Action,
    Call,
    Outcome,
    Problem,
    Proposal,
    Round,
    total_cost,
    totals,
)
from podium.types.plan import Plan
from podium.types.result import Result, conclusion
from podium.types.steps import plan_step, positions, static_place, worker_of
from podium.usage import Usage

UNFINISHED = Problem("unfinished", "the run has not ended")


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
    approvals: dict[tuple[int, int, str], told.ApprovalGiven | told.ApprovalAsked] = field(
        default_factory=dict
    )
    """By round, step and `Action.key`: the latest decision on an action, or the answer to a question; what
    was asked first if nobody has decided."""
    end: told.RunEnded | told.RunStopped | None = None
    """The end; `None` if the run has not ended, or was resumed."""
    last: Event | None = None
    at: float = 0.0
    """Its duration so far, in seconds, without interruptions."""
    begun: list[tuple[str, Execution]] = field(default_factory=list)
    """The actions, each with the id of the run that a worker's code started; empty for the run's own."""
    latest: dict[tuple[int, int], Execution] = field(default_factory=dict)
    """The latest action of each round and step."""
    taken: dict[tuple[str, int, int], Execution] = field(default_factory=dict)
    """The actions that steps took because equal ones had begun, by their run, round and step."""
    placed: list[tuple[int, Execution]] = field(default_factory=list)
    """The actions that have the places of steps of the current plans, with the rounds of the plans."""
    called: dict[tuple[int, int, int], tuple[str, Level]] = field(default_factory=dict)
    """By round, step and attempt, which a changed plan may begin again: the worker and its step."""
    nested: Sequence["RunState"] | None = None
    """Its nested runs, at any depth; `None` if they are unknown."""
    _spends: list[Spend] = field(default_factory=list)
    """The spending of planners, and of runs that the code of workers started."""
    _unanswered: list[tuple[int, int, str]] = field(default_factory=list)
    """The keys in `approvals` of the questions without an answer."""
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
                self.placed.clear()
                for current in self.rounds.values():
                    current.resume()
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
                    self.approvals.setdefault((event.round, event.step, event.action), event)
            case told.ApprovalGiven():
                current = self.round(event.round)
                current.approval = event
                asked = self.asked.pop((event.round, event.step), None)
                if event.step is not None:
                    self.approvals[event.round, event.step, event.action] = event
                    if asked is not None and asked.question is not None and event.answer is None:
                        self._unanswered.append((event.round, event.step, event.action))
                else:
                    plan = event.plan and for_pool(event.plan, self.workers, self.names)
                    current.decision = replace(event, plan=plan)
            case told.StepStarted():
                self._start_step(event)
            case told.AttemptFailed():
                if (own := self.latest.get((event.round, event.step))) is not None:
                    own.decide(done=False)
                for call in self.round(event.round).step(event.step).lost:
                    if call.start.attempt == event.attempt and call.failed is None:
                        call.failed = event
            case told.StepEnded():
                self._end_step(event)
            case told.ActionDecided():
                self._decide(event)
            case told.WorkerRunEnded():  # the call that started the run has its tokens and cost
                self._end_worker_run(event)
            case told.RunEnded() if event.result.status == "waiting":
                self.end = event
            case told.RunEnded():
                self.end, self.settled, self.is_planned = event, len(self.ends), False
                self.asked.clear()
                while self._unanswered:  # a resumed run asks again
                    self.approvals.pop(self._unanswered.pop())
            case told.RunStopped():
                self.end, self.settled = event, len(self.ends)
                self._interrupt()
            case told.FanOut(kind="items", path=""):
                self.round(event.round).executions(str(event.step)).total = event.known
            case (
                told.FanOut()
                | told.NestedRunEnded()
                | told.PlanDelta()
                | told.StepDelta()
                | told.AnswerDelta()
            ):
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
        current, plan = self.round(event.round), for_pool(event.plan, self.workers, self.names)
        decision, before = current.decision, current.ready
        if decision is not None and plan != (decision.plan or (before and before.plan)):
            current.decision = None  # it was about another plan
        current.ready, current.plan_hash = replace(event, plan=plan), plan_hash(plan, self.names)
        if not plan.steps and current.why and event.why.startswith(current.why):
            current.why = event.why
        earlier = () if before is None else before.plan.steps
        for index, step in sorted(current.steps.items()):
            own = plan_step(step.path) if step.path else index
            is_same = own < len(plan.steps) and earlier[own : own + 1] == plan.steps[own : own + 1]
            if own >= len(plan.steps) or (step.path and not is_same):
                current.replaced += [] if step.outcome is None else [step.outcome]
                step.outcome = step.since = None
                step.end = None if step.path else step.end
                current.inside.pop(own, None)
        self.asked.clear()
        self.placed.clear()
        self.is_planned = True

    def _start_step(self, event: told.StepStarted) -> None:
        current, place = self.round(event.round), (event.round, event.step)
        current.start(event)
        own, level = current.place(event, event.worker, self.names)
        self.called[*place, event.attempt] = event.worker, level
        self.asked.pop((event.round, None), None)
        self.asked.pop(place, None)
        self.latest.pop(place, None)  # it may be an action of a replaced plan
        if event.action:
            action = Action(
                run_id=event.run_id,
                round=event.round,
                step=event.step,
                path=event.path,
                worker=event.worker,
                asked=event.asked,
                key=event.action,
            )
            if event.nests:  # it continues the nested run
                again = [one for one in self._own(*place, event.action) if one.is_nested_run]
                self.begun = [each for each in self.begun if each[1] not in again]
            begun = Execution(action, path=(own,), levels=(level,), is_nested_run=event.nests)
            self.latest[place] = begun
            self.begun.append(("", begun))
            self.placed.append((event.round, begun))

    def _end_step(self, event: told.StepEnded) -> None:
        current, outcome, took = self.round(event.round), event.outcome, event.took
        current.end(event)
        own, level = current.place(event, outcome.worker, self.names)
        self.called.setdefault((event.round, event.step, event.attempt), (outcome.worker, level))
        self.ends.append(event)
        begun = self.latest.get((event.round, event.step)) if outcome.action else None
        if begun is not None and _ends(event, begun):
            begun.end(outcome)
        if took is None:
            return
        here = replace(took, run_id=event.run_id, round=event.round, step=event.step, path=outcome.path)
        if took.run_id != self.run_id:
            taken = Execution(here, path=(own,), levels=(level,))
            self.taken.setdefault((took.run_id, took.round, took.step), taken).end(outcome)
            return
        for moved in self._own(took.round, took.step, took.key)[-1:]:
            if (event.round, moved) not in self.placed:
                moved.move(here)
                self.placed.append((event.round, moved))
                self.latest[event.round, event.step] = moved

    def _own(self, number: int, step: int, key: str) -> list[Execution]:
        """Return the actions of the run itself in a step; with an empty key, all of them."""
        return [
            each
            for _, each in self.begun
            if (each.action.run_id, each.action.round, each.action.step) == (self.run_id, number, step)
            and key in ("", each.action.key)
        ]

    def _decide(self, event: told.ActionDecided) -> None:
        """Set the end of an action, as a person has said."""
        place = event.round, event.step
        own = self._own(*place, event.action)
        taken = (each for each in self.taken.values() if (each.action.round, each.action.step) == place)
        for each in (*own[-1:], *(each for each in taken if event.action in ("", each.action.key))):
            each.decide(done=event.done)

    def _end_worker_run(self, event: told.WorkerRunEnded) -> None:
        """Add the spending and the actions of a run, of whose actions only the ends are known."""
        self._spends.append(Spend(event.calls))
        self._inner_steps += event.steps
        worker, level = self.caller((event.run_id, event.round, event.step, event.attempt))
        for action in event.actions:
            inner = Level(action.run_id, action.round, action.step, "")
            found = Execution(action, path=(worker, action.worker), levels=(level, inner))
            ended = Outcome(round=action.round, step=action.step, worker=action.worker, status="ok")
            found.outcome = replace(ended, text=action.output, action=action.end)
            if action.end != "done":
                problem = Problem("worker_failed", action.output)
                found.outcome = replace(ended, status="failed", problem=problem, action=action.end)
            self.begun.append((event.nested, found))

    def caller(self, parent: tuple[str, int, int, int]) -> tuple[str, Level]:
        """Return the worker of the call that started a nested run, and the step of the call."""
        return self.called.get(parent[1:], ("", Level(*parent[:3], "")))

    @property
    def calls(self) -> Iterator[CallState]:
        """The calls of workers, by round and step."""
        steps = (step for current in self.rounds.values() for step in current.steps.values())
        return (call for step in steps for call in step.calls)

    @property
    def steps(self) -> int:
        """The number of steps that were started, including those of runs that the code of workers started."""
        own = {
            (start.round, static_place(start.path) or start.step) for start in (c.start for c in self.calls)
        }
        return len(own) + self._inner_steps

    @property
    def waiting(self) -> tuple[told.ApprovalAsked, ...]:
        """The approvals and answers that the run waits for; empty if it does not wait."""
        return tuple(self.asked.values())

    @property
    def waits(self) -> bool:
        """Whether a person may still decide on what the run waits for."""
        return any(not asked.is_late for asked in self.asked.values())

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended and was not resumed after that; a run that waits has not ended."""
        return isinstance(self.end, told.RunEnded) and self.end.result.status != "waiting"

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

    def bill_of(self, step: RecordedStep, call: CallState) -> Call:
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
        plan = None if ready is None else for_pool(ready.plan, self.names, self.workers)
        steps = sorted(current.steps.items())
        lost = {index: [self.bill_of(step, call) for call in step.lost] for index, step in steps}
        own = {index: step.outcome for index, step in steps if step.outcome is not None}
        outcomes = [*own.values()]
        if plan is not None:
            names = [worker_of(step, self.workers) for step in plan.steps]
            outcomes = [
                own.get(index) or _with_calls((number, index), name, UNFINISHED, lost.pop(index, ()))
                for index, name in enumerate(names)
            ]
            parts = [step.outcome for _, step in steps if step.path and step.outcome is not None]
            outcomes += sorted(parts, key=lambda each: positions(each.path))
        paths = {index: step.path for index, step in steps}
        aside = [interrupted((number, index), paths[index], calls) for index, calls in lost.items() if calls]
        return Round(
            number=number,
            plan=plan,
            planner=current.planner,
            proposals=tuple(each.proposal for each in planned),
            outcomes=(*outcomes, *map(superseded, current.replaced), *aside),
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
                place = (action.run_id, action.round, action.step)
                if action.run_id != self.run_id and place not in self.taken:
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
        """Return copies of the actions of the run and its nested runs, with all steps around them."""
        family = {each.run_id: each for each in (self, *(self.nested or ()))}

        def around(run: RunState) -> tuple[Path, tuple[Level, ...]]:
            if (outer := family.get(run.parent[0])) is None:
                return (), ()
            (path, levels), (worker, level) = around(outer), outer.caller(run.parent)
            return (*path, worker), (*levels, level)

        begun, taken = list[Execution](), list[Execution]()
        for each in family.values():
            place = around(each)
            begun += [one.inside(*place) for run_id, one in each.begun if run_id not in family]
            taken += [one.inside(*place) for at, one in each.taken.items() if at[0] not in family]
        return [*begun, *taken]


def _ends(event: told.StepEnded, begun: Execution) -> bool:
    """Return whether the end of a step ends an action, which may be of an earlier plan."""
    outcome = event.outcome
    if not outcome.reused:
        return bool(event.attempt)
    is_same = event.took is None and event.key in ("", begun.action.key)
    is_end = bool(event.attempt) or outcome.action in ("done", "not_done")  # a person may have edited it
    return is_same and is_end and begun.is_decided_by(outcome)


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


def interrupted(place: tuple[int, int], path: str, calls: Sequence[Call]) -> Outcome:
    """Return an outcome for the calls of a step that did not run again."""
    return replace(_with_calls(place, calls[-1].worker, UNKNOWN, calls), path=path)


def for_pool(plan: Plan, then: Sequence[str], now: Sequence[str]) -> Plan:
    """Return a plan with the worker numbers of another pool; workers are found by name.

    Raises:
        ConfigError: the pool lacks a worker of the plan.
    """
    if tuple(then) == tuple(now):
        return plan
    if gone := {then[step.worker] for step in plan.calls} - set(now):
        names = ", ".join(repr(name) for name in sorted(gone))
        raise ConfigError(f"the run's plan names {names}, which the pool lacks: add a worker with that name")
    return plan.renumbered([now.index(name) if name in now else 0 for name in then])


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
        usage=reserved_usage(start.reserved),
        cost=cost,
        maybe_paid=cost != 0,
        charged="reservation",
    )
    return told.PlannerEnded(run_id=start.run_id, at=start.at, round=start.round, proposal=proposal)
