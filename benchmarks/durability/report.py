"""The limits of the durability benchmark, and its report as tables and JSON."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from os import cpu_count
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, bars_table
from benchmarks.durability.arms import Arm
from benchmarks.durability.cancel_latency import Cancels
from benchmarks.durability.measure import GROUPS, Group, Reading, reading_of

SCHEMA = 1
"""Version of the report's JSON form."""
_PACKAGES = ("podium-conductor", "SQLAlchemy", "asyncpg", "dbos", "langgraph", "psycopg")

_RATES: tuple[tuple[Arm, Arm, float | None], ...] = (
    ("podium-sqlite", "dbos-sqlite", 15.0),
    ("podium-postgres", "dbos-postgres", 15.0),
    ("podium-sqlite", "dbos-sqlite-wal", None),
    ("podium-sqlite", "langgraph-sqlite", 8.0),
    ("podium-postgres", "langgraph-postgres", 8.0),
)
_JOURNALLED: tuple[Arm, ...] = ("podium-sqlite", "podium-postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The measurements of one command."""

    readings: tuple[Reading, ...] = ()
    cancels: Cancels | None = None
    flush_ms: float
    """Median time of a 4 KiB write with a flush, on the disk of the databases."""
    disk: str
    """The file system of the databases."""
    postgres: str
    """Version and settings of PostgreSQL."""

    @property
    def bars(self) -> list[Bar]:
        """The limits with their measurements."""
        return judge(self.readings, self.cancels)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON data: all blocks, the medians, the limits."""
        return {
            "schema": SCHEMA,
            "machine": {
                "python": platform.python_version(),
                "system": platform.system(),
                "cores": cpu_count(),
                "disk": self.disk,
                "flush_ms": self.flush_ms,
                "postgres": self.postgres,
                "packages": {name: version(name) for name in _PACKAGES},
            },
            "readings": [
                {**asdict(reading), **{name: getattr(reading, name) for name in ("rate", "run_ms", "cpu_ms")}}
                for reading in self.readings
            ],
            "cancels_s": None if self.cancels is None else self.cancels.seconds,
            "bars": [bar.to_json() for bar in self.bars],
        }

    def show(self, console: Console) -> None:
        """Print the tables."""
        console.print(f"Databases on {self.disk}: a 4 KiB write with a flush takes {self.flush_ms:.3f} ms")
        console.print(self.postgres)
        if self.readings:
            console.print(_readings_table(self.readings))
        console.print(bars_table(self.bars))


def judge(readings: Sequence[Reading], cancels: Cancels | None = None) -> list[Bar]:
    """Return all limits with their measurements."""
    durable, *hundred = GROUPS
    bars = [
        Bar(
            what=f"durable runs/s at 32 in flight: {podium} over {dbos}",
            limit=limit,
            unit="x",
            at_least=True,
            measured=_rate_ratio(readings, durable, podium, dbos),
        )
        for podium, dbos, limit in _RATES
    ]
    bars += [
        Bar(
            what=f"100 ms workers, {in_flight(group)}: {arm}, time per run over no journal",
            limit=10.0,
            unit="%",
            measured=_more_time(readings, group, arm),
        )
        for group in hundred
        for arm in _JOURNALLED
    ]
    for percent, limit in ((50, None), (99, 200.0)):
        measured = None if cancels is None else cancels.percentile(percent)
        bars.append(
            Bar(what=f"cancel to closed socket, p{percent}", limit=limit, unit="ms", measured=measured)
        )
    return bars


def in_flight(group: Group) -> str:
    """Return the number of concurrent runs of a group, and whether their starts are spread."""
    return f"{group.in_flight} in flight{', spread' if group.is_spread else ''}"


def _rate_ratio(readings: Sequence[Reading], group: Group, arm: Arm, other: Arm) -> float | None:
    one, two = reading_of(readings, group, arm), reading_of(readings, group, other)
    return None if one is None or two is None else one.times_rate(two)


def _more_time(readings: Sequence[Reading], group: Group, arm: Arm) -> float | None:
    one, two = reading_of(readings, group, arm), reading_of(readings, group, "podium")
    return None if one is None or two is None else one.more_time(two)


def _readings_table(readings: Sequence[Reading]) -> Table:
    table = Table(title="Medians over the rounds", caption="CPU ms: of the arm's own process, per run")
    for name in ("workers", "in flight", "arm"):
        table.add_column(name, no_wrap=True)
    for name in ("runs/s", "ms/run", "CPU ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for reading in readings:
        workers = f"{reading.group.latency_ms} ms" if reading.group.latency_ms else "at once"
        figures = (f"{reading.rate:,.0f}", f"{reading.run_ms:.2f}", f"{reading.cpu_ms:.3f}")
        table.add_row(workers, in_flight(reading.group), reading.arm, *figures)
    return table
