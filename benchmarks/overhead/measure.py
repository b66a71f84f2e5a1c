"""Measures the cells of a grid: arms start side by side and then take turns, round by round."""

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
"""Fewest runs in a block with one run in flight: a median needs some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Rounds and their length."""

    rounds: int
    """Blocks of each arm in each cell, at most."""
    seconds: float
    """Length of a block; longer where `RUNS` runs, or one run in each lane, take longer."""
    cell_seconds: float = 30.0
    """No further round of a cell begins if it would end after this."""


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
    """Start the loopback server, and end it with the block."""
    async with start_child("overhead.worker_server") as child:
        port = (await child.read())["port"]
        yield Server(f"http://127.0.0.1:{port}", child)


async def measure_cell(cell: Cell, arms: Sequence[Arm], server: Server, pace: Pace) -> list[Reading]:
    """Measure `arms` in `cell`, side by side.

    Raises:
        PodiumError: a process ended early, or an arm did not make the calls the job asks for.
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
            first = number % len(turns)  # whoever comes first meets a machine at rest
            for turn in turns[first:] + turns[:first]:
                await turn.take(server, seconds)
        return [turn.reading() for turn in turns]


class _Turn:
    """One arm's process, and what it has measured so far."""

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
        """Return what was measured."""
        runs = sum(block.runs + block.warm_runs for block in self._blocks)
        due = 0 if self._cell.delay_ms is None else len(SHAPES[self._cell.shape].steps)
        if self._calls != due * runs:
            made = self._calls / runs
            raise PodiumError(f"arm {self._arm}: {made:.2f} calls per run, where the job asks for {due}")
        return Reading(
            arm=self._arm,
            cell=self._cell,
            blocks=tuple(self._blocks),
            calls=self._calls / runs,
            sent_bytes=self._sent_bytes / runs,
        )
