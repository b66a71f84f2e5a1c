"""The comparison of orchestrators: every arm does all of the work; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.comparison.job import job_of
from benchmarks.comparison.measure import HOSTS, measurable


@pytest.mark.nightly
@pytest.mark.timeout(240)
def test_every_arm_does_all_the_work(tmp_path: Path) -> None:
    """The answer of each arm cites the finding of each unit; a plan adds one call to the job's steps."""
    path = tmp_path / "cells.json"
    command = [sys.executable, "-m", "benchmarks.comparison", "--quick", "--json", str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)
    assert finished.returncode == 0, finished.stderr
    cells = json.loads(path.read_text(encoding="utf-8"))
    hosts = [host for host in HOSTS if measurable(host)]
    assert {cell["host"] for cell in cells} == set(hosts)
    assert ("openai_agents: not measured" in finished.stdout) == (not measurable("openai_agents"))
    assert all(cell["missing"] == [] for cell in cells)
    steps, with_podium = len(job_of(2).steps), [host for host in hosts if host != "deepagents"]
    conducted = [cell["calls"] for cell in cells if cell["arm"].startswith("Podium")]
    assert conducted == [steps + 1] * len(with_podium)
    wired = [
        cell["calls"] for cell in cells if cell["arm"].startswith("hand-wired") or "by hand" in cell["arm"]
    ]
    assert wired == [steps] * (len(with_podium) - 1)


def test_an_answer_without_a_finding_is_noticed() -> None:
    """The check of the answers can fail: a join that was not shown a finding does not cite it."""
    job = job_of(3)
    shown = job.output("analyst_north", "") + job.output("analyst_east", "")
    assert job.missing(job.joined(shown)) == [2]
