"""The benchmark of gateways: its report is well formed; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc and sets the cores of processes")
def test_quick_run_reports_every_gateway(tmp_path: Path) -> None:
    """A quick run without LiteLLM, which is too large for a test; all streams come to their end."""
    path = tmp_path / "report.json"
    command = [sys.executable, "-m", "benchmarks.gateway", "--quick", "--json", str(path)]
    command += ["--gateways", "smallest", "podium"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [reading["gateway"] for reading in report["readings"]] == ["smallest", "podium"]
    for reading in report["readings"]:
        assert reading["streams"] == {"begun": 50, "ended": 50}
        assert reading["cpu_us"] > 0
        assert reading["resident_mb"] > 10
    assert [bar["measured"] is None for bar in report["bars"]] == [False, True, True, False, False, False]
