"""Run LangChain's coroutines and streams so that a cancellation reaches them exactly once.

There are two problems. First, LangChain runs code in its own tasks. A cancel scope of anyio cancels a task
that waits for such tasks again and again, in every iteration of the event loop. Each of these cancellations
is passed on. If a connection is just being closed, the cancellation interrupts this, and the connection stays
open. Second, a stream of LangChain that is closed between two items does not close its inner streams. Their
connections stay open until garbage collection. Therefore such code runs in a separate task, which is
cancelled once, and awaited until it ends.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from contextvars import Context
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakSet

import anyio
from langchain_core.runnables import RunnableConfig

T = TypeVar("T")
_CLOSE_SECONDS: Final = 1.0
"""Time in seconds in which a cancelled task must close its resources."""
_NODE_CALL: Final = "__pregel_call"
"""The configuration key of the function with which a node of a graph calls tasks."""
_LEFT: Final = WeakSet[Any]()
"""The loops of sync graphs whose stream was left; a node may still begin in a graph inside of theirs."""
_AHEAD: Final = 1000
"""Maximum number of stream items that are read ahead."""


async def apart(work: "Coroutine[Any, Any, T] | asyncio.Task[T]") -> T:
    """Run `work` in a separate task; a cancellation reaches it once, and is awaited."""
    task = work if isinstance(work, asyncio.Task) else asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await cancelled(task)
        raise
    return task.result()


async def each(
    stream: AsyncIterator[T],
    context: Context | None = None,
    errors: AbstractContextManager[None] | None = None,
) -> AsyncGenerator[T, None]:
    """Yield the items of `stream`, which is read in a separate task. Leaving early cancels the task.

    `context` has the context variables of the task, by default the caller's; `errors` translates its error.
    """
    read = asyncio.Queue[tuple[T, ...]]()

    async def reading() -> None:
        try:
            async for piece in stream:
                if task.cancelling():  # before Python 3.12, `asyncio.wait_for` can lose a cancellation
                    task.cancel()
                read.put_nowait((piece,))
                if read.qsize() > _AHEAD:
                    await read.join()
        finally:
            read.put_nowait(())

    task = asyncio.get_running_loop().create_task(reading(), context=context)
    try:
        while piece := await read.get():
            read.task_done()
            yield piece[0]
        await asyncio.wait([task])
    finally:
        await cancelled(task)
    with errors or nullcontext():
        task.result()


async def until_left(config: RunnableConfig | None, work: Callable[[], Awaitable[T]]) -> T:
    """Await `work`, which a node of a sync graph waits for; cancel it if the graph's stream is left.

    LangGraph waits for all nodes when its stream is closed, and does not tell them. But it first closes the
    `ExitStack` of the graph's loop, also for each graph that contains the graph.
    """
    task, running = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None

    def leave(loop: Any, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):  # closed or interrupted, and not failed
            _LEFT.add(loop)
            running.call_soon_threadsafe(_cancel_unless_done, task)

    for loop in loops_around(config):
        if not isinstance(stack := getattr(loop, "stack", None), ExitStack):
            break  # of an async graph, which cancels its nodes
        stack.push(partial(leave, loop))
        if loop in _LEFT:
            raise asyncio.CancelledError
    return await work()


def loops_around(config: RunnableConfig | None) -> Iterator[Any]:
    """Yield LangGraph's loops of the graphs around a node, the innermost first."""
    inside = config or RunnableConfig()
    while (call := inside.get("configurable", {}).get(_NODE_CALL)) is not None:
        loop: Any = getattr(getattr(call, "keywords", {}).get("schedule_task"), "__self__", None)
        if loop is None:
            return
        yield loop
        inside = loop.config


def _cancel_unless_done(task: "asyncio.Task[Any]") -> None:
    if not task.done():
        task.cancel()


async def cancelled(task: "asyncio.Task[Any]") -> None:
    """Cancel a task that has not ended, and wait for its end, ignoring further cancellations."""
    with anyio.CancelScope(shield=True):
        while not task.done():
            task.cancel()  # repeated because `asyncio.wait_for` loses some cancellations before Python 3.12
            until = asyncio.get_running_loop().time() + _CLOSE_SECONDS
            while not task.done() and (left := until - asyncio.get_running_loop().time()) > 0:
                with suppress(asyncio.CancelledError):  # repeated by the cancellation that led here
                    await asyncio.wait([task], timeout=left)
    if not task.cancelled():
        task.exception()  # retrieved so that asyncio does not log it; the caller has left, or raises it


class CallInThread:
    """A call of sync code in a thread, which runs coroutines in the event loop of its caller."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Task[Any]]()
        self._is_stopped = False

    async def call(self, work: Callable[[], Any]) -> Any:
        """Call `work` in a thread; a cancellation stops its coroutines, and waits for its end."""
        call = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            await self._stop(call)
            raise
        return call.result()

    async def _stop(self, call: "asyncio.Future[Any]") -> None:
        self._is_stopped = True
        with anyio.CancelScope(shield=True):
            while not call.done():
                for task in self._tasks:
                    task.cancel()  # repeated as in `cancelled`
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([call], timeout=_CLOSE_SECONDS)
        if not call.cancelled():
            call.exception()

    def wait_for(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine in the event loop, and return its result to the thread."""

        async def run() -> T:
            task = asyncio.current_task()
            assert task is not None
            if self._is_stopped:
                raise asyncio.CancelledError
            self._tasks.add(task)
            try:
                return await work()
            finally:
                self._tasks.discard(task)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()
