"""The overhead benchmark: its report is well formed; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.block import Block
from benchmarks.overhead.cells import Arm, Cell, Reading

SLOW = pytest.mark.timeout(120)
"""Each arm is a process that imports its framework."""


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    command = [sys.executable, "-m", "benchmarks.overhead", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def report_of(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run the command with blocks of 20 ms, one round, and return its JSON report."""
    path = tmp_path / "report.json"
    finished = run_command(*arguments, "--quick", "--seconds", "0.02", "--json", str(path))
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def reading(arm: Arm, cell: Cell, *, cpu_s: float = 1.0, run_s: float = 1.0, wall_s: float = 1.0) -> Reading:
    block = Block(runs=100, warm_runs=1, wall_s=wall_s, cpu_s=cpu_s, run_s=run_s, peak_kib=1024)
    return Reading(arm=arm, cell=cell, blocks=(block,), calls=4.0, sent_bytes=1.0)


@pytest.mark.nightly
@SLOW
def test_every_arm_does_the_same_job(tmp_path: Path) -> None:
    """A quick run writes a reading for each arm, with the same calls and texts, and judges the bars."""
    report = report_of(tmp_path, "--cells", "diamond/no-op/1,diamond/0/1")
    http = [r for r in report["readings"] if r["cell"]["delay_ms"] == 0]
    assert [r["arm"] for r in http] == ["floor", "podium", "langgraph", "langgraph-openai"]
    assert {r["calls"] for r in http} == {4.0}
    sizes = [r["sent_bytes"] for r in http]
    assert max(sizes) < 1.1 * min(sizes)
    assert all(r["medians"]["cpu_ms"] > 0 and r["medians"]["peak_mib"] > 0 for r in report["readings"])
    assert report["bars"][0]["limit"] == 0.5
    measured = {bar["what"] for bar in report["bars"] if bar["measured"] is not None}
    assert measured == {
        "no-op diamond: CPU over hand-wired LangGraph's",
        "HTTP diamond, 0 ms, 1 in flight: runs/s over LangGraph with ChatOpenAI",
        "HTTP diamond, 0 ms, 1 in flight: runs/s over LangGraph with httpx2",
        "HTTP diamond, 0 ms, 1 in flight: runs/s over hand-written code",
        "memory: growth per 1,000 runs",
    }
