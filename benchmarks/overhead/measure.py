"""Measures the cells of a grid. The arms of a cell start together and then alternate, round by round."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from time import perf_counter

from benchmarks.block import Block
from benchmarks.child_process import Child, start_child
from benchmarks.job import SHAPES
from benchmarks.overhead.cells import Arm, Cell, Reading
from podium.errors import PodiumError

RUNS = 3
"""Minimum number of runs in a block with one run in flight, for the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The number of rounds and their length."""

    rounds: int
    """Maximum number of blocks of each arm in each cell."""
    seconds: float
    """Minimum length of a block, which has at least `RUNS` runs, or one run in each lane."""
    cell_seconds: float = 30.0
    """No new round of a cell starts if it would end after this time."""


@dataclass(frozen=True, slots=True)
class Server:
    """The loopback server."""

    url: str
    child: Child

    async def count(self) -> tuple[int, int]:
        """Return the calls and the bytes of request bodies since the last count."""
        counts = await self.child.ask("")
        return counts["calls"], counts["sent_bytes"]


@asynccontextmanager
async def serve() -> AsyncGenerator[Server, None]:
    """Run the loopback server during the block."""
    async with start_child("overhead.worker_server") as child:
        port = (await child.read())["port"]
        yield Server(f"http://127.0.0.1:{port}", child)


async def measure_cell(cell: Cell, arms: Sequence[Arm], server: Server, pace: Pace) -> list[Reading]:
    """Measure `arms` in `cell`.

    Raises:
        PodiumError: a process ended early, or an arm made another number of calls than the job needs.
    """
    async with AsyncExitStack() as started:
        turns: list[_Turn] = []
        for arm in arms:
            told = json.dumps({"arm": arm, "cell": asdict(cell), "server_url": server.url})
            turns.append(
                _Turn(arm, cell, await started.enter_async_context(start_child("overhead.arm_process", told)))
            )
        for turn in turns:
            await turn.child.read()
        await server.count()
        seconds = max(pace.seconds, RUNS * cell.critical_ms / 1e3)
        began = perf_counter()
        for number in range(pace.rounds):
            lasted = (perf_counter() - began) / number if number else 0.0
            if perf_counter() - began + lasted > pace.cell_seconds and number:
                break
            first = number % len(turns)  # rotate, because the first arm finds an idle machine
            for turn in turns[first:] + turns[:first]:
                await turn.take(server, seconds)
        return [turn.reading() for turn in turns]


class _Turn:
    """The process of one arm, and its measurements so far."""

    def __init__(self, arm: Arm, cell: Cell, child: Child) -> None:
        self.child = child
        self._arm = arm
        self._cell = cell
        self._blocks: list[Block] = []
        self._calls = 0
        self._sent_bytes = 0

    async def take(self, server: Server, seconds: float) -> None:
        """Measure one block."""
        self._blocks.append(Block(**await self.child.ask(str(seconds))))
        calls, sent_bytes = await server.count()
        self._calls += calls
        self._sent_bytes += sent_bytes

    def reading(self) -> Reading:
        """Return the measurements."""
        runs = sum(block.runs + block.warm_runs for block in self._blocks)
        due = 0 if self._cell.delay_ms is None else len(SHAPES[self._cell.shape].steps)
        if self._calls != due * runs:
            made = self._calls / runs
            raise PodiumError(f"arm {self._arm}: {made:.2f} calls per run, but the job needs {due}")
        return Reading(
            arm=self._arm,
            cell=self._cell,
            blocks=tuple(self._blocks),
            calls=self._calls / runs,
            sent_bytes=self._sent_bytes / runs,
        )
