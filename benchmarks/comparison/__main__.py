"""The command, which measures, prints the tables, and writes the JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import anyio

from benchmarks.comparison.arm_process import Cell
from benchmarks.comparison.measure import APART, HOSTS, ArmFailed, measurable, measure
from benchmarks.comparison.report import tables

_SIZES = (1, 2, 4, 8, 12)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if an arm failed, otherwise 0."""
    asked = _parser().parse_args(arguments)
    try:
        cells = anyio.run(_measure, asked)
    except ArmFailed as error:
        print(error, file=sys.stderr)
        return 1
    print("All tokens (and as a multiple of Podium's core); then calls, input + output tokens, seconds:\n")
    print(tables(cells))
    for host, way in APART.items():
        if not measurable(host):
            print(f"\n{host}: not measured, its environment is not there ({way})")
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(cell) for cell in cells], indent=2) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.comparison",
        description="Compares what a job costs under Podium and under the hosts' own orchestrators.",
    )
    parser.add_argument("arms", nargs="*", help="only arms whose 'host: name' holds one of these")
    parser.add_argument("--units", type=int, nargs="+", default=_SIZES, help="numbers of units, up to 12")
    parser.add_argument("--latency", type=float, default=0.3, help="seconds that a model takes; default 0.3")
    parser.add_argument("--quick", action="store_true", help="two units, models that answer at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    return parser


async def _measure(asked: argparse.Namespace) -> list[Cell]:
    sizes, latency = ([2], 0.0) if asked.quick else (list(asked.units), asked.latency)
    cells: list[Cell] = []
    for host in filter(measurable, HOSTS):
        print(f"{host} ...", file=sys.stderr)
        cells += await measure(host, asked.arms, sizes, latency)
    return cells


if __name__ == "__main__":
    sys.exit(main())
