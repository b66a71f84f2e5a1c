"""A thread with its own event loop, for tasks that no caller waits for.

The module limits the number of concurrent tasks, and the time to shut down: `close` and the end of the
interpreter do not wait for a task that hangs.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import Context, ContextVar
from functools import partial
from typing import Any

from podium.aio import run_sync
from podium.errors import PodiumError

LOGGER = logging.getLogger("podium")
GRACE = 1.0
"""Time in seconds in which a cancelled task must end."""
LOOK_SECONDS = 0.5
"""Seconds between two checks whether the interpreter is ending."""

Work = Callable[[], Coroutine[Any, Any, None]]
Kept = AbstractAsyncContextManager[Any]


class _Slots:
    """The slots of tasks: each is held until its task and all threads that it started have ended."""

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._most = most
        self.holders: dict[object, int] = {}

    def take(self) -> object | None:
        slot = object()
        with self._lock:
            if len(self.holders) >= self._most:
                return None
            self.holders[slot] = 1
        return slot

    def change(self, slot: object, by: int) -> None:
        """Count one holder more, or one less."""
        with self._lock:
            self.holders[slot] += by
            if not self.holders[slot]:
                del self.holders[slot]


_HOLD: ContextVar[Callable[[int], None] | None] = ContextVar("podium_shadow_hold", default=None)
"""Changes the holders of the slot of the task."""


class _Threads(ThreadPoolExecutor):
    """A daemon thread for each call, because Python waits without limit for the threads of a pool."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        hold = _HOLD.get()

        def work() -> None:
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - carried to who asked
                future.set_exception(error)
            finally:
                if hold is not None:
                    hold(-1)

        if hold is not None:
            hold(1)
        threading.Thread(target=work, name="podium-shadow-work", daemon=True).start()
        return future


class Background:
    """Runs tasks in its own thread, which starts with the first task."""

    def __init__(self, name: str, most: int, kept: Kept, last: Callable[[], Awaitable[None]]) -> None:
        self._name = name
        self._most = most
        self._kept = kept
        self._last = last
        self._lock = threading.Lock()
        self._life: _Life | None = None
        self.is_closed = False

    def start(self, work: Work) -> bool:
        """Start a task, and return whether a slot was free. Never waits."""
        with self._lock:
            if self.is_closed:
                return False
            life = self._life
            if life is None or not life.thread.is_alive():  # the process was forked, or something ended it
                life = self._life = _Life(self._name, _Slots(self._most), self._kept, self._last)
            slot = life.slots.take()
        return slot is not None and life.start(slot, work)

    def release(self) -> None:
        """End when the running tasks have ended, or after `GRACE` seconds. Never waits."""
        with self._lock:
            self.is_closed = True
            life = self._life
        if life is not None:
            life.end(GRACE)

    def close(self, seconds: float) -> bool:
        """Accept no more tasks, wait for the running ones, and end the thread.

        Returns:
            Whether all tasks have ended. Code that does not return, and cannot be cancelled, still runs in
            its thread.
        """
        with self._lock:
            self.is_closed = True
            life = self._life
        if life is None:
            run_sync(self._last)
            return True
        life.end(seconds)
        return life.join(seconds + 4 * GRACE) and not life.slots.holders


class _Life:
    """One thread with its event loop."""

    def __init__(self, name: str, slots: _Slots, kept: Kept, last: Callable[[], Awaitable[None]]) -> None:
        self.slots = slots
        self._kept = kept
        self._last = last
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._ended = threading.Event()
        self._seconds = 0.0
        self._loop = asyncio.new_event_loop()
        self._loop.set_default_executor(_Threads())
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()
        self._guarding = threading.Thread(target=self._guard, name=f"{name}-guard", daemon=False)
        self._guarding.start()

    def start(self, slot: object, work: Work) -> bool:
        # A new context, because the caller's tracing and callbacks do not apply here.
        try:
            self._loop.call_soon_threadsafe(self._spawn, slot, work, context=Context())
        except RuntimeError:  # the loop has just been closed
            self.slots.change(slot, -1)
            return False
        return True

    def end(self, seconds: float) -> None:
        def end() -> None:
            self._seconds = seconds
            self._ending.set()

        try:
            self._loop.call_soon_threadsafe(end, context=Context())
        except RuntimeError:
            return  # it has ended

    def join(self, seconds: float) -> bool:
        """Wait for the end of the thread, and return whether it ended in time."""
        self.thread.join(seconds)
        if self.thread.is_alive():
            return False
        self._guarding.join()
        return True

    def _spawn(self, slot: object, work: Work) -> None:
        hold = partial(self.slots.change, slot)
        _HOLD.set(hold)
        task = self._loop.create_task(work())
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            hold(-1)
            if not task.cancelled() and (error := task.exception()) is not None:
                LOGGER.error("work in the background failed", exc_info=error)

        task.add_done_callback(done)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                main = runner.get_loop().create_task(self._main())
                while not main.done():
                    try:
                        self._loop.run_until_complete(main)
                    except (SystemExit, KeyboardInterrupt) as error:
                        # One task raised it. asyncio stops the loop, but the other tasks still need it.
                        LOGGER.warning("%s: work raised %s", self.thread.name, type(error).__name__)
        except Exception:  # the thread ends here, and no caller waits for it
            LOGGER.exception("%s failed; the next task starts another thread", self.thread.name)
        finally:
            self._ended.set()

    async def _main(self) -> None:
        async with AsyncExitStack() as held:
            with suppress(TimeoutError):  # on a timeout, it is opened at each use
                async with asyncio.timeout(GRACE):
                    try:
                        await held.enter_async_context(self._kept)
                    except PodiumError as error:
                        LOGGER.warning("%s: %s", self.thread.name, error)
            await self._ending.wait()
            await self._drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE):
                    await self._last()

    async def _drain(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._seconds)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)

    def _guard(self) -> None:
        """End the tasks when the interpreter ends; daemon threads alone would be cut off at any point."""
        while not self._ended.wait(LOOK_SECONDS):
            if not threading.main_thread().is_alive():
                self.end(GRACE)
                self._ended.wait(4 * GRACE)
                return
