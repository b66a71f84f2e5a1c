"""The limits of the overhead benchmark.

A diamond of no-op workers may take at most half the CPU time of the same graph in LangGraph, measured in the
same run. Below that, no optimisation justifies code that is harder to read. Memory must not grow. The other
figures have no limit.
"""

from collections.abc import Callable, Sequence
from statistics import median

from benchmarks.bars import Bar
from benchmarks.block import Block, cpu_of, rate_of
from benchmarks.overhead.cells import Arm, Cell, Reading
from benchmarks.overhead.memory import MemoryUse

CPU_SHARE = 0.5
"""Maximum CPU time of a no-op diamond, as a share of LangGraph's."""
FLAT_KIB = 64.0
"""Maximum growth per 1,000 runs, in KiB. A leak of a part of each run would be larger."""

_NO_OP = Cell("diamond", None, 1)
_OVER_HTTP = tuple(Cell("diamond", 0, in_flight) for in_flight in (1, 32, 256))
_BESIDE: dict[Arm, str] = {
    "langgraph-openai": "LangGraph with ChatOpenAI",
    "langgraph": "LangGraph with httpx2",
    "floor": "hand-written code",
}


def judge(readings: Sequence[Reading], memory: MemoryUse | None = None) -> list[Bar]:
    """Return all limits with their measurements."""
    return [
        Bar(
            what="no-op diamond: CPU over hand-wired LangGraph's",
            limit=CPU_SHARE,
            unit="x",
            measured=_ratio(readings, _NO_OP, "podium", "langgraph", cpu_of),
        ),
        *(
            Bar(
                what=f"HTTP diamond, 0 ms, {cell.in_flight} in flight: runs/s over {name}",
                limit=None,
                unit="x",
                at_least=True,
                measured=_ratio(readings, cell, "podium", arm, rate_of),
            )
            for arm, name in _BESIDE.items()
            for cell in _OVER_HTTP
        ),
        Bar(
            what="no-op diamond: time that ConductorRunnable adds to Conductor",
            limit=None,
            unit="ms",
            measured=_added_ms(readings, "podium-runnable", "podium"),
        ),
        Bar(
            what="no-op diamond: CPU of the LangGraph node over a node that builds its graph by hand",
            limit=None,
            unit="x",
            measured=_ratio(readings, _NO_OP, "podium-node", "langgraph-nested", cpu_of),
        ),
        Bar(
            what="memory: growth per 1,000 runs",
            limit=FLAT_KIB,
            unit="KiB",
            measured=None if memory is None else memory.slope,
        ),
    ]


def _added_ms(readings: Sequence[Reading], arm: Arm, to: Arm) -> float | None:
    one, two = _find(readings, _NO_OP, arm), _find(readings, _NO_OP, to)
    if one is None or two is None:
        return None
    return 1e3 * median(own.run_s - other.run_s for own, other in zip(one.blocks, two.blocks, strict=True))


def _ratio(
    readings: Sequence[Reading], cell: Cell, arm: Arm, other: Arm, measure: Callable[[Block], float]
) -> float | None:
    one, two = _find(readings, cell, arm), _find(readings, cell, other)
    return None if one is None or two is None else one.over(two, measure)


def _find(readings: Sequence[Reading], cell: Cell, arm: Arm) -> Reading | None:
    return next((r for r in readings if (r.cell, r.arm) == (cell, arm)), None)
