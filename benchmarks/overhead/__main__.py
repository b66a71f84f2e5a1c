"""The command, which measures, prints the tables, and writes the JSON."""

import json
import sys

import anyio
from rich.console import Console

from benchmarks.overhead.cells import Reading
from benchmarks.overhead.measure import measure_cell, serve
from benchmarks.overhead.memory import measure_memory
from benchmarks.overhead.options import Options, read_options
from benchmarks.overhead.report import Report
from podium.errors import PodiumError

REPORT_WIDTH = 130
"""Characters per line if the output is not a terminal."""


def main() -> int:
    """Run the command; return 0 if everything was measured, whether or not the limits are met."""
    console, errors = Console(), Console(stderr=True)
    if not console.is_terminal:
        console.width = REPORT_WIDTH
    try:
        options = read_options()
        report = _measure(options, errors)
    except PodiumError as error:
        errors.print(str(error), style="red", markup=False)
        return 1
    report.show(console)
    if options.json_path is not None:
        options.json_path.write_text(json.dumps(report.to_json(), indent=2) + "\n", encoding="utf-8")
    return 0


def _measure(options: Options, progress: Console) -> Report:
    readings = anyio.run(_measure_cells, options, progress) if options.cells else ()
    return Report(
        readings=readings,
        memory=anyio.run(measure_memory, options.memory_runs) if options.memory_runs else None,
    )


async def _measure_cells(options: Options, progress: Console) -> tuple[Reading, ...]:
    readings: list[Reading] = []
    async with serve() as server:
        for number, cell in enumerate(options.cells, 1):
            told = f"{number}/{len(options.cells)}  {cell.shape}, {cell.workers}, {cell.in_flight} in flight"
            progress.print(told, style="dim", highlight=False)
            readings += await measure_cell(cell, cell.arms(options.arms), server, options.pace)
    return tuple(readings)


if __name__ == "__main__":
    sys.exit(main())
