"""Measured values and their limits, as a table and as JSON.

A value beyond its limit is shown, but is not a failure: a command that measured everything exits with 0.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One limit and the value measured for it."""

    what: str
    limit: float | None
    """`None` for no limit."""
    unit: str
    at_least: bool = False
    """Whether `limit` is a lower bound."""
    measured: float | None
    """`None` if the command did not measure it."""

    @property
    def passed(self) -> bool | None:
        """Whether the limit is met; `None` if there is no limit or no measurement."""
        if self.measured is None or self.limit is None:
            return None
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def to_json(self) -> dict[str, Any]:
        """Return the bar with its verdict as JSON data."""
        return {**asdict(self), "passed": self.passed}


def bars_table(bars: Sequence[Bar]) -> Table:
    """Return a table of the bars with their verdicts."""
    table = Table(title="Bars")
    table.add_column("bar")
    for name in ("wanted", "measured", ""):
        table.add_column(name, justify="right")
    for bar in bars:
        relation = "at least" if bar.at_least else "at most"
        wanted = "" if bar.limit is None else f"{relation} {bar.limit:g} {bar.unit}"
        measured = "" if bar.measured is None else f"{bar.measured:.3f} {bar.unit}"
        table.add_row(bar.what, wanted, measured, _verdict(bar))
    return table


def _verdict(bar: Bar) -> str:
    if bar.passed is None:
        return "not measured" if bar.measured is None else ""
    return "[green]met[/]" if bar.passed else "[red]not met[/]"
