"""Where code is called that someone else wrote: what it raises becomes one of our errors.

No secret leaves it in an error's words, nor in those of what the error came from. It knows
no worker and no planner; whoever calls one says what its failing is called.
"""

from asyncio import CancelledError, current_task
from collections.abc import Callable
from types import TracebackType

from podium.errors import PodiumError
from podium.secrets import scrub, scrub_error


class Boundary:
    """A context manager that translates what is raised in it, `from` the original.

    Podium's own errors pass, and so does a cancellation that was asked for. One that was
    not (some future inside was cancelled) would pass for it and stop the whole run, so
    it is translated too.

    Args:
        who: whose code it is, as in `worker 'x'`.
        error: makes the error out of its sentence.
    """

    __slots__ = ("_error", "_who")

    def __init__(self, who: str, error: Callable[[str], PodiumError]) -> None:
        self._who = who
        self._error = error

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
        if not isinstance(raised, PodiumError):
            said = scrub(f"{self._who} raised {type(raised).__name__}: {raised}")
            raise self._error(said) from (raised if clean else None)
        if not clean:
            raised.__cause__ = raised.__context__ = None
