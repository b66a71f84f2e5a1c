"""The durability benchmark: its report is well formed; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.durability.measure import GROUPS


@pytest.mark.nightly
@pytest.mark.timeout(150)
def test_quick_run_reports_every_arm(tmp_path: Path) -> None:
    """A quick run writes a reading of each arm, whose database holds all its answers, and judges the bars."""
    path = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.durability", "--quick", "--json", str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    assert finished.returncode == 0, finished.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    arms = [arm for group in GROUPS for arm in group.arms]
    assert [reading["arm"] for reading in report["readings"]] == arms
    assert all(block["runs"] >= 1 for reading in report["readings"] for block in reading["blocks"])
    assert "fsync=on, synchronous_commit=on" in report["machine"]["postgres"]
    assert report["machine"]["flush_ms"] > 0
    assert len(report["cancels_s"]) == 20
    assert all(bar["measured"] is not None for bar in report["bars"])
