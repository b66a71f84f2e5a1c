"""Reports runs as OpenTelemetry spans and metrics, with the semantic conventions for generative AI.

The module does nothing and imports nothing until the application configures OpenTelemetry.
"""

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from podium.planners.planner import Planner
from podium.run_state.state import RunState
from podium.types.events import Event
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


__all__ = ["Observer", "observed", "start_trace"]
