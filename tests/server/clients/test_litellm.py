"""LiteLLM as a client, with its providers `openai` and `anthropic`."""

import os
import subprocess
from pathlib import Path

import pytest
from servers.podium_server import Served

CHECKS = Path(__file__).parent / "litellm_client.py"
PYTHON = Path(__file__).parents[3] / ".clients" / "litellm" / "bin" / "python"


@pytest.mark.long
@pytest.mark.skipif(not PYTHON.exists(), reason="run `make test-clients`: litellm is not installed")
@pytest.mark.parametrize("model", ["team", "one"])
def test_litellm(model: str, team: Served) -> None:
    """Whole answers, streams, tools and errors, in a process of its own: LiteLLM changes global state."""
    command = [str(PYTHON), str(CHECKS), team.root, model]
    offline = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else it asks for prices
    done = subprocess.run(command, env=offline, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
