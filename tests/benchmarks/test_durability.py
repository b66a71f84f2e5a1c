"""The durability benchmark: its report is well formed; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.durability.cancel_latency import Cancels
from benchmarks.durability.measure import GROUPS, Reading
from benchmarks.durability.report import judge
from benchmarks.overhead.cells import Block


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


def test_bars_are_judged_on_ratios() -> None:
    """Each bar compares the arms it names, in the group it names."""
    durable, alone, *_ = GROUPS

    def block(runs: int, run_s: float) -> Block:
        return Block(runs=runs, warm_runs=0, wall_s=1.0, cpu_s=0.1, run_s=run_s, peak_kib=1)

    readings = [
        Reading("podium-sqlite", durable, (block(1600, 0.02), block(900, 0.03), block(1000, 0.03))),
        Reading("dbos-sqlite", durable, (block(100, 0.3), block(90, 0.3), block(50, 0.3))),
        Reading("podium", alone, (block(30, 0.030),)),
        Reading("podium-sqlite", alone, (block(28, 0.0315),)),
    ]
    bars = {bar.what: bar for bar in judge(readings, Cancels((0.001,) * 99 + (0.5,)))}
    measured = {what: round(bar.measured, 3) for what, bar in bars.items() if bar.measured is not None}
    assert measured == {
        "durable runs/s at 32 in flight: podium-sqlite over dbos-sqlite": 16.0,
        "100 ms workers, 1 in flight: podium-sqlite, time per run over no journal": 5.0,
        "cancel to closed socket, p50": 1.0,
        "cancel to closed socket, p99": 5.99,
    }
    assert [bar.passed for bar in bars.values()].count(True) == 3
