"""The time that one call has. It knows no call and no step."""

from asyncio import CancelledError, Task, TimerHandle, current_task, get_running_loop
from collections import deque
from collections.abc import Callable
from math import inf
from types import TracebackType


class Timer:
    """Ends calls that have had their time, all by one timer of the event loop.

    One of those is dear, and each call would set it and cancel it. It rings for the call that
    began first, so all that use it are to have equally long.
    """

    __slots__ = ("_calls", "_handle")

    def __init__(self) -> None:
        self._calls: deque[Timeout] = deque()
        self._handle: TimerHandle | None = None

    def began(self, call: "Timeout") -> None:
        """Take a call that has begun, later than all others."""
        self._calls.append(call)
        if self._handle is None:
            self._handle = get_running_loop().call_at(call.when, self._ring)

    def ended(self) -> None:
        """Forget the first calls, as far as they have ended."""
        calls = self._calls
        while calls and calls[0].task is None:
            calls.popleft()

    def close(self) -> None:
        """Ring no more; no call is under way."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        loop, calls = get_running_loop(), self._calls
        while calls and calls[0].when <= loop.time():
            calls.popleft().end()
        self._handle = loop.call_at(calls[0].when, self._ring) if calls else None


class Timeout:
    """A context manager that cancels what runs in it when its time is over, and raises `TimeoutError`.

    As `asyncio.timeout_at`, at less cost; and someone is told, as what is cancelled once may
    go on all the same.

    Args:
        timer: tells when that is.
        when: on the event loop's clock, in seconds; infinite for a call that is stopped otherwise.
        on_over: is called when the time is over; `None` tells nobody.
    """

    __slots__ = ("_before", "_is_over", "_on_over", "_timer", "task", "when")

    def __init__(self, timer: Timer, when: float, on_over: Callable[[], None] | None) -> None:
        self.when = when
        self.task: Task[object] | None = None
        """What runs in it; `None` before and afterwards."""
        self._timer = timer
        self._on_over = on_over
        self._before = 0
        self._is_over = False

    def __enter__(self) -> None:
        if self.when < inf:
            task = self.task = current_task()
            assert task is not None
            self._before = task.cancelling()
            self._timer.began(self)

    def end(self) -> None:
        """Cancel what still runs in it: its time is over."""
        if self.task is not None:
            self._is_over = True
            self.task.cancel()
            if self._on_over is not None:
                self._on_over()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task = self.task
        if task is None:
            return
        self.task = self._on_over = None
        self._timer.ended()
        # Another cancel, if there was one, goes first.
        if self._is_over and task.uncancel() <= self._before and kind is CancelledError:
            raise TimeoutError from raised
