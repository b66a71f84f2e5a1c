"""The benchmark of the viewer: it measures a run and a list; timing is never asserted."""

import shutil
import subprocess
import sys

import pytest


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("chromium") is None, reason="it needs Chromium: `make browser` installs it")
def test_a_short_run_is_measured() -> None:
    """Inputs were made while the run wrote, and each amount is in the table."""
    command = [sys.executable, "-m", "benchmarks.viewer", "--seconds", "4", "--rate", "100", "--runs", "300"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert " inputs in " in finished.stdout
    assert finished.stdout.count("CPU of the page's main") == 2
