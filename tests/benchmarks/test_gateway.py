"""The benchmark of gateways: its report is well formed; timing is never asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gateway.__main__ import judge
from benchmarks.gateway.client import Streams
from benchmarks.gateway.measure import Reading


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


def test_bars_compare_the_best_readings() -> None:
    """Of two rounds, the one that was disturbed less counts."""

    def reading(gateway: str, added_ms: float, rate: float) -> Reading:
        return Reading(
            gateway=gateway,
            added_ms=added_ms,
            added_p99_ms=1.0,
            requests_per_s=rate,
            cpu_us=100.0,
            first_token_ms=1.0,
            direct_token_ms=0.1,
            resident_mb=50.0,
            streams=Streams(begun=10, ended=9),
            streams_mb=60.0,
        )

    readings = [
        reading("podium", 4.0, 300.0),
        reading("podium", 1.0, 500.0),
        reading("litellm", 20.0, 50.0),
        reading("litellm", 10.0, 25.0),
    ]
    measured = [bar.measured for bar in judge(readings)]
    assert measured == [1.0, 0.1, 10.0, 50.0, 9, 1.0]
