"""An executor with daemon threads for blocking calls."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Lock, Semaphore, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose running calls do not delay the exit of the interpreter.

    When Python exits, it waits for all calls of a normal `ThreadPoolExecutor`. After a time limit or Ctrl-C,
    a blocking call continues in its thread, and would keep the process alive. `DaemonThreads` is a subclass
    of `ThreadPoolExecutor`, because an event loop accepts no other executor.

    Args:
        most: maximum number of calls at once; further calls wait in order.
        name: the name of the threads.
    """

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
