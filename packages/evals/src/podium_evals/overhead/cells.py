"""What is measured: arms, cells, and the blocks of runs they are measured in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, get_args

from podium_evals.overhead.job import SHAPES, ShapeName

Arm = Literal[
    "floor",
    "podium",
    "langgraph",
    "langgraph-openai",
    "langgraph-built",
    "langgraph-built-openai",
    "langgraph-nested",
    "podium-runnable",
    "podium-steps",
    "podium-node",
]
ARMS: tuple[Arm, ...] = get_args(Arm)
_NO_OP_ONLY: tuple[Arm, ...] = ("langgraph-nested", "podium-runnable", "podium-steps", "podium-node")
"""Arms that say what they add to another arm, which is the same whatever the workers do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of the grid, in which arms are compared."""

    shape: ShapeName
    delay_ms: int | None
    """How long the server waits before it answers; `None` means no-op workers in the process."""
    in_flight: int
    """Runs that are under way at any time."""

    @property
    def workers(self) -> str:
        """The workers in words: `no-op` or `HTTP 10 ms`."""
        return "no-op" if self.delay_ms is None else f"HTTP {self.delay_ms} ms"

    @property
    def critical_ms(self) -> float:
        """What the workers themselves make a run last, in milliseconds."""
        return (self.delay_ms or 0) * float(len(SHAPES[self.shape].critical_path()))

    def arms(self, wanted: Sequence[Arm]) -> tuple[Arm, ...]:
        """Return those of `wanted` that have a meaning here: a no-op is no `ChatOpenAI`."""
        if self.delay_ms is None:
            return tuple(arm for arm in wanted if not arm.endswith("openai"))
        return tuple(arm for arm in wanted if arm not in _NO_OP_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Some runs of one arm in one cell, one after the other or side by side."""

    runs: int
    warm_runs: int
    """Runs made just before, which are not counted."""
    wall_s: float
    """From the first run's start to the last one's end, in seconds."""
    cpu_s: float
    """CPU time of the client's process meanwhile, user and system, in seconds."""
    run_s: float
    """Median duration of one run, in seconds."""
    peak_kib: int
    """Largest resident memory of the client's process so far, in KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was measured of one arm in one cell."""

    arm: Arm
    cell: Cell
    blocks: tuple[Block, ...]
    """One for each round, in order."""
    calls: float
    """Calls of a worker per run, as the server counted them; 0 for no-op workers."""
    sent_bytes: float
    """Bytes of request bodies per run, as the server counted them; 0 for no-op workers."""

    @property
    def run_ms(self) -> float:
        """Duration of one run, in milliseconds."""
        return 1e3 * median(block.run_s for block in self.blocks)

    @property
    def overhead_ms(self) -> float:
        """What a run lasts beyond its critical path, in milliseconds."""
        return self.run_ms - self.cell.critical_ms

    @property
    def cpu_ms(self) -> float:
        """CPU time of one run, in milliseconds."""
        return 1e3 * median(cpu_of(block) for block in self.blocks)

    @property
    def rate(self) -> float:
        """Runs per second."""
        return median(rate_of(block) for block in self.blocks)

    @property
    def peak_mib(self) -> float:
        """Largest resident memory of the client's process, in MiB."""
        return max(block.peak_kib for block in self.blocks) / 1024

    def over(self, other: "Reading", measure: Callable[[Block], float]) -> float:
        """Return how many times `other`'s measure this one's is: the median over the rounds."""
        rounds = zip(self.blocks, other.blocks, strict=True)
        return median(measure(own) / measure(others) for own, others in rounds)


def cpu_of(block: Block) -> float:
    """Return the CPU time of one run, in seconds."""
    return block.cpu_s / block.runs


def rate_of(block: Block) -> float:
    """Return the runs per second."""
    return block.runs / block.wall_s


def run_of(block: Block) -> float:
    """Return the median duration of one run, in seconds."""
    return block.run_s
