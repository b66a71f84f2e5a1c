"""Exceptions that only CrewAI raises, as errors of Podium."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from podium.errors import WorkerError, WorkerRefused
from podium.hosts import worker_errors
from podium.usage import Usage

_HOOK_ERRORS: Final = ("HookAborted", "CallBlocked")
"""Words in the names of classes that CrewAI raises where a hook stops a call."""


def read_error(error: BaseException) -> WorkerError | None:
    """Return the error for an exception that only CrewAI raises; `None` for any other exception."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if any(word in name for word in _HOOK_ERRORS for name in names):
        return WorkerRefused(f"a hook of CrewAI's stopped the call: {error}")
    return None


def crewai_errors(
    worker: str, usage: Callable[[], Usage | None] | None = None
) -> AbstractContextManager[None]:
    """Translate every exception that CrewAI raises in the block, as `podium.hosts.worker_errors` does.

    Args:
        worker: the name on the worker's card.
        usage: returns the tokens spent so far; `None` leaves it to an estimate.
    """
    return worker_errors(worker, usage=usage, reader=read_error)
