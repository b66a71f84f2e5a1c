"""Decides which recorded results a resumed run reuses, and which steps run again."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from typing import Any, assert_never

from podium.run_state.action_log import Execution, without_cost
from podium.run_state.fold import UNKNOWN, RunState, fold
from podium.run_state.recorded_actions import executions_of
from podium.run_state.state import calls_of, is_aside, renumbered, with_nested
from podium.secrets import scrub
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
from podium.types.messages import Message
from podium.types.outcome import Call, Outcome, Proposal
from podium.types.plan import Plan
from podium.usage import Usage
from podium.workers.worker import StepInput


def step_key(
    worker: str, step_input: StepInput, tool_messages: Sequence[Message] = (), *, exact: bool = False
) -> str:
    """Return the hash of a step's worker and of all that the worker sees.

    The step's index in its plan and the order in which steps ended do not change it.

    Args:
        worker: the worker's name.
        step_input: the input of the worker.
        tool_messages: tool calls and their results that the worker also sees.
        exact: whether to include secrets; journals have no secrets.
    """
    seen = [
        [shown.subtask, shown.output, shown.gap, *(["previous"] if shown.previous else [])]
        for shown in step_input.visible
    ]
    told: list[object] = [
        worker,
        step_input.subtask,
        seen,
        [message.to_wire() for message in step_input.query],
    ]
    if tool_messages:
        told.append([message.to_wire() for message in tool_messages])
    if step_input.texts:
        told.append(["texts", *step_input.texts])
    text = json.dumps(told, sort_keys=True)
    return sha256((text if exact else scrub(text)).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class PaidResults:
    """Recorded outcomes, plans and decisions."""

    run_id: str | None = None
    """The id of the run that recorded the results, if it is another run."""
    plans: dict[int, PlanReady] = field(default_factory=dict)
    """The plan of each round, by number."""
    stand_ins: set[int] = field(default_factory=set)
    """Numbers of the rounds whose planner is asked again, because the fallback planner wrote the plan. If
    there is still no other plan, this plan is used again."""
    proposals: dict[int, list[Proposal]] = field(default_factory=dict)
    """The planner calls of each round, by number."""
    decisions: dict[int, ApprovalGiven] = field(default_factory=dict)
    """The decision on each round's plan, by number."""
    asked: set[int] = field(default_factory=set)
    """Numbers of the rounds whose plan needed an approval."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why each round began, by number."""
    lost: dict[tuple[int, int], list[Call]] = field(default_factory=dict)
    """By round and step: calls that failed, or whose end was not recorded."""
    unseen: dict[tuple[int, int], list[Call]] = field(default_factory=dict)
    """The calls in `lost` whose cost is not part of a recorded outcome."""
    actions: list[Execution] = field(default_factory=list)
    """The recorded actions of the run and its nested runs."""
    approvals: dict[tuple[int, int, str], ApprovalGiven | None] = field(default_factory=dict)
    """The latest decision on each action that needed an approval, by round, step and `Action.key`; `None` if
    nobody has decided."""
    moved: dict[tuple[int, int], str] = field(default_factory=dict)
    """By round and step: the key of the outcome, if it was recorded for another conversation."""
    charged: set[tuple[int, int, int]] = field(default_factory=set)
    """Round, step and attempt of every recorded call, which the ledger has already counted."""
    _outcomes: dict[str, list[tuple[int, Outcome]]] = field(default_factory=dict)
    """Outcomes by `step_key`, each with its number in the order of `add`."""
    _added: int = 0
    _shown: dict[tuple[int, int], list[tuple[int, ...]]] = field(default_factory=dict)
    """By round and step: the steps whose output its worker saw, of `ok` outcomes that did not see all."""

    def add(self, key: str, outcome: Outcome) -> None:
        """Add an outcome; outcomes of a run are added in the order in which its steps ended."""
        self._added += 1
        self._outcomes.setdefault(key, []).append((self._added, outcome))
        if outcome.status == "ok" and outcome.shown is not None:
            self._shown.setdefault((outcome.round, outcome.step), []).append(outcome.shown)

    def add_actions(self, earlier: Iterable[Execution]) -> None:
        """Add the actions of earlier runs, except those that this run has recorded because it took them."""
        known = Counter(each.action.key for each in self.actions)
        for execution in earlier:
            known[execution.action.key] -= 1
            if known[execution.action.key] < 0:
                self.actions.append(execution)

    def shown(self, number: int, step: int) -> Sequence[tuple[int, ...]]:
        """Return what the `ok` outcomes of a step saw, the latest first, if they did not see everything."""
        return self._shown.get((number, step), [])[::-1]

    def forget_plan(self, number: int) -> None:
        """Remove the plan of a round, and the decision on it."""
        self.plans.pop(number, None)
        self.decisions.pop(number, None)
        self.stand_ins.discard(number)

    def position(self, key: str, number: int, step: int) -> tuple[bool, int] | None:
        """Return the rank of the outcome that `take` would return; `None` if there is none.

        If several steps have outcomes, the scheduler ends the step with the lowest rank first. Outcomes of
        the same round and step have the lowest ranks, in the order in which the recorded steps ended; then
        follow all other outcomes. So a step with `enough` sees the same inputs again.
        """
        known = self._outcomes.get(key)
        if not known:
            return None
        at = _chosen(known, number, step)
        return (known[at][1].round, known[at][1].step) != (number, step), known[at][0]

    def place(self, key: str, number: int, step: int) -> tuple[int, int] | None:
        """Return round and step of the outcome that `take` would return; `None` if there is none."""
        known = self._outcomes.get(key)
        if not known:
            return None
        outcome = known[_chosen(known, number, step)][1]
        return outcome.round, outcome.step

    def take(self, key: str, number: int, step: int) -> Outcome | None:
        """Return and remove an outcome with this key, preferably of the same round and step.

        Each outcome is returned once, because two steps with the same input may need two different answers.
        An outcome of another step is returned without its cost, because the cost counts in that step.
        """
        known = self._outcomes.get(key)
        if not known:
            return None
        _, outcome = known.pop(_chosen(known, number, step))
        if (outcome.round, outcome.step) == (number, step):
            return replace(outcome, reused=True)
        return without_cost(outcome, number, step)


