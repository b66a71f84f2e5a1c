"""Store the record of a run before its node has ended, in the checkpointer of the graph.

A node updates the graph's state only when it ends. If it fails, is cancelled, or its process dies, then the
same node runs again, and reads what it has stored here.
"""

from collections.abc import Sequence
from typing import Any, Final

from anyio.to_thread import run_sync
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata, empty_checkpoint

from langchain_podium.graph.around import CHECKPOINTER
from langchain_podium.graph.state import RECORD

_RESUMING: Final = "__pregel_resuming"
"""The configuration key that shows a node whether its graph is resumed."""
_OF_CHECKPOINT: Final = ("checkpoint_id", "checkpoint_map")


class KeptRecord:
    """The record that a node stores for its next run, in the graph's checkpointer, beside its checkpoints.

    Args:
        config: the configuration of the node.
        place: the namespace of the conductor's node, which is the same in all tries of LangGraph's retry
            policy, also if the node is a graph.
        is_sync: whether sync code called the graph, whose checkpointer may only support sync calls.
    """

    def __init__(self, config: RunnableConfig, place: str, *, is_sync: bool) -> None:
        given = config.get("configurable", {})
        self._saver: BaseCheckpointSaver[Any] | None = given.get(CHECKPOINTER) or None
        self._may_be_kept = bool(given.get(_RESUMING, True))
        own = {name: value for name, value in given.items() if not name.startswith("__")}
        own = {name: value for name, value in own.items() if name not in _OF_CHECKPOINT}
        self._place = RunnableConfig(configurable={**own, "checkpoint_ns": f"{place}|{RECORD}"})
        self._version: Any = None
        self._is_sync = is_sync

    @property
    def is_stored(self) -> bool:
        """Whether the graph has a checkpointer."""
        return self._saver is not None

    async def read(self) -> list[str]:
        """Return the lines that were stored last; empty if there are none."""
        if self._saver is None or not self._may_be_kept:
            return []
        if self._is_sync:
            kept = await run_sync(self._saver.get_tuple, self._place)
        else:
            kept = await self._saver.aget_tuple(self._place)
        if kept is None:
            return []
        self._version = kept.checkpoint["channel_versions"][RECORD]
        lines: list[str] = kept.checkpoint["channel_values"][RECORD]
        return lines

    async def write(self, lines: Sequence[str]) -> None:
        """Store the lines of a record; return when they are stored."""
        if self._saver is None:
            return
        self._version = self._saver.get_next_version(self._version, None)
        versions = {RECORD: self._version}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {RECORD: list(lines)}
        checkpoint["channel_versions"] = versions
        stored = (self._place, checkpoint, CheckpointMetadata(), versions)
        if self._is_sync:
            await run_sync(self._saver.put, *stored)
        else:
            await self._saver.aput(*stored)
