"""Context managers that are made of other context managers."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self


class ResourceGroup:
    """An async context manager that enters its parts when entered, and exits them when exited.

    It may be entered any number of times, if its parts may be. Each entry is exited in the task
    that made it, so parts may hold task groups open.
    """

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        """Return the parts in the order of entering; the same ones every time."""
        return ()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as entered:
            for part in self._parts():
                await entered.enter_async_context(part)
            entered.pop_all()  # `__aexit__` exits them; the stack is for an entry that fails half-way
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        async with AsyncExitStack() as leaving:
            for part in self._parts():
                leaving.push_async_exit(part)
