"""The record of a run whose node is left by an exception, and so writes nothing to the graph's state.

LangGraph keeps the results of tasks that a node has called, and returns them where the same node runs
again and calls them in the same order.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.func import task

from langchain_podium.graph.state import RECORD

_RESUMING: Final = "__pregel_resuming"
"""Key of the configuration under which LangGraph tells a node whether its graph is resumed."""


class KeptRecord:
    """The record that a node keeps for its next run, with the graph's checkpointer.

    Args:
        config: the configuration of the node.
        is_sync: whether the graph was called by code that is not async.
    """

    def __init__(self, config: RunnableConfig, *, is_sync: bool) -> None:
        self._may_be_kept = bool(config.get("configurable", {}).get(_RESUMING, True))
        self._is_sync = is_sync

    async def read(self) -> list[str] | None:
        """Return the lines that were kept last; `None` if the node has kept none."""
        kept: list[str] | None = None
        is_new = not self._may_be_kept
        while not is_new:
            lines, is_new = await self._call(None)
            kept = lines or kept
        return kept

    async def write(self, lines: Sequence[str]) -> None:
        """Keep the lines of a record."""
        await self._call(list(lines))

    async def _call(self, lines: list[str] | None) -> tuple[list[str] | None, bool]:
        """Return the result of the next task of the node, and whether the task has run now."""
        has_run = False

        def keep(lines: list[str] | None) -> list[str] | None:
            nonlocal has_run
            has_run = True
            return lines

        async def keep_async(lines: list[str] | None) -> list[str] | None:
            return keep(lines)

        named: Any = task(name=RECORD)
        if self._is_sync:
            result = await asyncio.wrap_future(named(keep)(lines))
        else:
            result = await named(keep_async)(lines)
        return result, has_run
