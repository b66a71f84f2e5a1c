"""Translates the exceptions of foreign code into errors of Podium.

This also removes secrets from the messages of the errors and of their causes.
"""

from asyncio import CancelledError, current_task
from collections.abc import Callable
from types import TracebackType

from podium.errors import PodiumError
from podium.secrets import scrub, scrub_error

BUGS = (TypeError, AttributeError, NameError, ImportError)
"""Exceptions that indicate a bug. A run raises them unchanged if they come from the user's own planner,
worker or callback."""


class Boundary:
    """A context manager that translates the exceptions of its block and chains the original exception.

    Podium's own errors and cancellations of the task are not translated. A `CancelledError` with another
    cause, such as a cancelled future, is translated, because it would stop the whole run. `BUGS` are
    translated only if the code is a library.

    Args:
        who: the owner of the code, as in `worker 'x'`.
        error: creates the error from its message.
        is_library: whether the code is a library that reads data from a server or a model. Such data may have
            unexpected types, so `BUGS` are then translated too.
    """

    __slots__ = ("_error", "_is_library", "_who")

    def __init__(self, who: str, error: Callable[[str], PodiumError], *, is_library: bool = False) -> None:
        self._who = who
        self._error = error
        self._is_library = is_library

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if raised is None:
            return
        if isinstance(raised, CancelledError):
            task = current_task()
            if task is None or task.cancelling():
                return
        elif not isinstance(raised, Exception):
            return
        clean = scrub_error(raised)
        if isinstance(raised, BUGS) and not self._is_library:
            if not clean:
                raise _cleaned(raised) from None
        elif not isinstance(raised, PodiumError):
            said = scrub(f"{self._who} raised {type(raised).__name__}: {raised}")
            raise self._error(said) from (raised if clean else None)
        elif not clean:
            raised.__cause__ = raised.__context__ = None


def _cleaned(raised: Exception) -> Exception:
    """Return an exception of the same kind without secrets in its message."""
    kind = next(kind for kind in BUGS if isinstance(raised, kind))
    return kind(scrub(f"{type(raised).__name__}: {raised}"))


def add_place(error: BaseException, run_id: str, where: str) -> None:
    """Add a note to an exception of the user's code that names the run and the place."""
    error.add_note(f"podium: raised by {where} in run {run_id}")
