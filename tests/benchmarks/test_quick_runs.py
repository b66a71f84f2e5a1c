"""Each benchmark in a quick run: its report is complete; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import parsing, planners, subgraph
from benchmarks.comparison.job import job_of
from benchmarks.comparison.measure import HOSTS, measurable
from benchmarks.durability.measure import GROUPS

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc and sets cores of processes")


def told_by(name: str, *words: str, seconds: float) -> str:
    """Run a benchmark in a process of its own, and return what it prints."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *words]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def report_of(module: Any, monkeypatch: pytest.MonkeyPatch, path: Path, *words: str) -> Any:
    """Run a benchmark in this process, and return its report."""
    monkeypatch.setattr(sys, "argv", ["benchmark", *words, "--json", str(path)])
    module.main()
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.long
def test_parsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typical plans in each spelling; the file says of each whether its bar is met."""
    bars = report_of(parsing, monkeypatch, tmp_path / "bars.json", "--quick")
    assert [bar["what"].partition(",")[0] for bar in bars] == ["lists", "json", "rows"]
    assert all(bar["passed"] == (bar["measured"] <= bar["limit"]) for bar in bars)


def test_planners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planners, "FIRST", 0.0)
    monkeypatch.setattr(planners, "OF_TOKEN", 0.0)
    found = report_of(planners, monkeypatch, tmp_path / "planners.json", "--files", "2")
    assert [(each["planner"], each["planner_calls"], each["calls"]) for each in found] == [
        ("prompted", 1, 4),
        ("turn by turn", 4, 7),
        ("saved", 0, 3),
    ]


@pytest.mark.long
def test_subgraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = subgraph.Job(subgraph.DIAMOND, (0.01,) * 4)
    monkeypatch.setattr(subgraph, "SKEWED", job)
    monkeypatch.setattr(subgraph, "WIDE", job)
    found = report_of(subgraph, monkeypatch, tmp_path / "subgraph.json", "--runs", "2")
    assert [each["arm"] for each in found] == ["by hand", "podium", "langgraph"]
    assert all(each["stored"] > 1 for each in found)


@pytest.mark.long
@ON_LINUX
def test_gateway(tmp_path: Path) -> None:
    """Without LiteLLM, which is too large for a test; all streams come to their end."""
    path = tmp_path / "report.json"
    told_by("gateway", "--quick", "--json", str(path), "--gateways", "smallest", "podium", seconds=100)
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [reading["gateway"] for reading in report["readings"]] == ["smallest", "podium"]
    for reading in report["readings"]:
        assert reading["streams"] == {"begun": 50, "ended": 50}
        assert reading["cpu_us"] > 0
        assert reading["resident_mb"] > 10
    assert [bar["measured"] is None for bar in report["bars"]] == [False, True, True, False, False, False]


@pytest.mark.nightly
@pytest.mark.timeout(120)
def test_overhead(tmp_path: Path) -> None:
    """A reading for each arm, with the same calls and texts; the bars are judged."""
    path, cells = tmp_path / "report.json", "diamond/no-op/1,diamond/0/1"
    told_by("overhead", "--cells", cells, "--quick", "--seconds", "0.02", "--json", str(path), seconds=110)
    report = json.loads(path.read_text(encoding="utf-8"))
    http = [reading for reading in report["readings"] if reading["cell"]["delay_ms"] == 0]
    assert [reading["arm"] for reading in http] == ["floor", "podium", "langgraph", "langgraph-openai"]
    assert {reading["calls"] for reading in http} == {4.0}
    sizes = [reading["sent_bytes"] for reading in http]
    assert max(sizes) < 1.1 * min(sizes)
    medians = [reading["medians"] for reading in report["readings"]]
    assert all(each["cpu_ms"] > 0 and each["peak_mib"] > 0 for each in medians)
    assert report["bars"][0]["limit"] == 0.5
    over = "HTTP diamond, 0 ms, 1 in flight: runs/s over"
    assert {bar["what"] for bar in report["bars"] if bar["measured"] is not None} == {
        "no-op diamond: CPU over hand-wired LangGraph's",
        *(
            f"{over} {arm}"
            for arm in ("LangGraph with ChatOpenAI", "LangGraph with httpx2", "hand-written code")
        ),
        "memory: growth per 1,000 runs",
    }


@pytest.mark.nightly
@pytest.mark.timeout(150)
def test_durability(tmp_path: Path) -> None:
    """Each arm's database holds all its answers."""
    path = tmp_path / "report.json"
    told_by("durability", "--quick", "--json", str(path), seconds=140)
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [reading["arm"] for reading in report["readings"]] == [arm for each in GROUPS for arm in each.arms]
    assert all(block["runs"] >= 1 for reading in report["readings"] for block in reading["blocks"])
    assert "fsync=on, synchronous_commit=on" in report["machine"]["postgres"]
    assert (report["machine"]["flush_ms"] > 0, len(report["cancels_s"])) == (True, 20)
    assert all(bar["measured"] is not None for bar in report["bars"])


@pytest.mark.long
@ON_LINUX
def test_replicas() -> None:
    """Two replicas execute runs of two keys, in the background and in the foreground."""
    words = ["--replicas", "2", "--keys", "2", "--runs", "20", "--latency", "0.01", "--statements"]
    printed = told_by("replicas", *words, seconds=200)
    assert all(told in printed for told in ("background", "foreground", "INSERT INTO podium_jobs"))


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_comparison(tmp_path: Path) -> None:
    """The answer of each arm cites the finding of each unit; a plan adds one call to the job's steps."""
    path = tmp_path / "cells.json"
    printed = told_by("comparison", "--quick", "--json", str(path), seconds=220)
    cells = json.loads(path.read_text(encoding="utf-8"))
    hosts = [host for host in HOSTS if measurable(host)]
    assert {cell["host"] for cell in cells} == set(hosts)
    assert ("openai_agents: not measured" in printed) == (not measurable("openai_agents"))
    assert all(cell["missing"] == [] for cell in cells)
    steps, with_podium = len(job_of(2).steps), [host for host in hosts if host != "deepagents"]
    conducted = [cell["calls"] for cell in cells if cell["arm"].startswith("Podium")]
    assert conducted == [steps + 1] * len(with_podium)
    by_hand = [cell for cell in cells if cell["arm"].startswith("hand-wired") or "by hand" in cell["arm"]]
    assert [cell["calls"] for cell in by_hand] == [steps] * (len(with_podium) - 1)


def test_an_answer_without_a_finding_is_noticed() -> None:
    """The check of the answers can fail: a join that was not shown a finding does not cite it."""
    job = job_of(3)
    shown = job.output("analyst_north", "") + job.output("analyst_east", "")
    assert job.missing(job.joined(shown)) == [2]
