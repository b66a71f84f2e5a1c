"""The benchmark of replicas: its report is well formed; timing is never asserted."""

import subprocess
import sys

import pytest


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_short_measurement() -> None:
    """Two replicas execute runs of two keys, in the background and in the foreground."""
    command = [sys.executable, "-m", "benchmarks.replicas", "--replicas", "2", "--keys", "2"]
    command += ["--runs", "20", "--latency", "0.01", "--statements"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for told in ("background", "foreground", "INSERT INTO podium_jobs"):
        assert told in finished.stdout
