"""The overhead command: what it measures is well formed; never how fast anything was."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from podium_evals.clock import VirtualClock
from podium_evals.overhead.bars import judge
from podium_evals.overhead.cells import Arm, Block, Cell, Reading
from podium_evals.overhead.imports import ALL, NEEDED, Imports
from podium_evals.overhead.makespan import Makespan, measure_makespan
from podium_evals.overhead.memory import SAMPLES, MemoryUse

SLOW = pytest.mark.timeout(120)
"""Each arm is a process that imports its framework."""


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would."""
    command = [sys.executable, "-m", "podium_evals.overhead", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def report_of(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run the command and return what it wrote as JSON."""
    path = tmp_path / "report.json"
    finished = run_command(*arguments, "--json", str(path))
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def reading(arm: Arm, cell: Cell, *, cpu_s: float = 1.0, run_s: float = 1.0, wall_s: float = 1.0) -> Reading:
    """Return a reading of one block of 100 runs."""
    block = Block(runs=100, warm_runs=1, wall_s=wall_s, cpu_s=cpu_s, run_s=run_s, peak_kib=1024)
    return Reading(arm=arm, cell=cell, blocks=(block,), calls=4.0, sent_bytes=1.0)


@SLOW
def test_quick_run_reports_every_arm(tmp_path: Path) -> None:
    """A quick run writes a reading for each arm, all of the same job, and judges the bars."""
    report = report_of(tmp_path, "--quick", "--cells", "diamond/no-op/1,diamond/0/1", "--seconds", "0.02")
    http = [r for r in report["readings"] if r["cell"]["delay_ms"] == 0]
    assert [r["arm"] for r in http] == ["floor", "podium", "langgraph", "langgraph-openai"]
    assert {r["calls"] for r in http} == {4.0}
    sizes = [r["sent_bytes"] for r in http]
    assert max(sizes) < 1.1 * min(sizes)
    assert all(r["medians"]["cpu_ms"] > 0 and r["medians"]["peak_mib"] > 0 for r in report["readings"])
    missing = [bar["passed"] is None for bar in report["bars"]]
    assert missing == [False, False, False, True, False, False, True, True, True, True]


def test_chain_takes_its_rounds_in_turn(tmp_path: Path) -> None:
    """Arms of a chain with many runs in flight make as many blocks as there are rounds."""
    arms = ("--arms", "floor,podium,langgraph-built")
    report = report_of(
        tmp_path, *arms, "--cells", "chain/10/32", "--rounds", "2", "--seconds", "0.02", "--quick"
    )
    assert [len(r["blocks"]) for r in report["readings"]] == [2, 2, 2]
    assert {r["calls"] for r in report["readings"]} == {5.0}
    assert all(block["runs"] >= 32 for r in report["readings"] for block in r["blocks"])


@SLOW
def test_adapters_run_beside_what_they_add_to(tmp_path: Path) -> None:
    """Every arm of LangChain's and LangGraph's does the job, and each of their bars has its figure."""
    arms = ("podium", "langgraph-built", "langgraph-nested", "podium-runnable", "podium-steps", "podium-node")
    cell = ("--cells", "diamond/no-op/1", "--rounds", "1", "--seconds", "0.02", "--quick")
    report = report_of(tmp_path, "--arms", ",".join(arms), *cell)
    assert [r["arm"] for r in report["readings"]] == list(arms)
    assert [bar["measured"] is not None for bar in report["bars"][6:]] == [True, True, True, False]


def test_adapters_are_left_out_where_workers_take_time() -> None:
    """What they add is the same there."""
    assert Cell("diamond", 10, 1).arms(("podium", "podium-node")) == ("podium",)
    assert Cell("diamond", None, 1).arms(("podium", "podium-node")) == ("podium", "podium-node")


def test_imports_alone(tmp_path: Path) -> None:
    """With `--imports` nothing else is measured; importing more never takes less than nothing."""
    report = report_of(tmp_path, "--imports", "--quick", "--rounds", "1")
    assert (report["readings"], report["memory"], report["makespan"]) == ([], None, None)
    taken = report["imports"]
    assert len(taken["needed_s"]) == len(taken["all_s"]) == 1
    assert min(taken["all_s"] + taken["needed_s"]) > 0
    assert report["bars"][-1]["measured"] is not None


def test_imports_name_every_class_that_is_built_on() -> None:
    """A module of others that is loaded only with `langchain_podium` would be counted as its own: few are."""
    loaded = "\nimport sys; print(*sys.modules)"
    modules = [
        set(
            subprocess.run(
                [sys.executable, "-c", lines + loaded], capture_output=True, text=True, check=True
            ).stdout.split()
        )
        for lines in (NEEDED, ALL)
    ]
    added = modules[1] - modules[0]
    assert {name for name in added if name.startswith("langchain_podium")}
    assert not {name for name in added if name.startswith(("langgraph", "langsmith", "sqlalchemy", "httpx"))}


def test_imports_are_compared_by_their_least() -> None:
    """Whatever else the machine did only added to them."""
    assert round(Imports(needed_s=(2.0, 1.0), all_s=(1.05, 3.0)).added_percent, 6) == 5.0


def test_makespan_alone(tmp_path: Path) -> None:
    """With `--makespan` nothing else is measured, and random plans last as long as their critical path."""
    report = report_of(tmp_path, "--makespan", "--quick")
    assert (report["readings"], report["memory"]) == ([], None)
    assert report["makespan"]["plans"] == 50
    assert abs(report["makespan"]["worst_percent"]) < 2


def test_makespan_is_the_same_each_time() -> None:
    """The clock is virtual, so that one seed gives one result."""
    assert measure_makespan(5, seed=3) == measure_makespan(5, seed=3)


def test_virtual_clock_jumps_to_the_next_timer() -> None:
    """A day of sleep moves the clock by a day."""
    with asyncio.Runner(loop_factory=VirtualClock) as runner:
        began = runner.get_loop().time()
        runner.run(asyncio.sleep(86_400))
        assert abs(runner.get_loop().time() - began - 86_400) < 1e-6


def test_unknown_cell_is_refused() -> None:
    """A cell that is not of the grid ends the command with a hint."""
    finished = run_command("--cells", "ring/0/1")
    assert finished.returncode == 2
    assert "diamond/no-op/1" in finished.stderr


def test_bars_are_judged_on_ratios() -> None:
    """Each bar compares the arms it names, in the cell it names."""
    no_op, idle, busy = Cell("diamond", None, 1), Cell("diamond", 0, 1), Cell("diamond", 0, 256)
    bars = judge(
        [
            reading("podium", no_op, run_s=0.0002),
            reading("langgraph", no_op, run_s=0.001),
            reading("floor", idle, cpu_s=1.0),
            reading("podium", idle, cpu_s=1.2),
            reading("floor", busy, cpu_s=1.0),
            reading("podium", busy, cpu_s=1.5),
            reading("langgraph-openai", busy, wall_s=9.0),
            reading("podium-runnable", no_op, run_s=0.0007),
            reading("langgraph-built", no_op, cpu_s=2.0),
            reading("podium-steps", no_op, cpu_s=3.2),
            reading("langgraph-nested", no_op, cpu_s=2.0),
            reading("podium-node", no_op, cpu_s=4.0),
        ],
        Makespan(plans=1, worst_percent=2.5, median_percent=0.0),
        MemoryUse(runs=20_000, resident_kib=tuple(range(1000, 1000 + SAMPLES))),
        Imports(needed_s=(1.0,), all_s=(1.2,)),
    )
    assert [round(bar.measured or 0.0, 6) for bar in bars] == [
        0.2, 5.0, 1.5, 9.0, 2.5, 1.0, 0.5, 1.6, 2.0, 20.0,
    ]  # fmt: skip
    assert [bar.passed for bar in bars] == [True, True, False, True, False, True, True, False, None, False]


def test_bars_without_readings_are_not_measured() -> None:
    """What was not measured is neither met nor missed."""
    assert {bar.passed for bar in judge([])} == {None}


def test_memory_slope_leaves_the_warm_up_out() -> None:
    """Growth while caches fill is no leak; growth by 3 KiB per 1,000 runs after that is 3."""
    warm_up = (100, 900, 1500, 1900, 2000)
    later = tuple(2000 + 3 * part for part in range(1, SAMPLES - len(warm_up) + 1))
    assert round(MemoryUse(runs=20_000, resident_kib=warm_up + later).slope, 6) == 3.0
