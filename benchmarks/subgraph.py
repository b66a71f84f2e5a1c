"""Compares one plan in LangGraph: wired by hand, in the conductor's node, and in the node with a subgraph.

The workers are functions that sleep, so that all CPU time is that of the frameworks. It measures what the
checkpointer stores for each byte of output, the wall time over the longest chain of steps, and many runs at
once in one event loop: the CPU time of each, and the longest time for which the loop is blocked.

Run it with `python -m benchmarks.subgraph [--runs 60] [--json FILE]`.
"""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Annotated, Any, NamedTuple

import aiosqlite
import anyio
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from rich.console import Console
from rich.table import Table
from typing_extensions import TypedDict

from langchain_podium import conductor_node
from podium import Card, Conductor, FunctionWorker, Plan, Step
from podium.planners import FixedPlanner
from podium.workers import FREE, StepInput

ARMS = ("by hand", "podium", "langgraph")
_ASKED: dict[str, Any] = {"messages": [("user", "How many?")]}
_CHARS = 5_000
_LOOK = 0.001
"""Seconds between two looks at the event loop."""
Saver = BaseCheckpointSaver[Any] | None


class Job(NamedTuple):
    """Steps, the seconds that each takes, and the characters that it writes."""

    access: Sequence[tuple[int, ...]]
    seconds: Sequence[float]
    chars: int = 100

    @property
    def critical(self) -> float:
        """The seconds of the longest chain of steps."""
        ends = list[float]()
        for seen, seconds in zip(self.access, self.seconds, strict=True):
            ends.append(max((ends[each] for each in seen), default=0.0) + seconds)
        return max(ends)

    async def work(self, index: int) -> str:
        """Do a step."""
        await anyio.sleep(self.seconds[index])
        return str(index)[-1] * self.chars


DIAMOND = ((), (0,), (0,), (1, 2))
CHAIN = ((), (0,), (1,), (2,), (3,), (4,))
SKEWED = Job(((), (), (0,), (1,), (2, 3)), (1.0, 0.1, 0.1, 1.0, 0.1))
WIDE = Job((*[()] * 12, (0,), (*range(13),)), (*[0.1 * number for number in range(12)], 1.0, 0.1))


class Chat(TypedDict, total=False):
    """The state of a user's graph with a conductor."""

    messages: Annotated[list[Any], add_messages]
    podium: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures of an arm."""

    arm: str
    checkpoints: int
    """Of a chain of six steps."""
    stored: float
    """Bytes of the checkpointer for each byte of the steps' outputs, in this chain."""
    stored_diamond: float
    skewed: float
    """Wall time over the longest chain of steps."""
    wide: float
    cpu: float
    """Milliseconds of a run among many."""
    lag: float
    """The longest time for which the event loop is blocked by many runs, in milliseconds."""


def graph_of(job: Job, arm: str, saver: Saver = None) -> Any:
    """Return the graph of an arm."""
    if arm == "by hand":
        return _wired(job, saver)

    def worker(index: int) -> FunctionWorker:
        async def work(_: StepInput) -> str:
            return await job.work(index)

        return FunctionWorker(work, card=Card(name=f"w{index}", price=FREE))

    plan = Plan(tuple(Step(index, f"step {index}", seen) for index, seen in enumerate(job.access)))
    conductor = Conductor(FixedPlanner(plan), [worker(index) for index in range(len(job.access))])
    executor: Any = arm
    graph = StateGraph(Chat)
    graph.add_node("conductor", conductor_node(conductor, executor=executor))
    graph.add_edge(START, "conductor")
    return graph.compile(checkpointer=saver)


def _wired(job: Job, saver: Saver) -> Any:
    last = len(job.access) - 1
    keys: dict[str, Any] = {f"step_{index}": str for index in range(last)}
    keys["messages"] = Annotated[list[Any], add_messages]
    state: Any = TypedDict("Wired", keys, total=False)  # type: ignore[misc]
    graph: Any = StateGraph(state)

    def node(index: int) -> Callable[[Any], Awaitable[Any]]:
        async def run(_: Any) -> Any:
            said = await job.work(index)
            return {"messages": [AIMessage(said)]} if index == last else {f"step_{index}": said}

        return run

    for index, seen in enumerate(job.access):
        graph.add_node(f"n{index}", node(index))
        names = [f"n{each}" for each in seen] or [START]
        graph.add_edge(names if len(names) > 1 else names[0], f"n{index}")
    return graph.compile(checkpointer=saver)


async def stored(arm: str, access: Sequence[tuple[int, ...]], path: Path) -> tuple[int, float]:
    """Return how many checkpoints a run leaves in a database, and its bytes for each byte of output."""
    config: Any = {"configurable": {"thread_id": "1"}}
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        job = Job(access, (0.01,) * len(access), _CHARS)
        await graph_of(job, arm, saver).ainvoke(_ASKED, config)
    async with aiosqlite.connect(path) as database:
        found = list[int]()
        for query in (
            "SELECT count(*), sum(length(checkpoint) + length(metadata)) FROM checkpoints",
            "SELECT 0, sum(length(value)) FROM writes",
        ):
            async with database.execute(query) as rows:
                found += await rows.fetchone() or ()
    return found[0], (found[1] + found[3]) / (_CHARS * len(access))


async def wall(arm: str, job: Job) -> float:
    """Return the wall time of a run over the longest chain of its steps."""
    graph = graph_of(job, arm)
    began = perf_counter()
    await graph.ainvoke(_ASKED)
    return (perf_counter() - began) / job.critical


async def at_once(arm: str, runs: int) -> tuple[float, float]:
    """Return the milliseconds of CPU time of each of many runs, and the longest time of a blocked loop."""
    graph = graph_of(Job(DIAMOND, (0.05,) * 4), arm)
    await graph.ainvoke(_ASKED)
    worst, is_over = 0.0, False

    async def look() -> None:
        nonlocal worst
        while not is_over:
            before = perf_counter()
            await asyncio.sleep(_LOOK)
            worst = max(worst, perf_counter() - before - _LOOK)

    async with anyio.create_task_group() as looking:
        looking.start_soon(look)
        began = process_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(runs):
                tasks.start_soon(graph.ainvoke, _ASKED)
        used, is_over = process_time() - began, True
    return 1000 * used / runs, 1000 * worst


async def measure(arm: str, runs: int) -> Measured:
    """Return the figures of an arm."""
    with TemporaryDirectory() as folder:
        checkpoints, size = await stored(arm, CHAIN, Path(folder, "chain.db"))
        _, diamond = await stored(arm, DIAMOND, Path(folder, "diamond.db"))
    cpu, lag = await at_once(arm, runs)
    skewed, wide = await wall(arm, SKEWED), await wall(arm, WIDE)
    return Measured(
        arm=arm,
        checkpoints=checkpoints,
        stored=size,
        stored_diamond=diamond,
        skewed=skewed,
        wide=wide,
        cpu=cpu,
        lag=lag,
    )


def main() -> None:
    """Measure all arms, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.subgraph", description=__doc__)
    parser.add_argument("--runs", type=int, default=60, help="runs at once in one event loop")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    found = [asyncio.run(measure(arm, given.runs)) for arm in ARMS]
    table = Table(*asdict(found[0]))
    for each in found:
        table.add_row(
            *(f"{value:.2f}" if isinstance(value, float) else str(value) for value in asdict(each).values())
        )
    Console().print(table)
    if given.json:
        given.json.write_text(json.dumps([asdict(each) for each in found], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
