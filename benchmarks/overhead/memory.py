"""Measures the resident memory of one process over many runs.

As a program with the number of runs as its argument, the module prints one JSON object.
"""

import gc
import json
import sys
from dataclasses import asdict, dataclass

import anyio

from benchmarks.child_process import start_child
from benchmarks.overhead.arms.podium_alone import open_podium
from benchmarks.resident_memory import resident_kib

SAMPLES = 20
"""Number of equal parts of the runs; memory is measured after each part."""
WARM_SAMPLES = 5
"""Number of first parts that the slope leaves out, while caches and the allocator's pools fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The resident memory of one process over many runs."""

    runs: int
    resident_kib: tuple[int, ...]
    """After each part of the runs, in KiB."""

    @property
    def slope(self) -> float:
        """Slope of a line fitted to the sizes after the warm-up, in KiB per 1,000 runs."""
        sizes = self.resident_kib[WARM_SAMPLES:]
        part = self.runs / SAMPLES / 1000
        middle, mean = (len(sizes) - 1) / 2, sum(sizes) / len(sizes)
        spread = sum((i - middle) ** 2 for i in range(len(sizes)))
        return sum((i - middle) * (size - mean) for i, size in enumerate(sizes)) / spread / part


async def measure_memory(runs: int = 20_000) -> MemoryUse:
    """Run the no-op diamond `runs` times in sequence, in its own process, and return the memory.

    Raises:
        PodiumError: the process ended early or timed out.
    """
    async with start_child("overhead.memory", str(runs)) as child:
        told = await child.read()
    return MemoryUse(runs=told["runs"], resident_kib=tuple(told["resident_kib"]))


async def _main(runs: int) -> None:
    sizes = []
    async with open_podium("diamond", None) as run:
        for _ in range(SAMPLES):
            for _ in range(max(1, runs // SAMPLES)):
                await run()
            gc.collect()  # uncollected garbage is not a leak
            sizes.append(resident_kib())
    print(json.dumps(asdict(MemoryUse(runs=runs, resident_kib=tuple(sizes)))), flush=True)


if __name__ == "__main__":
    anyio.run(_main, int(sys.argv[1]))
