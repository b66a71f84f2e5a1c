"""Where code is called that someone else wrote: what it raises becomes one of our errors.

No secret leaves it in an error's words, nor in those of what the error came from. It knows
no worker and no planner; whoever calls one says what its failing is called.
"""

from asyncio import CancelledError, current_task
from collections.abc import Callable
from types import TracebackType

from podium.errors import PodiumError
from podium.secrets import scrub, scrub_error

BUGS = (TypeError, AttributeError, NameError, ImportError)
"""Exceptions that tell of a mistake in code: in the user's own planner, worker or callback they leave the
run as they are."""


class Boundary:
    """A context manager that translates what is raised in it, `from` the original.

    Podium's own errors pass, and so does a cancellation that was asked for. One that was
    not (some future inside was cancelled) would pass for it and stop the whole run, so
    it is translated too. `BUGS` pass, unless the code is a library's.

    Args:
        who: whose code it is, as in `worker 'x'`.
        error: makes the error out of its sentence.
        is_library: whether the code reads what a server or a model wrote, which may be of other
            types than expected: then `BUGS` are translated too.
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
    """Return an exception of the same kind, whose text holds no secret."""
    kind = next(kind for kind in BUGS if isinstance(raised, kind))
    return kind(scrub(f"{type(raised).__name__}: {raised}"))


def add_place(error: BaseException, run_id: str, where: str) -> None:
    """Note on an exception of the user's code in which run it was raised, and where."""
    error.add_note(f"podium: raised by {where} in run {run_id}")
