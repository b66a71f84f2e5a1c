"""The comparison of planners; figures are never asserted."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import planners


def test_each_kind_does_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "planners.json"
    monkeypatch.setattr(planners, "FIRST", 0.0)
    monkeypatch.setattr(planners, "OF_TOKEN", 0.0)
    monkeypatch.setattr(sys, "argv", ["planners", "--files", "2", "--json", str(path)])
    planners.main()
    found = json.loads(path.read_text(encoding="utf-8"))
    assert [(each["planner"], each["planner_calls"], each["calls"]) for each in found] == [
        ("prompted", 1, 4),
        ("turn by turn", 4, 7),
        ("saved", 0, 3),
    ]
