"""Threads for blocking calls, for which the interpreter does not wait at its end."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose threads end with the interpreter, in the midst of their calls.

    The interpreter waits at its end for all calls of a `ThreadPoolExecutor`. A blocking call
    that a limit or Ctrl-C has ended goes on in its thread, and would keep the process alive.
    It is a `ThreadPoolExecutor` because an event loop takes no other kind.

    Args:
        most: most calls at once; further ones wait in the order they came.
        name: the name of the threads.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, name)  # whose own threads start in `submit` only
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
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
    else:
        future.set_result(result)
