"""Programs that check APIs: against their published schemas, and with requests that clients make."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servers.podium_server import Served


@pytest.mark.long
@pytest.mark.parametrize("model", ["team", "one"])
@pytest.mark.parametrize("api", ["openai-chat", "open-responses", "anthropic"])
def test_an_api_complies(api: str, model: str, team: Served) -> None:
    program = str(Path(sys.executable).parent / "llm-comply")
    # The suite has the events of reasoning summaries under names that OpenAI's specification does not have.
    ignored = "unknown SSE event type: response.reasoning_summary_text"
    command = [program, "-u", team.url, "-k", "none", "-m", model, "--format", api, "--json", "-i", ignored]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = json.loads(done.stdout)
    failed = [case for case in found["results"] if case["status"] == "failed"]
    assert not [case for case in failed if not case["id"].startswith("compact-")]  # the API is optional


@pytest.mark.long
@pytest.mark.parametrize("model", ["team", "one"])
def test_the_scan_finds_nothing(model: str, team: Served, npm_programs: Path) -> None:
    command = [npm_programs / "compatcanary", "scan", "--base-url", team.url, "--model", model]
    command += ["--api-key", "none", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert json.loads(done.stdout)["score"] == 100, done.stdout
