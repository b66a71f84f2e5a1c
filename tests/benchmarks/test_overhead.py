"""The overhead benchmark: its report is well formed; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.block import Block
from benchmarks.overhead.bars import judge
from benchmarks.overhead.cells import Arm, Cell, Reading
from benchmarks.overhead.memory import SAMPLES, MemoryUse
from benchmarks.overhead.options import read_options

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
    """Return a reading of one block of 100 runs."""
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


@pytest.mark.long
def test_memory_alone(tmp_path: Path) -> None:
    """With `--memory` no arm is measured."""
    report = report_of(tmp_path, "--memory")
    assert report["readings"] == []
    assert len(report["memory"]["resident_kib"]) == SAMPLES


def test_unknown_cell_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A cell outside the grid ends the command with a hint."""
    monkeypatch.setattr(sys, "argv", ["overhead", "--cells", "ring/0/1"])
    with pytest.raises(SystemExit) as ended:
        read_options()
    assert ended.value.code == 2
    assert "diamond/no-op/1" in capsys.readouterr().err


def test_bars_are_judged_on_ratios() -> None:
    """Each bar compares its two arms, in its cell."""
    no_op, idle, busy = Cell("diamond", None, 1), Cell("diamond", 0, 1), Cell("diamond", 0, 256)
    bars = judge(
        [
            reading("podium", no_op, run_s=0.0002, cpu_s=1.0),
            reading("langgraph", no_op, cpu_s=2.5),
            reading("floor", idle, wall_s=1.0),
            reading("podium", idle, wall_s=2.0),
            reading("podium", busy, wall_s=1.0),
            reading("langgraph-openai", busy, wall_s=9.0),
            reading("podium-runnable", no_op, run_s=0.0007),
            reading("langgraph-nested", no_op, cpu_s=2.0),
            reading("podium-node", no_op, cpu_s=4.0),
        ],
        MemoryUse(runs=20_000, resident_kib=tuple(range(1000, 1000 + SAMPLES))),
    )
    measured = [(round(bar.measured, 6), bar.passed) for bar in bars if bar.measured is not None]
    assert measured == [(0.4, True), (9.0, None), (0.5, None), (0.5, None), (2.0, None), (1.0, True)]


def test_memory_slope_leaves_the_warm_up_out() -> None:
    """Growth while caches fill is no leak; growth by 3 KiB per 1,000 runs after that is 3."""
    warm_up = (100, 900, 1500, 1900, 2000)
    later = tuple(2000 + 3 * part for part in range(1, SAMPLES - len(warm_up) + 1))
    assert round(MemoryUse(runs=20_000, resident_kib=warm_up + later).slope, 6) == 3.0
