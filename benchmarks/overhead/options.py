"""The command-line options: cells, arms, and the length of the measurement."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.job import SHAPES
from benchmarks.overhead.cells import ARMS, Arm, Cell
from benchmarks.overhead.measure import Pace
from podium.errors import ConfigError

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
    """The measurements of one command."""

    cells: tuple[Cell, ...]
    arms: tuple[Arm, ...]
    pace: Pace
    memory_runs: int
    """Number of runs of the memory measurement; 0 for none."""
    json_path: Path | None
    """The file of the JSON report; `None` for none."""


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Parse the command line; `None` for the arguments of the process.

    Raises:
        ConfigError: an arm needs a package that is not installed.
    """
    given = _parser().parse_args(arguments)
    cells = () if given.memory else tuple(given.cells or (_QUICK_CELLS if given.quick else CELLS))
    arms = tuple(given.arms or (_QUICK_ARMS if given.quick else ARMS))
    peers = any(arm not in ("floor", "podium") for arm in arms)
    if cells and peers and not all(map(find_spec, ("langgraph", "langchain_podium"))):
        raise ConfigError(
            "LangGraph or langchain-podium is not installed: run `uv sync --group benchmarks`, "
            "or use --arms floor,podium"
        )
    return Options(
        cells=cells,
        arms=arms,
        pace=Pace(rounds=given.rounds or (1 if given.quick else 3), seconds=given.seconds),
        memory_runs=2_000 if given.quick else 20_000,
        json_path=given.json,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead",
        description="Measures the overhead of running a plan, in Podium and in other frameworks.",
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
    add("--rounds", type=_positive(int), help="maximum number of blocks of each arm in each cell")
    add("--seconds", type=_positive(float), default=0.3, help="minimum length of a block")
    add("--memory", action="store_true", help="measure only the memory over many runs")
    add("--json", type=Path, metavar="FILE", help="also write the report to FILE, as JSON")
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
    raise argparse.ArgumentTypeError(f"unknown arm {text!r}: choose from {', '.join(ARMS)}")


def _cell(text: str) -> Cell:
    named = {f"{c.shape}/{'no-op' if c.delay_ms is None else c.delay_ms}/{c.in_flight}": c for c in CELLS}
    if text in named:
        return named[text]
    raise argparse.ArgumentTypeError(
        f"unknown cell {text!r}: write a cell as in diamond/no-op/1 or chain/10/32"
    )
