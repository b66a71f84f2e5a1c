"""The observers of a run: log records of the logger `podium`, and OpenTelemetry spans and metrics.

Nothing is logged until the application configures logging, and OpenTelemetry is not imported until the
application configures it. The field `podium` of a log record has the event's type and ids, for formatters
that write JSON. Questions, subtasks and outputs are never logged. Error messages, which may quote them, are
logged only if `DEBUG` is enabled.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from logging import DEBUG, INFO, WARNING
from typing import TYPE_CHECKING

from podium.planners.planner import Planner
from podium.run_state.state import RunState
from podium.secrets import scrub
from podium.types import events as told
from podium.types.events import Event
from podium.types.outcome import Problem
from podium.workers.worker import Worker

if TYPE_CHECKING:
    from podium.telemetry.trace import Trace


Observer = Callable[[Event, RunState], None]
"""Is called with an event after the state of its run has taken the event."""


def observed(*observers: Observer | None) -> list[Callable[[Event], None]]:
    """Return a listener that calls the observers with the events of a run, and not of its nested runs."""
    known = [each for each in observers if each is not None]
    if not known:
        return []
    state = RunState()

    def take(event: Event) -> None:
        if state.run_id in ("", event.run_id):
            state.take(event)
            for observe in known:
                observe(event, state)

    return [take]


def start_trace(name: str, workers: Iterable[Worker], planners: Iterable[Planner]) -> "Trace | None":
    """Return a trace for one run; `None` if the application has not configured OpenTelemetry."""
    if "opentelemetry" not in sys.modules:
        return None
    from podium.telemetry.trace import Trace, configured  # noqa: PLC0415 - imports OpenTelemetry

    instruments = configured()
    return None if instruments is None else Trace(instruments, name, workers, planners)


LOGGER = logging.getLogger("podium")
LOGGER.addHandler(logging.NullHandler())


def start_log() -> "Log | None":
    """Return an observer that logs a run; `None` if logging is not configured."""
    if not LOGGER.isEnabledFor(logging.CRITICAL) or not any(_handlers(LOGGER)):
        return None
    return Log()


def _handlers(logger: logging.Logger | None) -> Iterator[logging.Handler]:
    """Yield the handlers for the records of `logger`, except null handlers."""
    while logger is not None:
        yield from (each for each in logger.handlers if not isinstance(each, logging.NullHandler))
        logger = logger.parent if logger.propagate else None


class Log:
    """Logs the events that have a method here."""

    def __call__(self, event: Event, state: RunState) -> None:
        """Log an event."""
        self._state = state
        getattr(self, f"_{event.type}", lambda _: None)(event)

    def _run_started(self, event: told.RunStarted) -> None:
        _log(INFO, event, f"started with {len(event.workers)} workers", parent=event.parent)

    def _run_resumed(self, event: told.RunResumed) -> None:
        _log(INFO, event, "resumed from its journal", recovery=event.recovery)

    def _planner_ended(self, event: told.PlannerEnded) -> None:
        done = event.proposal
        level, used = (DEBUG, "planned") if done.problem is None else (WARNING, "returned no plan")
        then = "" if event.wait is None else f", retry in {event.wait:.3g} s"
        facts = {"planner": done.planner, "seconds": done.seconds, "wait": event.wait}
        said = f"round {event.round}: planner {done.planner} {used}{then}"
        _log(level, event, said, done.problem, **facts)

    def _plan_ready(self, event: told.PlanReady) -> None:
        level, by = (WARNING, ", the fallback planner,") if event.is_fallback else (DEBUG, "")
        steps = len(event.plan.steps)
        said = f"round {event.round}: {event.planner}{by} planned {steps} steps"
        _log(level, event, said, planner=event.planner, steps=steps)

    def _approval_asked(self, event: told.ApprovalAsked) -> None:
        _log(INFO, event, f"round {event.round}: {event.told}")

    def _step_started(self, event: told.StepStarted) -> None:
        said = f"{self._step(event)}: attempt {event.attempt} goes to {event.worker}"
        _log(DEBUG, event, said, worker=event.worker)

    def _attempt_failed(self, event: told.AttemptFailed) -> None:
        worker, wait = event.call.worker, event.wait
        then = "another attempt is running" if wait is None else f"retry in {wait:.3g} s"
        said = f"{self._step(event)}: attempt {event.attempt} of {worker} failed, {then}"
        _log(WARNING, event, said, event.call.problem, worker=worker, wait=wait)

    def _step_ended(self, event: told.StepEnded) -> None:
        outcome = event.outcome
        level = WARNING if outcome.status == "failed" else DEBUG
        tokens = {"input_tokens": outcome.usage.input_tokens, "output_tokens": outcome.usage.output_tokens}
        facts = {"worker": outcome.worker, "status": outcome.status, "seconds": outcome.seconds}
        said = f"{self._step(event)}: {outcome.worker} ended {outcome.status}"
        _log(level, event, said, outcome.problem, **facts, **tokens, cost=outcome.cost)

    def _run_ended(self, event: told.RunEnded) -> None:
        result = event.result
        level = INFO if result.status in ("ok", "waiting") else WARNING
        cost = "unknown" if result.cost is None else f"{result.cost:.6g} USD"
        facts = {"status": result.status, "seconds": result.seconds, "cost": result.cost}
        said = f"ended {result.status} after {result.seconds:.3g} s, cost {cost}"
        _log(level, event, said, result.problem, **facts)

    def _run_stopped(self, event: told.RunStopped) -> None:
        _log(WARNING, event, "was stopped", event.problem)

    def _step(self, event: told.StepStarted | told.AttemptFailed | told.StepEnded) -> str:
        path = self._state.round(event.round).step(event.step).path
        return f"round {event.round}, step {path or event.step}"


def _log(level: int, event: Event, said: str, problem: Problem | None = None, **facts: object) -> None:
    """Log an event with its ids and further fields; the message of a problem only at `DEBUG`."""
    if not LOGGER.isEnabledFor(level):
        return
    if problem is not None:
        facts["code"] = problem.code
        said += f": {problem.code}"
        if LOGGER.isEnabledFor(DEBUG):
            facts["problem"] = problem.message
            said += f": {problem.message}"
    ids = {name: getattr(event, name) for name in ("round", "step", "attempt") if hasattr(event, name)}
    fields = {"event": event.type, "run_id": event.run_id, **ids, **facts}
    LOGGER.log(level, "run %s: %s", event.run_id, scrub(said), extra={"podium": fields})
