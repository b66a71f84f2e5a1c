"""What the checkpointer of the user's graph stores for a conductor's node.

The graphs of plans store their states. The record of the run is stored beside them: a node updates the
graph's state only when it ends. If it fails, is interrupted or cancelled, or its process dies, then the same
node runs again, and reads what it has stored here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

from anyio.to_thread import run_sync
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointMetadata,
    CheckpointTuple,
    empty_checkpoint,
)
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from langchain_podium.cancellation import loops_around
from langchain_podium.graph.around import CHECKPOINTER
from langchain_podium.graph.plan_graph import APPROVE, Part, compiled, shape_of
from langchain_podium.graph.state import VIEW, plan_of
from podium.conductor import Conductor
from podium.errors import PodiumError

PlanGraph = CompiledStateGraph[Any, Any, Any, Any]
UNKNOWN: Final = (Part("steps", ()),)
"""The shape of the graph of a plan that does not exist yet."""

SCRATCHPAD: Final = "__pregel_scratchpad"
"""The configuration key of the counters and the answers of a node."""
RESUME_MAP: Final = "__pregel_resume_map"
"""The configuration key of the answers that were given by the ids of interrupts."""
_INTERRUPT: Final = "__interrupt__"
"""The name under which LangGraph stores the interrupts of a node."""
_ERROR: Final = "__error__"
"""The name under which LangGraph stores the error of a node."""
_WRITE: Final = "__pregel_send"
"""The configuration key of the function that adds to what LangGraph stores of a node."""
_RECORD: Final = "podium_record"
_RESUMING: Final = "__pregel_resuming"
"""The configuration key that shows a node whether its graph is resumed."""
_OF_CHECKPOINT: Final = ("checkpoint_id", "checkpoint_map")


class Checkpoints:
    """The checkpoints of a conductor's node.

    `is_sync` is whether sync code called the graph, whose checkpointer may only support sync calls.
    """

    def __init__(self, config: RunnableConfig, conductor: Conductor, *, is_sync: bool) -> None:
        given = config.get("configurable", {})
        self.place: str = given.get("checkpoint_ns", "")
        """The namespace of the node, which is the same in all tries of LangGraph's retry policy."""
        self._saver: BaseCheckpointSaver[Any] | None = given.get(CHECKPOINTER) or None
        self._resumes = bool(given.get(_RESUMING, True))
        self._addressed: dict[str, str] = given.get("checkpoint_map") or {}
        self._id: str | None = given.get("checkpoint_id")
        own = {name: value for name, value in given.items() if not name.startswith("__")}
        self._own = {name: value for name, value in own.items() if name not in _OF_CHECKPOINT}
        self._version: Any = None
        self._conductor = conductor
        self._is_sync = is_sync

    @property
    def exist(self) -> bool:
        """Whether the graph has a checkpointer."""
        return self._saver is not None

    async def read(self) -> list[str]:
        """Return the lines of the record that were stored last; empty if there are none."""
        kept = await self._get(f"{self.place}|{_RECORD}") if self._resumes else None
        if kept is None:
            return []
        self._version = kept.checkpoint["channel_versions"][_RECORD]
        lines: list[str] = kept.checkpoint["channel_values"][_RECORD]
        return lines

    async def write(self, lines: Sequence[str]) -> None:
        """Store the lines of a record; return when they are stored."""
        if self._saver is None:
            return
        self._version = self._saver.get_next_version(self._version, None)
        versions = {_RECORD: self._version}
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {_RECORD: list(lines)}
        checkpoint["channel_versions"] = versions
        place = RunnableConfig(configurable={**self._own, "checkpoint_ns": f"{self.place}|{_RECORD}"})
        stored = (place, checkpoint, CheckpointMetadata(), versions)
        if self._is_sync:
            await run_sync(self._saver.put, *stored)
        else:
            await self._saver.aput(*stored)

    async def state(self, number: int) -> Mapping[str, Any] | None:
        """Return the latest state of the graph of a plan, with what its nodes have delivered; else `None`.

        `number` is how many plans of the run have other graphs before.
        """
        return await self._read(await self._latest_pass(number) if self._resumes else None)

    async def addressed(self) -> Mapping[str, Any] | None:
        """Return the state of a graph in an earlier call of the node, if the run starts from it."""
        for place, checkpoint in self._addressed.items():
            if _names(place) == _names(self.place) and not f"{place}|".startswith(f"{self.place}|"):
                return await self._read(await self._get(place, checkpoint), checkpoint)
        return None

    async def _read(
        self, found: CheckpointTuple | None, checkpoint: str | None = None
    ) -> Mapping[str, Any] | None:
        if found is None or (graph := self._graph_of(found)) is None:
            return None
        own = found.config["configurable"]["checkpoint_ns"]
        config = self._config(own, checkpoint or self._addressed.get(own))
        if self._is_sync:
            state = await run_sync(graph.get_state, config)
        else:
            state = await graph.aget_state(config)
        values: Mapping[str, Any] = state.values
        return values

    async def graph(self, config: RunnableConfig) -> tuple[PlanGraph, RunnableConfig]:
        """Return the graph of the plan that a configuration names, or of the latest one, and its state's."""
        found, own = await self._latest(), config["configurable"]
        if found is None or (graph := self._graph_of(found)) is None:
            return compiled(UNKNOWN, approves=False), config
        place = {**own, "checkpoint_ns": found.config["configurable"]["checkpoint_ns"]}
        return graph, RunnableConfig(**{**config, "configurable": place})

    def _graph_of(self, found: CheckpointTuple) -> PlanGraph | None:
        """Return the graph of the plan in a checkpoint; `None` if it has none."""
        if (view := found.checkpoint["channel_values"].get(VIEW)) is None:
            return None
        approves = f"branch:to:{APPROVE}" in found.checkpoint["channel_versions"]
        try:
            return compiled(shape_of(plan_of(view, self._conductor), self._conductor), approves=approves)
        except PodiumError:  # it was edited, and can be edited again
            return compiled(UNKNOWN, approves=False)

    async def _latest(self) -> CheckpointTuple | None:
        """Return the checkpoint that the configuration names, or else the latest of all plans' graphs."""
        if self._id is not None:
            return await self._get(self.place, self._id)
        found, parts = None, self.place.split("|")
        while parts[-1].isdigit():  # of the graph of a plan
            parts.pop()
        self.place = "|".join(parts)
        for number in count():
            if (later := await self._latest_pass(number)) is None:
                break
            found = later
        return found

    async def _latest_pass(self, number: int) -> CheckpointTuple | None:
        found = None
        for passes in count():
            if (later := await self._get(namespace(self.place, number, passes))) is None:
                break
            found = later
        return found

    async def _get(self, place: str, checkpoint: str | None = None) -> CheckpointTuple | None:
        if self._saver is None:
            return None
        config = self._config(place, checkpoint or self._addressed.get(place))
        if self._is_sync:
            return await run_sync(self._saver.get_tuple, config)
        return await self._saver.aget_tuple(config)

    def _config(self, place: str, checkpoint: str | None) -> RunnableConfig:
        own = {**self._own, CHECKPOINTER: self._saver, "checkpoint_ns": place}
        return RunnableConfig(configurable=own | ({"checkpoint_id": checkpoint} if checkpoint else {}))


