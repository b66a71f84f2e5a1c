"""What is recorded of one round: its plan, its planner calls, and the calls of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from podium.budget.limits import Spend
from podium.run_state.actions import Level, shared_name
from podium.types import events as told
from podium.types.executions import Executions
from podium.types.outcome import Call, Outcome, Problem, Proposal, StepStatus, totals
from podium.types.plan import PlannedBy
from podium.types.steps import Step, plan_step
from podium.usage import Usage

UNKNOWN = Problem("unknown", "the run was interrupted during the call, which may be billed")


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
            usage=reserved_usage(reserved),
            cost=None if self.nests else reserved.cost,
            maybe_paid=True,
            charged="reservation" if reserved.output_tokens or reserved.cost else "usage",
        )

    @property
    def nests(self) -> bool:
        """Whether it is a call of a conductor, whose nested run counts its own calls."""
        return not self.start.reserved.calls


@dataclass(slots=True)
class RecordedStep:
    """One step of a round, with the calls of all plans of the round."""

    path: str = ""
    """The name of an execution inside of a map or a block; empty for a step of the plan."""
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
    places: dict[str, int] = field(default_factory=dict)
    """By path: the numbers of executions inside of maps and blocks."""
    steps: dict[int, RecordedStep] = field(default_factory=dict)
    """By index; the call that judges the answer follows the last step of the plan."""
    inside: dict[int, Executions] = field(default_factory=dict)
    """By index of the step of the plan: the executions inside of maps and blocks."""
    replaced: list[Outcome] = field(default_factory=list)
    """The outcomes that are no longer outcomes of a step of the plan."""

    @property
    def proposals(self) -> list[Proposal]:
        """The calls of planners, as in the result."""
        return [each.proposal for each in self.planned]

    @property
    def planner(self) -> PlannedBy | None:
        """The planner of the plan; `None` without a plan."""
        ready = self.ready
        return None if ready is None else PlannedBy(ready.planner, ready.why, ready.is_fallback)

    def step(self, index: int) -> RecordedStep:
        """Return a step; add it if it is missing."""
        return self.steps.setdefault(index, RecordedStep())

    def executions(self, path: str) -> Executions:
        """Return the executions inside of the step of the plan to which a path belongs."""
        step = plan_step(path)
        return self.inside.setdefault(step, Executions(str(step)))

    def resume(self) -> None:
        """Remove the ends of executions without a call: a resumed run decides again which of them exist."""
        for each in self.inside.values():
            each.since = None
        for step in self.steps.values():
            end = step.outcome
            if not step.path or end is None or end.attempts or end.calls:
                continue
            if end.status in ("skipped", "cancelled"):
                step.outcome = None
                self.executions(step.path).drop(step.path)

    def _name(self, index: int, path: str) -> None:
        if path:
            self.places[path], self.step(index).path = index, path

    def place(
        self, event: told.StepStarted | told.StepEnded, called: str, names: Sequence[str]
    ) -> tuple[str, Level]:
        """Return the worker that the plan names for a step of which `called` was called, and the step."""
        steps = () if self.ready is None else self.ready.plan.steps
        step = steps[event.step] if event.step < len(steps) else None
        own = names[step.worker] if isinstance(step, Step) else called
        path = event.path if isinstance(event, told.StepStarted) else event.outcome.path
        return own, Level(event.run_id, event.round, event.step, self.plan_hash, shared_name(path))

    def start(self, event: told.StepStarted) -> None:
        """Add a call of a step."""
        step = self.step(event.step)
        self._name(event.step, event.path)
        step.calls.append(CallState(event))
        step.since = event.at if step.since is None else step.since
        if event.path:
            self.executions(event.path).begin(event.path, event.at)

    def end(self, event: told.StepEnded) -> None:
        """Add the end of a step."""
        step, outcome = self.step(event.step), event.outcome
        step.end = event
        self._name(event.step, outcome.path)
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
            self.replaced.append(outcome)
        else:
            before = None if step.outcome is None or _is_sum(step.outcome) else step.outcome
            earlier = (*self.replaced, *([] if before is None or outcome.path else [before]))
            self.replaced = [each for each in earlier if is_aside(each) or not _bills(outcome, each)]
            if before is not None and outcome.path and not _bills(outcome, before):
                outcome = _with_calls_of(before, outcome)
            step.outcome = outcome
            if outcome.path:
                self.executions(outcome.path).take(outcome)


def is_aside(outcome: Outcome) -> bool:
    """Return whether an outcome belongs to no step of the plan: superseded, or interrupted by a crash."""
    return outcome.problem is not None and outcome.problem.code in ("superseded", UNKNOWN.code)


def _is_sum(outcome: Outcome) -> bool:
    """Return whether an outcome is of a map or a block, whose executions have the cost."""
    return outcome.status == "ok" and not (outcome.attempts or outcome.calls or outcome.reused)


def _bills(outcome: Outcome, before: Outcome) -> bool:
    """Return whether an outcome includes all calls of an earlier outcome of its step."""
    if before.tool_calls:  # it was given up while it waited for their results
        return (before.step, before.attempts, before.usage) == (outcome.step, outcome.attempts, outcome.usage)
    calls = before.calls or ((before.as_call(),) if before.attempts else ())
    known = {(call.attempt, call.usage, call.cost) for call in outcome.calls}
    is_known = all((call.attempt, call.usage, call.cost) in known for call in calls)
    return before.step == outcome.step and before.status != "ok" and is_known


def _with_calls_of(before: Outcome, outcome: Outcome) -> Outcome:
    """Return an outcome of an execution with the calls of an earlier one, which it does not include."""
    made = before.calls or ((before.as_call(),) if before.attempts else ())
    known = {call.attempt for call in made}
    if outcome.calls or (outcome.attempts and outcome.attempts not in known):
        made += outcome.calls or (replace(outcome.as_call(), problem=None),)
    is_one = len(made) == 1 and made[0].attempt == outcome.attempts
    return replace(outcome, **totals((before, outcome)), calls=() if is_one else made)


def superseded(outcome: Outcome) -> Outcome:
    """Return the outcome of an execution that the plan no longer has, with this as its problem."""
    if not outcome.path or is_aside(outcome):
        return outcome
    told = "the step's plan was replaced"
    told += "" if outcome.problem is None else f"; {outcome.problem.message}"
    return replace(outcome, problem=Problem("superseded", told))


def reserved_usage(reserved: Spend) -> Usage:
    """Return the tokens of a reservation."""
    tokens = (reserved.input_tokens, reserved.output_tokens)
    return Usage(*tokens, estimated=True) if any(tokens) else Usage()
