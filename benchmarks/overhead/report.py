"""The report, as tables and JSON."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from os import cpu_count
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, bars_table
from benchmarks.block import cpu_of, rate_of
from benchmarks.overhead.bars import judge
from benchmarks.overhead.cells import Arm, Reading
from benchmarks.overhead.memory import MemoryUse

SCHEMA = 2
"""Version of the report's JSON form."""
_CAPTION = (
    "over path: ms/run minus the critical path; CPU ms: of the client, per run; MiB: its peak memory; "
    "Podium/arm: Podium's runs per second over the arm's"
)
_PACKAGES = (
    "podium-conductor",
    "httpx2",
    "aiohttp",
    "langchain-core",
    "langgraph",
    "langchain-openai",
    "openai",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The measurements of one command."""

    readings: tuple[Reading, ...] = ()
    memory: MemoryUse | None = None

    @property
    def bars(self) -> list[Bar]:
        """The limits with their measurements."""
        return judge(self.readings, self.memory)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data: all blocks, the medians, the ratios, the limits."""
        return {
            "schema": SCHEMA,
            "machine": {
                "python": platform.python_version(),
                "system": platform.system(),
                "cores": cpu_count(),
                "packages": {name: _version(name) for name in _PACKAGES},
            },
            "readings": [_reading_to_json(reading, self.readings) for reading in self.readings],
            "memory": None if self.memory is None else {**asdict(self.memory), "slope": self.memory.slope},
            "bars": [bar.to_json() for bar in self.bars],
        }

    def show(self, console: Console) -> None:
        """Print the tables."""
        if self.readings:
            console.print(_readings_table(self.readings))
        if self.memory is not None:
            use = self.memory
            ends = f"{use.resident_kib[0] / 1024:.1f} to {use.resident_kib[-1] / 1024:.1f} MiB"
            console.print(f"Memory over {use.runs:,} runs: {ends}, {use.slope:+.1f} KiB per 1,000 runs")
        console.print(bars_table(self.bars))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _beside(reading: Reading, readings: Sequence[Reading], arm: Arm) -> Reading | None:
    return next((other for other in readings if other.cell == reading.cell and other.arm == arm), None)


def _ratios(reading: Reading, readings: Sequence[Reading]) -> dict[str, float | None]:
    floor, podium = (_beside(reading, readings, arm) for arm in ("floor", "podium"))
    return {
        "cpu_over_floor": None if floor is None else reading.over(floor, cpu_of),
        "rate_over_floor": None if floor is None else reading.over(floor, rate_of),
        "cpu_over_podium": None if podium is None else reading.over(podium, cpu_of),
        "podium_rate_over_it": None if podium is None else podium.over(reading, rate_of),
    }


def _reading_to_json(reading: Reading, readings: Sequence[Reading]) -> dict[str, Any]:
    names = ("run_ms", "overhead_ms", "cpu_ms", "rate", "peak_mib")
    return {
        **asdict(reading),
        "medians": {name: getattr(reading, name) for name in names},
        "ratios": _ratios(reading, readings),
    }


def _readings_table(readings: Sequence[Reading]) -> Table:
    table = Table(title="Medians over the rounds", caption=_CAPTION)
    for name in ("cell", "arm"):
        table.add_column(name, no_wrap=True)
    for name in ("ms/run", "over path", "CPU ms", "runs/s", "MiB", "CPU/floor", "Podium/arm"):
        table.add_column(name, justify="right", no_wrap=True)
    for cell, group in groupby(readings, key=lambda reading: reading.cell):
        title = f"{cell.shape}, {cell.workers}, {cell.in_flight}"
        for reading in group:
            ratios = _ratios(reading, readings)
            table.add_row(
                title,
                reading.arm,
                _number(reading.run_ms),
                _number(reading.overhead_ms),
                _number(reading.cpu_ms),
                f"{reading.rate:,.0f}",
                f"{reading.peak_mib:.0f}",
                _times(ratios["cpu_over_floor"]),
                _times(ratios["podium_rate_over_it"]),
            )
            title = ""
        table.add_section()
    return table


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}x"