def answers_in(config: RunnableConfig, is_ours: Callable[[object], bool]) -> tuple[dict[str, Any], Any]:
    """Return what people have answered in this call of the graph, by the ids of interrupts.

    LangGraph stores an answer without an id, and gives it to the next interrupt in the node, even in a later
    call. So the second value is the scratchpad for the graphs inside, in which they find such an answer only
    if it was given in this call, and not to an interrupt that `is_ours`.
    """
    own = config["configurable"]
    found: dict[str, Any] = dict(own.get(RESUME_MAP) or {})
    is_hidden = True
    for loop in () if found else loops_around(config):
        if not isinstance(loop.input, Command) or (said := loop.input.resume) is None:
            continue
        open_ = loop._pending_interrupts()  # noqa: SLF001 - those that the person has seen
        writes = [value for _, channel, value in loop.checkpoint_pending_writes if channel == _INTERRUPT]
        shown = [each for value in writes for each in value if each.id in open_]
        found |= {each.id: said for each in shown if is_ours(each.value)}
        is_hidden = bool(found)
    pad = own[SCRATCHPAD]
    return found, replace(pad, get_null_resume=lambda *_: None) if is_hidden else pad


def forget_interrupts(config: RunnableConfig, error: Exception) -> None:
    """Store that a node which raises an error waits for no answer; LangGraph keeps its last interrupts."""
    config["configurable"][_WRITE]([(_ERROR, error), (_INTERRUPT, ())])


def namespace(place: str, number: int, passes: int = 0) -> str:
    """Return the namespace of the graph of a plan, after `number` other plans and `passes` of this one."""
    parts = (number, passes) if passes else (number,) if number else ()
    return "|".join((place, *map(str, parts)))


def _names(place: str) -> list[str]:
    """Return the names of the nodes of a namespace."""
    return [part.partition(":")[0] for part in place.split("|") if not part.isdigit()]
