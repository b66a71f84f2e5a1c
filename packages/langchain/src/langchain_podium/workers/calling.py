"""Where a worker calls what was written against LangChain: what that raises becomes one of our errors.

It owns what an interrupt of LangGraph is told as: a run of Podium's cannot stop half-way in
a worker and ask somebody, unless LangGraph itself carries its steps out.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from podium.errors import PodiumError, WorkerFailed
from podium.secrets import Boundary


@contextmanager
def calling(name: str, failed: Callable[[str], PodiumError] | None = None) -> Iterator[None]:
    """Translate what is raised in the block.

    Args:
        name: the worker's.
        failed: makes an error of a sentence; `None` makes a `WorkerFailed` that may be paid for.
    """
    try:
        with Boundary(f"worker {name!r}", failed or partial(WorkerFailed, maybe_paid=True)):
            yield
    except PodiumError as error:
        if is_interrupt(error.__cause__):
            raise interrupted(name) from error.__cause__
        raise


def interrupted(name: str) -> WorkerFailed:
    """Return the error for a worker that wants to be answered, or to go elsewhere in a graph."""
    return WorkerFailed(
        f"worker {name!r} interrupted its graph, to ask somebody or to leave it: only "
        'conductor_node(..., executor="langgraph") can wait for the answer and go on there',
        maybe_paid=True,
    )


def is_interrupt(error: object) -> bool:
    """Say whether LangGraph steers with it."""
    errors = sys.modules.get("langgraph.errors")  # who raises one has imported it
    return errors is not None and isinstance(error, errors.GraphBubbleUp)
