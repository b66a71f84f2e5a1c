"""The command line: which cells and arms, for how long."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from podium.errors import ConfigError
from podium_evals.overhead.cells import ARMS, Arm, Cell
from podium_evals.overhead.job import SHAPES
from podium_evals.overhead.measuring import Pace

CELLS = tuple(
    Cell(shape, delay_ms, in_flight)
    for shape in SHAPES
    for delay_ms in (None, 0, 10, 50)
    for in_flight in (1, 32, 256)
)
"""The whole grid."""
_QUICK_CELLS = (Cell("diamond", None, 1), Cell("diamond", 0, 1), Cell("diamond", 0, 256))
_QUICK_ARMS: tuple[Arm, ...] = ("floor", "podium", "langgraph", "langgraph-openai")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one command measures."""

    cells: tuple[Cell, ...]
    arms: tuple[Arm, ...]
    pace: Pace
    makespan_plans: int
    """Random plans; 0 leaves the makespan out."""
    memory_runs: int
    """Runs over which memory is watched; 0 leaves it out."""
    import_rounds: int
    """How often imports are measured; 0 leaves them out."""
    json_path: Path | None
    """Where the report is written as JSON; `None` means nowhere."""


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; `None` reads that of the process.

    Raises:
        ConfigError: an arm needs a package that is not installed.
    """
    given = _parser().parse_args(arguments)
    alone = given.makespan or given.memory or given.imports
    cells = () if alone else tuple(given.cells or (_QUICK_CELLS if given.quick else CELLS))
    arms = tuple(given.arms or (_QUICK_ARMS if given.quick else ARMS))
    peers = any(arm not in ("floor", "podium") for arm in arms)
    if cells and peers and not all(map(find_spec, ("langgraph", "langchain_podium"))):
        raise ConfigError(
            "LangGraph or langchain-podium is not installed: pip install 'podium-evals[peers]', "
            "or give --arms floor,podium"
        )
    return Options(
        cells=cells,
        arms=arms,
        pace=Pace(rounds=given.rounds or (1 if given.quick else 3), seconds=given.seconds),
        makespan_plans=0 if alone and not given.makespan else 50 if given.quick else 200,
        memory_runs=0 if alone and not given.memory else 4_000 if given.quick else 20_000,
        import_rounds=0 if not given.imports and (alone or given.quick) else given.rounds or 5,
        json_path=given.json,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m podium_evals.overhead",
        description="Measures what running a plan costs beside the work itself, next to Podium's peers.",
        epilog="The whole grid takes up to ten minutes on two cores, --quick less than one.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="few cells, few arms, one round")
    add("--arms", type=_list_of(_arm), metavar="ARM,…", help=f"of {', '.join(ARMS)}")
    add(
        "--cells",
        type=_list_of(_cell),
        metavar="CELL,…",
        help="as in diamond/no-op/1,chain/10/32: shape, workers (no-op, or the delay in ms), runs in flight",
    )
    add("--rounds", type=_positive(int), help="blocks of each arm in each cell, at most")
    add("--seconds", type=_positive(float), default=0.3, help="how long a block lasts at least")
    add("--makespan", action="store_true", help="only the makespan of random plans on a virtual clock")
    add("--memory", action="store_true", help="only memory over many runs")
    add("--imports", action="store_true", help="only what importing langchain_podium takes")
    add("--json", type=Path, metavar="FILE", help="write all that was measured there, as JSON")
    return parser


def _list_of(read: Callable[[str], object]) -> Callable[[str], list[object]]:
    return lambda text: [read(part) for part in text.split(",")]


def _positive(read: Callable[[str], float]) -> Callable[[str], float]:
    def number(text: str) -> float:
        if (value := read(text)) > 0:
            return value
        raise argparse.ArgumentTypeError(f"{text} must be above 0")

    return number


def _arm(text: str) -> Arm:
    for arm in ARMS:
        if arm == text:
            return arm
    raise argparse.ArgumentTypeError(f"no arm {text!r}: choose of {', '.join(ARMS)}")


def _cell(text: str) -> Cell:
    named = {f"{c.shape}/{'no-op' if c.delay_ms is None else c.delay_ms}/{c.in_flight}": c for c in CELLS}
    if text in named:
        return named[text]
    raise argparse.ArgumentTypeError(f"no cell {text!r}: write one as in diamond/no-op/1 or chain/10/32")
