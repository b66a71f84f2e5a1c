"""The bars that Podium is held to, judged on what was measured."""

from collections.abc import Callable, Sequence
from statistics import median

from podium_evals.bars import Bar
from podium_evals.overhead.cells import Arm, Block, Cell, Reading, cpu_of, rate_of, run_of
from podium_evals.overhead.imports import Imports
from podium_evals.overhead.makespan import Makespan
from podium_evals.overhead.memory import MemoryUse

FLAT_KIB = 64.0
"""Growth per 1,000 runs that counts as flat, in KiB: too little for anything of a run to be kept."""

_NO_OP = Cell("diamond", None, 1)
_BUSIEST = Cell("diamond", 0, 256)


def judge(
    readings: Sequence[Reading],
    makespan: Makespan | None = None,
    memory: MemoryUse | None = None,
    imports: Imports | None = None,
) -> list[Bar]:
    """Return all bars with what was measured of them."""
    lasted = _ratio(readings, _NO_OP, "langgraph", "podium", run_of)
    rate = _ratio(readings, _BUSIEST, "podium", "langgraph-openai", rate_of)
    return [
        Bar(
            what="no-op diamond: over the critical path", limit=0.25, unit="ms", measured=_no_op_ms(readings)
        ),
        Bar(
            what="no-op diamond: LangGraph's over Podium's", limit=4, unit="x", at_least=True, measured=lasted
        ),
        Bar(
            what="HTTP diamond, 0 ms: CPU over the floor's, worst of all in flight",
            limit=1.35,
            unit="x",
            measured=_worst_cpu(readings),
        ),
        Bar(
            what="HTTP diamond, 0 ms, 256 in flight: runs/s over LangGraph + ChatOpenAI",
            limit=8,
            unit="x",
            at_least=True,
            measured=rate,
        ),
        Bar(
            what="random plans: makespan over the critical path, worst",
            limit=2,
            unit="%",
            measured=None if makespan is None else makespan.worst_percent,
        ),
        Bar(
            what="memory: growth per 1,000 runs",
            limit=FLAT_KIB,
            unit="KiB",
            measured=None if memory is None else memory.slope,
        ),
        *_adapter(readings, imports),
    ]


def _adapter(readings: Sequence[Reading], imports: Imports | None) -> list[Bar]:
    """Return the bars of `langchain_podium`."""
    return [
        Bar(
            what="no-op diamond: what ConductorRunnable adds to Conductor",
            limit=1,
            unit="ms",
            measured=_added_ms(readings, "podium-runnable", "podium"),
        ),
        Bar(
            what="no-op diamond: CPU of steps as a LangGraph graph over one built by hand each time",
            limit=1.5,
            unit="x",
            measured=_ratio(readings, _NO_OP, "podium-steps", "langgraph-built", cpu_of),
        ),
        Bar(
            what="no-op diamond: CPU of the whole node with them over a node that builds by hand",
            limit=None,
            unit="x",
            measured=_ratio(readings, _NO_OP, "podium-node", "langgraph-nested", cpu_of),
        ),
        Bar(
            what="import of every name of langchain_podium, over what it needs",
            limit=10,
            unit="%",
            measured=None if imports is None else imports.added_percent,
        ),
    ]


def _added_ms(readings: Sequence[Reading], arm: Arm, to: Arm) -> float | None:
    one, two = _find(readings, _NO_OP, arm), _find(readings, _NO_OP, to)
    if one is None or two is None:
        return None
    return 1e3 * median(own.run_s - other.run_s for own, other in zip(one.blocks, two.blocks, strict=True))


def _no_op_ms(readings: Sequence[Reading]) -> float | None:
    found = _find(readings, _NO_OP, "podium")
    return None if found is None else found.overhead_ms


def _worst_cpu(readings: Sequence[Reading]) -> float | None:
    cells = {r.cell for r in readings if (r.cell.shape, r.cell.delay_ms) == ("diamond", 0)}
    ratios = [_ratio(readings, cell, "podium", "floor", cpu_of) for cell in cells]
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _ratio(
    readings: Sequence[Reading], cell: Cell, arm: Arm, other: Arm, measure: Callable[[Block], float]
) -> float | None:
    one, two = _find(readings, cell, arm), _find(readings, cell, other)
    return None if one is None or two is None else one.over(two, measure)


def _find(readings: Sequence[Reading], cell: Cell, arm: Arm) -> Reading | None:
    return next((r for r in readings if (r.cell, r.arm) == (cell, arm)), None)
