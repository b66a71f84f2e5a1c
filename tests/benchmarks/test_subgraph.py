"""The comparison of a plan in LangGraph; figures are never asserted."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import subgraph


@pytest.mark.long
def test_each_arm_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "subgraph.json"
    job = subgraph.Job(subgraph.DIAMOND, (0.01,) * 4)
    monkeypatch.setattr(subgraph, "SKEWED", job)
    monkeypatch.setattr(subgraph, "WIDE", job)
    monkeypatch.setattr(sys, "argv", ["subgraph", "--runs", "2", "--json", str(path)])
    subgraph.main()
    found = json.loads(path.read_text(encoding="utf-8"))
    assert [each["arm"] for each in found] == ["by hand", "podium", "langgraph"]
    assert all(each["stored"] > 1 for each in found)
