"""What is held open while it is in use: entering it enters its parts, leaving it leaves them."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Self


class ResourceGroup:
    """An async context manager over its parts, that may be entered any number of times."""

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        """Return what is entered with this, in order; the same at every time."""
        return ()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as entered:
            for part in self._parts():
                await entered.enter_async_context(part)
            entered.pop_all()  # `__aexit__` leaves them; the stack only undoes a start that fails half-way
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