def _chosen(known: list[tuple[int, Outcome]], number: int, step: int) -> int:
    """Return the index of the outcome of this round and step, or 0."""
    places = [(outcome.round, outcome.step) for _, outcome in known]
    return places.index((number, step)) if (number, step) in places else 0


def runs_again(outcome: Outcome, latest: float) -> bool:
    """Return whether a step runs again when the run is resumed.

    Steps that failed in the latest round run again, unless the run was paused after the failure. Steps that
    failed in an earlier round do not run again, because the planner knew of these failures when it wrote the
    latest plan. Skipped and cancelled steps run again in any round. Steps that are `ok` never run again.

    Args:
        outcome: the outcome of the step.
        latest: the number of the latest round; infinite if no failed step runs again.
    """
    if outcome.status == "ok":
        return False
    return outcome.status != "failed" or outcome.round >= latest


def paid_results_of(
    events: Sequence[Event],
    workers: Sequence[str],
    *,
    again: bool = True,
    nested: Sequence[Sequence[Event]] | None = None,
) -> PaidResults:
    """Return the paid results of a run; plans have the worker numbers of the current pool.

    The cost of earlier calls of steps that run again still counts.

    Args:
        events: the run's events, in order.
        workers: the names of the pool's workers.
        again: whether steps that failed in the latest round run again.
        nested: the events of its nested runs, at any depth, which give the cost of unfinished
            steps; `None` if they are unknown.

    Raises:
        ConfigError: the pool lacks a worker of a plan.
    """
    latest = max((e.round for e in events if isinstance(e, RoundStarted)), default=0) if again else inf
    standing = _standing(events)
    paid_results = _read(events, workers, latest, standing)
    paid_results.actions = executions_of((events, *(nested or ())))
    if again and _has_stand_in(events, paid_results):
        paid_results.stand_ins.add(max(paid_results.plans))
    stand = {id(event.outcome) for event in events[standing:] if isinstance(event, StepEnded)}
    calls = list(calls_of(events))
    for call in calls:
        paid_results.charged.add((call.round, call.step, call.bill.attempt))
        ended = call.ended
        failed = ended is not None and ended.status != "ok" and ended.round == latest and not is_aside(ended)
        if ended is None or (failed and not (ended.status == "failed" and id(ended) in stand)):
            bill = call.bill if ended is not None else with_nested(call, calls, nested, events[0].run_id)
            paid_results.lost.setdefault((call.round, call.step), []).append(bill)
            if ended is None:
                paid_results.unseen.setdefault((call.round, call.step), []).append(bill)
    return paid_results


