"""A context manager that consists of other context managers."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self


class ResourceGroup:
    """An async context manager that enters and exits its parts.

    A group can be entered any number of times if each of its parts can. Each entry must be exited in the task
    that made it, so parts may hold task groups open.
    """

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        """Return the parts in the order in which they are entered; always the same parts."""
        return ()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as entered:
            for part in self._parts():
                await entered.enter_async_context(part)
            entered.pop_all()  # `__aexit__` exits the parts; the stack exits them only if an entry fails
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


class Resources(ResourceGroup):
    """A group of these parts.

    Args:
        parts: the parts.
    """

    def __init__(self, parts: Sequence[AbstractAsyncContextManager[Any]]) -> None:
        self._members = parts

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return self._members
