"""The bridges between sync and async code, and between tasks and generators."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from threading import Event, Lock, Semaphore, Thread
from typing import Any, Final, ParamSpec, TypeVar

from anyio.to_thread import current_default_thread_limiter

from podium.aio.calls import end, retrieve

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose running calls do not delay the exit of the interpreter."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, name)  # its own threads never start, because `submit` is replaced
        self._most, self._name = most, name
        self._calls = SimpleQueue[Callable[[], None]]()
        self._idle, self._started, self._starting = Semaphore(0), 0, Lock()

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread, with the arguments given."""
        future = Future[T]()
        self._calls.put(lambda: _call(future, function, args, kwargs))
        with self._starting:
            if not self._idle.acquire(blocking=False) and self._started < self._most:
                self._started += 1
                Thread(target=self._serve, name=self._name, daemon=True).start()
        return future

    def _serve(self) -> None:
        while True:
            self._calls.get()()
            self._idle.release()


def _call(future: Future[T], function: Callable[..., T], args: Any, kwargs: Any) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
        future.set_exception(error)
    else:
        future.set_result(result)


async def events_of(
    run: Callable[[Callable[[T], None]], Coroutine[Any, Any, object]],
) -> AsyncGenerator[T, None]:
    """Start `run` in a task, yield what it emits, and raise its exception; leaving early cancels it."""
    events = asyncio.Queue[T | None]()
    task = asyncio.create_task(run(events.put_nowait))
    task.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await task
    finally:
        await end(task, "", None)


def first_of(group: BaseExceptionGroup[BaseException], *kinds: type[BaseException]) -> BaseException | None:
    """Return the first exception of these kinds in an exception group; `None` if it has none."""
    found: BaseException | None = group.subgroup(kinds)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


_MAX_THREADS: Final = 256
"""Maximum blocking calls at once in a loop. One may wait for another: with few threads, for ever."""


def run_sync(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function from synchronous code, and return its result.

    `run_sync` can be called in any thread, even inside a running event loop. The function has the caller's
    context variables. Ctrl-C cancels the function and waits until it has ended.

    Args:
        function: called and awaited in the shared event loop.

    Raises:
        BaseException: whatever `function` raises.
    """
    with _job(function) as result:
        return result()


def iterate(make: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
    """Iterate over an async generator from synchronous code.

    The async generator does not wait until the caller has read an item: items are queued without limit.
    Leaving the iteration early cancels the generator and waits until the generator has ended.

    Args:
        make: returns the async generator; called in the shared event loop.

    Yields:
        The items of the async generator, in order.

    Raises:
        BaseException: whatever the async generator raises, after its items.
    """
    read = SimpleQueue[tuple[T, ...]]()

    async def drive() -> None:
        try:
            async with aclosing(make()) as items:
                async for item in items:
                    read.put((item,))
        finally:
            read.put(())

    with _job(drive) as result:
        while item := read.get():
            yield item[0]
        result()


@contextmanager
def _job(function: Callable[[], Awaitable[T]]) -> Generator[Callable[[], T], None, None]:
    """Run a function in the shared loop until the block ends; yield a function that waits for its result."""
    thread, context = _thread.get(), copy_context()
    if thread.is_current():
        thread = thread.beneath()
        context.run(_thread.set, thread)
    loop, tasks, ended = thread.loop(), list[asyncio.Task[T]](), Event()

    async def work() -> T:
        return await function()

    def start() -> None:
        tasks.append(loop.create_task(work()))
        tasks[0].add_done_callback(lambda _: ended.set())

    def cancel() -> None:
        for task in tasks:
            task.cancel()
            task.add_done_callback(retrieve)
        if not tasks:  # interrupted before `start`
            ended.set()

    def result() -> T:
        ended.wait()
        return tasks[0].result()

    try:
        loop.call_soon_threadsafe(start, context=context)
        yield result
    finally:
        if not ended.is_set():
            loop.call_soon_threadsafe(cancel)
            ended.wait()


class _LoopThread:
    """An event loop in a daemon thread. Both start with the first call."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beneath: _LoopThread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(DaemonThreads(_MAX_THREADS, "podium-sync"))
                asyncio.run_coroutine_threadsafe(_allow_threads(), self._loop)
                Thread(target=_serve, args=(self._loop,), name="podium-sync", daemon=True).start()
            return self._loop

    def is_current(self) -> bool:
        try:
            running: Any = asyncio.get_running_loop()
        except RuntimeError:
            return False
        return running is self._loop

    def beneath(self) -> "_LoopThread":
        """Return the thread for calls from inside this loop."""
        with self._lock:
            self._beneath = self._beneath or _LoopThread()
            return self._beneath

    def forget(self) -> None:
        """Reset after a fork: the child process has no thread for the loop, and the lock may stay locked."""
        self._lock, self._loop = Lock(), None
        if self._beneath is not None:
            self._beneath.forget()


async def _allow_threads() -> None:
    current_default_thread_limiter().total_tokens = _MAX_THREADS


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            # The caller gets the exception. asyncio also stops the loop, but other calls must continue.
            continue


_FIRST: Final = _LoopThread()
_thread: Final = ContextVar("podium_sync_thread", default=_FIRST)
"""The thread that runs the calls of this context."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FIRST.forget)