def unbilled(events: Sequence[Event], workers: Sequence[str], *, moved: bool = False) -> PaidResults:
    """Return the results of a recorded run without their costs, for another run that reuses them.

    Failed steps do not run again. `paid_results_of` describes the exceptions.

    Args:
        events: the events of the run; those of its nested runs say only which actions were carried out.
        workers: the names of the pool's workers.
        moved: whether the other run has another conversation, so that all steps of the plan but the last are
            found by their places.
    """
    own = [event for event in events if event.run_id == events[0].run_id]
    free = [_unbilled(event) for event in own if not _is_call(event)]
    paid_results = replace(paid_results_of(free, workers, again=False), **_actions(events))
    if moved and paid_results.plans:
        number = max(paid_results.plans)
        last = len(paid_results.plans[number].plan.steps) - 1
        ended = [event for event in own if isinstance(event, StepEnded) and event.key]
        latest = max((event.round for event in ended), default=0)
        paid_results.moved = {
            (number, event.step): event.key for event in ended if event.round == latest and event.step < last
        }
    return paid_results


def actions_alone(events: Sequence[Event]) -> PaidResults:
    """Return only the actions of a recorded run, for another run that has a plan of its own.

    Args:
        events: see `unbilled`.
    """
    return PaidResults(**_actions(events))


def _actions(events: Sequence[Event]) -> dict[str, Any]:
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    return {"run_id": events[0].run_id, "actions": executions_of(runs.values())}


def _is_call(event: Event) -> bool:
    """Return whether an event describes only a call, and not the outcome of a step."""
    return isinstance(event, StepStarted | AttemptFailed)


def _unbilled(event: Event) -> Event:
    """Return an event without its tokens, costs and times, which belong to the recorded run."""
    match event:
        case StepEnded():
            free = replace(
                event.outcome,
                usage=Usage(),
                cost=0.0,
                calls=(),
                maybe_paid=False,
                charged="usage",
                started=None,
                ended=None,
            )
            return replace(event, outcome=free)
        case PlannerEnded():
            asked = replace(
                event.proposal, usage=Usage(), cost=0.0, maybe_paid=False, charged="usage", seconds=0.0
            )
            return replace(event, proposal=asked)
        case _:
            return event


def _read(  # noqa: C901, PLR0912 - one case for each event
    events: Sequence[Event], workers: Sequence[str], latest: float, standing: int
) -> PaidResults:
    paid_results = PaidResults()
    names: tuple[str, ...] = ()
    for position, event in enumerate(events):
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
            case ApprovalAsked() if event.step is not None:
                paid_results.approvals.setdefault((event.round, event.step, event.action), None)
            case ApprovalAsked():
                paid_results.asked.add(event.round)
            case ApprovalGiven() if event.step is not None:
                paid_results.approvals[event.round, event.step, event.action] = event
            case ApprovalGiven():
                plan = event.plan and renumbered(event.plan, names, workers)
                paid_results.decisions[event.round] = replace(event, plan=plan)
            case StepEnded():
                again = runs_again(event.outcome, inf if position >= standing else latest)
                if event.key and not again and event.outcome.action in (None, "not_done"):
                    paid_results.add(event.key, event.outcome)  # the log has the other actions
            case (
                PlannerStarted()
                | ActionDecided()
                | StepStarted()
                | AttemptFailed()
                | NestedRunEnded()
                | WorkerRunEnded()
                | RunEnded()
                | RunStopped()
            ):
                pass  # no result to reuse
            case PlanDelta() | StepDelta() | AnswerDelta():
                pass  # never recorded
            case _:
                assert_never(event)
    return paid_results


def _standing(events: Sequence[Event]) -> int:
    """Return the position in the events from which failed steps do not run again.

    A step does not run again if it failed during a pause, that is, after the last end of the run that was not
    a pause.
    """
    last = events[-1] if events else None
    if not isinstance(last, RunEnded) or last.result.status != "waiting":
        return len(events)
    standing = 0
    for position, event in enumerate(events, 1):
        if isinstance(event, RunStopped) or (
            isinstance(event, RunEnded) and event.result.status != "waiting"
        ):
            standing = position
    return standing


