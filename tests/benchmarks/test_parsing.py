"""The parsing benchmark, and bars as a table and as JSON; timing is never asserted."""

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import parsing
from benchmarks.bars import Bar, bars_table


def test_a_quick_run_keeps_its_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typical plans are measured in each spelling, and the file says of each whether its bar is met."""
    path = tmp_path / "bars.json"
    monkeypatch.setattr(sys, "argv", ["parsing", "--quick", "--json", str(path)])
    parsing.main()
    bars = json.loads(path.read_text(encoding="utf-8"))
    assert [bar["what"].partition(",")[0] for bar in bars] == ["lists", "json", "rows"]
    assert all(bar["passed"] == (bar["measured"] <= bar["limit"]) for bar in bars)


def test_a_missed_bar_is_shown() -> None:
    """The table says which bars are met, which are not, and which nobody measured."""
    missed = Bar(what="slow", limit=1, unit="x", measured=2)
    met = Bar(what="fast", limit=1, unit="x", at_least=True, measured=2)
    unknown = Bar(what="left out", limit=1, unit="x", measured=None)
    free = Bar(what="promised to nobody", limit=None, unit="x", measured=3)
    console = Console(width=100)
    with console.capture() as shown:
        console.print(bars_table([missed, met, unknown, free]))
    rows = [line.split("│")[-2].strip() for line in shown.get().splitlines() if "│" in line]
    assert rows == ["not met", "met", "not measured", ""]
