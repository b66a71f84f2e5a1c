"""Code that is not async running code that is, all of it in one event loop: for frameworks' clients.

That loop runs in a thread of its own for as long as the process does. The clients of chat
models keep their connections from call to call, and a connection lives in one loop: with a
loop for each call, every second one would find a connection whose loop is closed. What is
called from within that loop, which then waits and does nothing else, runs in one beneath it.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing
from contextvars import ContextVar, copy_context
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


def run_sync(function: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end, inside a running event loop too.

    It has the context variables of whoever calls. Leaving it (Ctrl-C) cancels it.
    """
    job = _Job(function)
    try:
        return job.result()
    finally:
        job.cancel()


def iterate(make: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
    """Yield what an async generator does, inside a running event loop too.

    It goes on while the reader is busy. Leaving early cancels it, and waits until it is gone.

    Args:
        make: makes the generator; called in the loop's thread.
    """
    read = SimpleQueue[tuple[T, ...]]()

    async def drive() -> None:
        try:
            async with aclosing(make()) as pieces:
                async for piece in pieces:
                    read.put((piece,))
        finally:
            read.put(())

    job = _Job(drive)
    try:
        while piece := read.get():
            yield piece[0]
        job.result()
    finally:
        job.cancel()


class _Job(Generic[T]):
    """One function at work in the loop."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        home, context = _home.get(), copy_context()
        if home.is_here():  # waiting for itself, it would wait for ever
            home = home.beneath()
            context.run(_home.set, home)
        self._ended = Event()
        self._loop = home.loop()
        self._loop.call_soon_threadsafe(self._start, function, context=context)

    def _start(self, function: Callable[[], Awaitable[T]]) -> None:
        async def work() -> T:
            return await function()

        self._task = self._loop.create_task(work())
        self._task.add_done_callback(lambda _: self._ended.set())

    def result(self) -> T:
        """Wait for the end, and return or raise what it came to."""
        self._ended.wait()
        return self._task.result()

    def cancel(self) -> None:
        """Cancel what is not over, and wait until it is gone."""
        if self._ended.is_set():
            return
        self._loop.call_soon_threadsafe(lambda: self._task.cancel())  # noqa: PLW0108 - made by an earlier call
        self._ended.wait()
        if not self._task.cancelled():
            self._task.exception()  # whoever asked has left


class _Home:
    """The loop, and the thread it runs in; a forked process makes its own."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._beneath: _Home | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, running."""
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop, self._process = asyncio.new_event_loop(), os.getpid()
                Thread(target=self._loop.run_forever, name="podium-home", daemon=True).start()
            return self._loop

    def is_here(self) -> bool:
        """Say whether this is the loop's own thread."""
        try:
            running: Any = asyncio.get_running_loop()
        except RuntimeError:
            return False
        return running is self._loop

    def beneath(self) -> "_Home":
        """Return where code in this loop has its own calls run, while it waits for them."""
        with self._lock:
            self._beneath = self._beneath or _Home()
            return self._beneath


_home: Final = ContextVar("podium_home", default=_Home())  # noqa: B039 - one for all is what it is for
"""Where what is called here runs."""
