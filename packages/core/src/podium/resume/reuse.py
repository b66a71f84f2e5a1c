"""Decides which recorded results a resumed run reuses, and which steps run again.

A resumed run is executed like any other run, but reuses these results instead of paying for them again.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, assert_never

from podium.resume.bills import calls_of
from podium.resume.paid_results import PaidResults
from podium.resume.rebuild import is_aside, renumbered, with_nested
from podium.resume.recorded_actions import executions_of
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
from podium.types.outcome import Outcome
from podium.types.plan import Plan
from podium.usage import Usage


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
