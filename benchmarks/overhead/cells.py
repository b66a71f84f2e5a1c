"""The arms, the cells of the grid, and the reading of an arm in a cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, get_args

from benchmarks.block import Block, cpu_of, rate_of
from benchmarks.job import SHAPES, ShapeName

Arm = Literal[
    "floor",
    "podium",
    "langgraph",
    "langgraph-openai",
    "langgraph-built",
    "langgraph-built-openai",
    "langgraph-nested",
    "podium-runnable",
    "podium-node",
]
ARMS: tuple[Arm, ...] = get_args(Arm)
_NO_OP_ONLY: tuple[Arm, ...] = ("langgraph-nested", "podium-runnable", "podium-node")
"""Arms for no-op workers only, because their difference to another arm is the same for all workers."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the grid."""

    shape: ShapeName
    delay_ms: int | None
    """Delay of the server's answers; `None` for no-op workers in the process."""
    in_flight: int
    """Number of concurrent runs."""

    @property
    def workers(self) -> str:
        """The workers as text: `no-op` or `HTTP 10 ms`."""
        return "no-op" if self.delay_ms is None else f"HTTP {self.delay_ms} ms"

    @property
    def critical_ms(self) -> float:
        """The sum of the workers' delays on the critical path, in milliseconds."""
        return (self.delay_ms or 0) * float(len(SHAPES[self.shape].layers))

    def arms(self, wanted: Sequence[Arm]) -> tuple[Arm, ...]:
        """Return the arms of `wanted` for this cell; no-op workers exclude `ChatOpenAI`, for example."""
        if self.delay_ms is None:
            return tuple(arm for arm in wanted if not arm.endswith("openai"))
        return tuple(arm for arm in wanted if arm not in _NO_OP_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The measurements of one arm in one cell."""

    arm: Arm
    cell: Cell
    blocks: tuple[Block, ...]
    """The block of each round, in order."""
    calls: float
    """Calls per run, counted by the server; 0 for no-op workers."""
    sent_bytes: float
    """Bytes of request bodies per run, counted by the server; 0 for no-op workers."""

    @property
    def run_ms(self) -> float:
        """Duration of one run, in milliseconds."""
        return 1e3 * median(block.run_s for block in self.blocks)

    @property
    def overhead_ms(self) -> float:
        """Duration of one run beyond its critical path, in milliseconds."""
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
        """Peak resident memory of the client's process, in MiB."""
        return max(block.peak_kib for block in self.blocks) / 1024

    def over(self, other: "Reading", measure: Callable[[Block], float]) -> float:
        """Return the ratio of a measure to `other`'s: the median of the ratios of all rounds."""
        rounds = zip(self.blocks, other.blocks, strict=True)
        return median(measure(own) / measure(others) for own, others in rounds)
