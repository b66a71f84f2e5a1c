"""`compatcanary` scans OpenAI's APIs with requests for text, streams, tools and structured output."""

import json
import subprocess
from collections.abc import Callable

import pytest
from servers.podium_server import Served


@pytest.mark.long
@pytest.mark.parametrize("model", ["team", "one"])
def test_the_scan_finds_nothing(
    model: str, team: Served, npm_program: Callable[..., "subprocess.CompletedProcess[str]"]
) -> None:
    """The score is 100 of 100."""
    options = ["--model", model, "--api-key", "none", "--format", "json"]
    done = npm_program("compatcanary", "scan", "--base-url", team.url, *options)
    report = json.loads(done.stdout)
    assert report["score"] == 100, done.stdout
