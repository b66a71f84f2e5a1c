"""The parsing benchmark, and bars as a table and as JSON; timing is never asserted."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import parsing


@pytest.mark.long
def test_a_quick_run_keeps_its_bars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typical plans are measured in each spelling, and the file says of each whether its bar is met."""
    path = tmp_path / "bars.json"
    monkeypatch.setattr(sys, "argv", ["parsing", "--quick", "--json", str(path)])
    parsing.main()
    bars = json.loads(path.read_text(encoding="utf-8"))
    assert [bar["what"].partition(",")[0] for bar in bars] == ["lists", "json", "rows"]
    assert all(bar["passed"] == (bar["measured"] <= bar["limit"]) for bar in bars)
