"""Reports runs as OpenTelemetry spans and metrics, with the semantic conventions for generative AI.

The module does nothing and imports nothing until the application configures OpenTelemetry.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from podium.planners.planner import Planner
from podium.workers.worker import Worker

if TYPE_CHECKING:
    from podium.telemetry.trace import Trace


def start_trace(name: str, workers: Iterable[Worker], planners: Iterable[Planner]) -> "Trace | None":
    """Return a trace for one run; `None` if the application has not configured OpenTelemetry.

    The run's span is a child of the current span.

    Args:
        name: the conductor's name.
        workers: the workers that the run may call, including a judge.
        planners: the planners that the run may call.
    """
    if "opentelemetry" not in sys.modules:
        return None
    from podium.telemetry.instruments import configured  # noqa: PLC0415 - imports OpenTelemetry
    from podium.telemetry.trace import Trace  # noqa: PLC0415 - as above

    instruments = configured()
    return None if instruments is None else Trace(instruments, name, workers, planners)


__all__ = ["start_trace"]
