"""The time that one call has, on a timer of its own. It knows no call and no step."""

from asyncio import CancelledError, Task, TimerHandle, current_task, get_running_loop
from collections.abc import Callable
from types import TracebackType


class Timeout:
    """A context manager that cancels what runs in it when its time is over, and raises `TimeoutError`.

    As `asyncio.timeout_at`, in a third of its work, which is paid on every call; and someone
    is told, as what is cancelled once may go on all the same.

    Args:
        when: on the event loop's clock, in seconds; `None` sets no timer.
        on_over: is called when the time is over; `None` tells nobody.
    """

    __slots__ = ("_before", "_is_over", "_on_over", "_task", "_timer", "_when")

    def __init__(self, when: float | None, on_over: Callable[[], None] | None) -> None:
        self._when = when
        self._on_over = on_over
        self._task: Task[object] | None = None
        self._timer: TimerHandle | None = None
        self._before = 0
        self._is_over = False

    def __enter__(self) -> None:
        if self._when is not None:
            task = self._task = current_task()
            assert task is not None
            self._before = task.cancelling()
            self._timer = get_running_loop().call_at(self._when, self._end)

    def _end(self) -> None:
        assert self._task is not None
        self._is_over = True
        self._task.cancel()
        if self._on_over is not None:
            self._on_over()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        timer, task = self._timer, self._task
        if timer is None or task is None:
            return
        timer.cancel()
        self._timer = self._task = None  # a cycle with the timer, left to the collector
        # Another cancel, if there was one, goes first.
        if self._is_over and task.uncancel() <= self._before and kind is CancelledError:
            raise TimeoutError from raised
