"""A run as OpenTelemetry spans and metrics, in the conventions for generative AI.

It is silent, and imports nothing, until the application has configured OpenTelemetry.
"""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from podium.planners.planner import Planner
from podium.workers.worker import Worker

if TYPE_CHECKING:
    from podium.telemetry.trace import Trace


def start_trace(name: str, workers: Iterable[Worker], planners: Iterable[Planner]) -> "Trace | None":
    """Return what makes one run's events spans and metrics; `None` where nobody would see them.

    Every run has one of its own. The run's span is a child of the span that is current here.

    Args:
        name: the conductor's.
        workers: whom the run may call, a judge included.
        planners: who may plan it.
    """
    if "opentelemetry" not in sys.modules:
        return None
    from podium.telemetry.instruments import configured  # noqa: PLC0415 - imports OpenTelemetry
    from podium.telemetry.trace import Trace  # noqa: PLC0415 - as above

    instruments = configured()
    return None if instruments is None else Trace(instruments, name, workers, planners)


__all__ = ["start_trace"]