def _has_stand_in(events: Sequence[Event], paid_results: PaidResults) -> bool:
    """Return whether the run has ended with a plan that its fallback planner wrote."""
    for event in reversed(events):
        if isinstance(event, PlanReady):
            return False  # the run was interrupted, or waits for approval
        if isinstance(event, RunEnded) and event.result.status != "waiting":
            break
    number = max(paid_results.plans, default=0)
    ready, proposals = paid_results.plans.get(number), paid_results.proposals.get(number, ())
    # A plan that was given to the run has no proposals.
    return ready is not None and ready.is_fallback and any(each.role == "fallback" for each in proposals)


def _forget_decision(paid_results: PaidResults, number: int, plan: Plan) -> None:
    """Remove the decision on a round's plan if the plan has changed since."""
    decided, before = paid_results.decisions.get(number), paid_results.plans.get(number)
    if decided is not None and plan != (decided.plan or (before and before.plan)):
        del paid_results.decisions[number]


def paid_results_from(  # noqa: C901, PLR0912 - one case for each fact
    state: RunState, workers: Sequence[str], *, again: bool = True
) -> PaidResults:
    """Return the paid results of a run; plans have the worker numbers of the current pool.

    The cost of earlier calls of steps that run again still counts.

    Args:
        state: the state of the run.
        workers: the names of the pool's workers.
        again: whether steps that failed in the latest round run again.

    Raises:
        ConfigError: the pool lacks a worker of a plan.
    """
    begun = [number for number, current in state.rounds.items() if current.reason is not None]
    latest = max(begun, default=0) if again else inf
    is_waiting = isinstance(state.last, RunEnded) and state.last.result.status == "waiting"
    standing = state.settled if is_waiting else len(state.ends)
    paid_results = PaidResults(approvals=dict(state.approvals), actions=state.executions())
    for number, current in state.rounds.items():
        if current.reason is not None:
            paid_results.reasons[number] = current.reason
        planned = [each.proposal for each in current.planned if each.proposal.problem is not UNKNOWN]
        if planned:
            paid_results.proposals[number] = planned
        if current.ready is not None:
            plan = renumbered(current.ready.plan, state.names, workers)
            paid_results.plans[number] = replace(current.ready, plan=plan)
        if current.is_asked:
            paid_results.asked.add(number)
        if (decision := current.decision) is not None:
            changed = decision.plan and renumbered(decision.plan, state.names, workers)
            paid_results.decisions[number] = replace(decision, plan=changed)
    for position, end in enumerate(state.ends):
        outcome = end.outcome
        is_again = runs_again(outcome, inf if position >= standing else latest)
        if end.key and not is_again and outcome.action in (None, "not_done"):
            paid_results.add(end.key, outcome)  # the log has the other actions
    if again and not state.is_planned and paid_results.plans:
        number = max(paid_results.plans)
        proposals = paid_results.proposals.get(number, ())
        # A plan that was given to the run has no proposals.
        if paid_results.plans[number].is_fallback and any(each.role == "fallback" for each in proposals):
            paid_results.stand_ins.add(number)
    stand = {id(end.outcome) for end in state.ends[standing:]}
    for number, current in state.rounds.items():
        for index, step in current.steps.items():
            for call in step.calls:
                paid_results.charged.add((number, index, call.bill.attempt))
                ended = call.ended
                failed = (
                    ended is not None
                    and ended.status != "ok"
                    and ended.round == latest
                    and not is_aside(ended)
                )
                if ended is None or (failed and not (ended.status == "failed" and id(ended) in stand)):
                    bill = state.bill_of(step, call)
                    paid_results.lost.setdefault((number, index), []).append(bill)
                    if ended is None:
                        paid_results.unseen.setdefault((number, index), []).append(bill)
    return paid_results


def unbilled_from(events: Sequence[Event], workers: Sequence[str], *, moved: bool = False) -> PaidResults:
    """See `unbilled`."""
    first, *nested = _runs(events)
    state = fold([_unbilled(event) for event in first if not _is_call(event)])
    paid_results = paid_results_from(state, workers, again=False)
    paid_results.run_id, paid_results.actions = state.run_id, fold(first, nested).executions()
    if moved and paid_results.plans:
        number = max(paid_results.plans)
        last = len(paid_results.plans[number].plan.steps) - 1
        ended = [end for end in state.ends if end.key]
        latest = max((end.round for end in ended), default=0)
        paid_results.moved = {
            (number, end.step): end.key for end in ended if end.round == latest and end.step < last
        }
    return paid_results


def _runs(events: Sequence[Event]) -> list[list[Event]]:
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run_id, []).append(event)
    return list(runs.values())
