"""Measures groups of arms, which start together and then alternate, round by round."""

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from uuid import uuid4

from benchmarks.block import Block
from benchmarks.child_process import Child, start_child
from benchmarks.durability.arms import Arm
from benchmarks.postgres_server import PostgresServer
from podium.errors import PodiumError

FLUSHES = 200


@dataclass(frozen=True, slots=True)
class Group:
    """Arms that are compared with each other."""

    arms: tuple[Arm, ...]
    latency_ms: int
    """Duration of a worker's call."""
    in_flight: int
    """Number of concurrent runs."""
    is_spread: bool = False
    """Whether the runs start at different times, as in a service; otherwise all steps end at once."""

    @property
    def spread(self) -> float:
        """Time over which the first runs start, in seconds: the duration of a run, three workers' calls."""
        return 3 * self.latency_ms / 1e3 if self.is_spread else 0.0


GROUPS = (
    Group(
        (
            "podium-sqlite",
            "podium-postgres",
            "dbos-sqlite",
            "dbos-sqlite-wal",
            "dbos-postgres",
            "langgraph-sqlite",
            "langgraph-postgres",
        ),
        0,
        32,
    ),
    Group(("podium", "podium-sqlite", "podium-postgres"), 100, 1),
    Group(("podium", "podium-sqlite", "podium-postgres"), 100, 32),
    Group(("podium", "podium-sqlite", "podium-postgres"), 100, 32, is_spread=True),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The measurements of one arm in one group."""

    arm: Arm
    group: Group
    blocks: tuple[Block, ...]
    """The block of each round, in order."""

    @property
    def rate(self) -> float:
        """Runs per second."""
        return median(block.runs / block.wall_s for block in self.blocks)

    @property
    def run_ms(self) -> float:
        """Duration of one run, in milliseconds."""
        return 1e3 * median(block.run_s for block in self.blocks)

    @property
    def cpu_ms(self) -> float:
        """CPU time of one run in its own process, in milliseconds."""
        return 1e3 * median(block.cpu_s / block.runs for block in self.blocks)

    def times_rate(self, other: "Reading") -> float:
        """Return the ratio of this arm's runs per second to `other`'s."""
        rounds = zip(self.blocks, other.blocks, strict=True)
        return median((own.runs / own.wall_s) / (others.runs / others.wall_s) for own, others in rounds)

    def more_time(self, other: "Reading") -> float:
        """Return how much longer a run takes than `other`'s, in percent."""
        rounds = zip(self.blocks, other.blocks, strict=True)
        return 100 * (median(own.run_s / others.run_s for own, others in rounds) - 1)


@dataclass(frozen=True, slots=True)
class Places:
    """The places of the databases."""

    folder: Path
    postgres: PostgresServer

    def new(self, arm: Arm) -> str:
        """Create an empty database for `arm` and return its URL; return `""` if it needs none."""
        if arm == "podium":
            return ""
        if arm.endswith("postgres"):
            return self.postgres.url(self.postgres.create_database(), driver="postgresql")
        path = self.folder / f"{uuid4().hex}.db"
        if arm == "dbos-sqlite-wal":
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
        return f"sqlite:///{path}"


async def measure(group: Group, places: Places, *, rounds: int, seconds: float) -> list[Reading]:
    """Measure the arms of a group.

    Raises:
        PodiumError: a process ended early, or the runs in a database differ from the answered runs.
    """
    async with AsyncExitStack() as started:
        turns: list[_Turn] = []
        for arm in group.arms:
            told = json.dumps([arm, places.new(arm), group.latency_ms / 1e3, group.in_flight, group.spread])
            turns.append(
                _Turn(arm, await started.enter_async_context(start_child("durability.arm_process", told)))
            )
        for turn in turns:
            await turn.child.read()
        for number in range(rounds):
            first = number % len(turns)  # rotate, because the first arm finds an idle machine
            for turn in turns[first:] + turns[:first]:
                turn.blocks.append(Block(**await turn.child.ask(str(seconds))))
        for turn in turns:
            await turn.check()
    return [Reading(turn.arm, group, tuple(turn.blocks)) for turn in turns]


def flush_ms(folder: Path) -> float:
    """Return the median time of a 4 KiB write with a flush to the disk of `folder`, in milliseconds."""
    path, took = folder / "flush", list[float]()
    with path.open("wb", buffering=0) as file:
        for _ in range(FLUSHES):
            began = perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            took.append(perf_counter() - began)
    path.unlink()
    return 1e3 * median(took)


class _Turn:
    """The process of one arm, and its measurements so far."""

    def __init__(self, arm: Arm, child: Child) -> None:
        self.arm = arm
        self.child = child
        self.blocks: list[Block] = []

    async def check(self) -> None:
        """Check that the database has as many runs as were answered."""
        answered = 1 + sum(block.runs + block.warm_runs for block in self.blocks)
        recorded = (await self.child.ask(""))["recorded"]
        if self.arm != "podium" and recorded != answered:
            raise PodiumError(f"arm {self.arm}: {answered} runs were answered, its database has {recorded}")


def file_system(folder: Path) -> str:
    """Return the type and device of the file system of `folder`, as in `ext4 on /dev/sda1`."""
    best = ("", "unknown")
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        device, mounted, kind = line.split()[:3]
        if folder.resolve().is_relative_to(mounted) and len(mounted) >= len(best[0]):
            best = (mounted, f"{kind} on {device}")
    return best[1]


def reading_of(readings: Sequence[Reading], group: Group, arm: Arm) -> Reading | None:
    """Return the reading of `arm` in `group`; `None` if there is none."""
    return next((reading for reading in readings if (reading.group, reading.arm) == (group, arm)), None)
