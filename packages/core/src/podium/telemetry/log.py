"""Reports runs as log records of the logger `podium`.

The module does nothing until the application configures logging. The field `podium` of a record has the
event's type and ids, for formatters that write JSON. Questions, subtasks and outputs are never logged. Error
messages, which may quote them, are logged only if `DEBUG` is enabled.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, assert_never

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
from podium.types.outcome import Problem

LOGGER = logging.getLogger("podium")
LOGGER.addHandler(logging.NullHandler())


def start_log() -> Callable[[Event], None] | None:
    """Return a function that logs the events of one run; `None` if logging is not configured.

    The function logs only the run of its first event, and ignores events of other runs.
    """
    if not LOGGER.isEnabledFor(logging.CRITICAL) or not any(_handlers(LOGGER)):
        return None
    return _Log()


def _handlers(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """Yield the handlers for the records of `logger`, except null handlers."""
    while logger is not None:
        yield from (each for each in logger.handlers if not isinstance(each, logging.NullHandler))
        logger = logger.parent if logger.propagate else None


class _Log:
    def __init__(self) -> None:
        self._run_id = ""

    def __call__(self, event: Event) -> None:
        self._run_id = self._run_id or event.run_id
        if event.run_id != self._run_id:
            return
        level, said, problem, facts = _told(event)
        if not said or not LOGGER.isEnabledFor(level):
            return
        if problem is not None:
            facts |= {"code": problem.code}
            said += f": {problem.code}"
            if LOGGER.isEnabledFor(logging.DEBUG):
                facts |= {"problem": problem.message}
                said += f": {problem.message}"
        ids = {name: getattr(event, name) for name in ("round", "step", "attempt") if hasattr(event, name)}
        fields = {"event": event.type, "run_id": event.run_id, **ids, **facts}
        LOGGER.log(level, "run %s: %s", event.run_id, scrub(said), extra={"podium": fields})


_Told = tuple[int, str, Problem | None, dict[str, Any]]
"""Level, message, problem, and further fields."""


def _told(event: Event) -> _Told:
    """Return the log record of an event; its message is empty if the event is not logged."""
    match event:
        case RunStarted() | RunResumed() | RunEnded() | RunStopped():
            return _told_of_run(event)
        case PlannerEnded() | PlanReady() | ApprovalAsked():
            return _told_of_plan(event)
        case StepStarted() | AttemptFailed() | StepEnded():
            return _told_of_step(event)
        case RoundStarted() | PlannerStarted() | ApprovalGiven() | NestedRunEnded() | WorkerRunEnded():
            return logging.NOTSET, "", None, {}
        case ActionDecided() | PlanDelta() | StepDelta() | AnswerDelta():
            return logging.NOTSET, "", None, {}
        case _:
            assert_never(event)


def _told_of_run(event: RunStarted | RunResumed | RunEnded | RunStopped) -> _Told:
    match event:
        case RunStarted(workers=workers):
            return logging.INFO, f"started with {len(workers)} workers", None, {"parent": event.parent}
        case RunResumed(recovery=recovery):
            return logging.INFO, "resumed from its journal", None, {"recovery": recovery}
        case RunEnded(result=result):
            level = logging.INFO if result.status in ("ok", "waiting") else logging.WARNING
            cost = "unknown" if result.cost is None else f"{result.cost:.6g} USD"
            said = f"ended {result.status} after {result.seconds:.3g} s, cost {cost}"
            facts = {"status": result.status, "seconds": result.seconds, "cost": result.cost}
            return level, said, result.problem, facts
        case RunStopped(problem=problem):
            return logging.WARNING, "was stopped", problem, {}
        case _:
            assert_never(event)


def _told_of_plan(event: PlannerEnded | PlanReady | ApprovalAsked) -> _Told:
    match event:
        case PlannerEnded(round=number, proposal=done):
            level = logging.DEBUG if done.problem is None else logging.WARNING
            used = "planned" if done.problem is None else "returned no plan"
            then = "" if event.wait is None else f", retry in {event.wait:.3g} s"
            said = f"round {number}: planner {done.planner} {used}{then}"
            facts = {"planner": done.planner, "seconds": done.seconds, "wait": event.wait}
            return level, said, done.problem, facts
        case PlanReady(round=number, plan=plan, planner=planner, is_fallback=is_fallback):
            level = logging.WARNING if is_fallback else logging.DEBUG
            stands_in = ", the fallback planner," if is_fallback else ""
            said = f"round {number}: {planner}{stands_in} planned {len(plan.steps)} steps"
            return level, said, None, {"planner": planner, "steps": len(plan.steps)}
        case ApprovalAsked(round=number):
            return logging.INFO, f"round {number}: the plan waits for approval", None, {}
        case _:
            assert_never(event)


def _told_of_step(event: StepStarted | AttemptFailed | StepEnded) -> _Told:
    match event:
        case StepStarted(round=number, step=step, attempt=attempt, worker=worker):
            said = f"round {number}, step {step}: attempt {attempt} goes to {worker}"
            return logging.DEBUG, said, None, {"worker": worker}
        case AttemptFailed(round=number, step=step, attempt=attempt, call=call, wait=wait):
            then = "another attempt is running" if wait is None else f"retry in {wait:.3g} s"
            said = f"round {number}, step {step}: attempt {attempt} of {call.worker} failed, {then}"
            return logging.WARNING, said, call.problem, {"worker": call.worker, "wait": wait}
        case StepEnded(round=number, step=step, outcome=outcome):
            level = logging.WARNING if outcome.status == "failed" else logging.DEBUG
            said = f"round {number}, step {step}: {outcome.worker} ended {outcome.status}"
            facts = {
                "worker": outcome.worker,
                "status": outcome.status,
                "seconds": outcome.seconds,
                "input_tokens": outcome.usage.input_tokens,
                "output_tokens": outcome.usage.output_tokens,
                "cost": outcome.cost,
            }
            return level, said, outcome.problem, facts
        case _:
            assert_never(event)
