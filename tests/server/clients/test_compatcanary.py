"""`compatcanary` scans OpenAI's APIs with requests for text, streams, tools and structured output."""

import json
import subprocess
from pathlib import Path

import pytest
from servers.podium_server import Served


@pytest.mark.long
@pytest.mark.parametrize("model", ["team", "one"])
def test_the_scan_finds_nothing(model: str, team: Served, npm_programs: Path) -> None:
    command = [npm_programs / "compatcanary", "scan", "--base-url", team.url, "--model", model]
    command += ["--api-key", "none", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(done.stdout)["score"] == 100, done.stdout
