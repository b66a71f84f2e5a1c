"""Measures the arms of each host in their own process."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import anyio

from benchmarks.comparison.arm_process import Cell

HOSTS = (
    "podium",
    "langgraph",
    "deepagents",
    "autogen",
    "agent_framework",
    "llamaindex",
    "crewai",
    "openai_agents",
)
APART = {"deepagents": "uv run --with deepagents", "openai_agents": "make test-openai-agents"}
"""The hosts that need an environment of their own, and the command that makes it."""
ROOT = Path(__file__).parents[2]
OPENAI_AGENTS_PYTHON = ROOT / "packages/openai-agents/.venv/bin/python"
"""The interpreter of the environment with the OpenAI Agents SDK."""
_LIMIT = 900.0
"""Timeout for the arms of a host, in seconds."""


class ArmFailed(Exception):
    """The process of a host's arms failed or timed out."""


def measurable(host: str) -> bool:
    """Return whether the environment of the host exists."""
    if host == "deepagents":
        return find_spec(host) is not None
    return host != "openai_agents" or OPENAI_AGENTS_PYTHON.exists()


async def measure(host: str, arms: Sequence[str], sizes: Sequence[int], latency: float) -> list[Cell]:
    """Return a cell for each arm and number of units.

    Args:
        host: a name of `HOSTS`.
        arms: select arms whose "host: name" contains one of these texts; empty for all arms.
        sizes: the numbers of units.
        latency: duration of a model's call, in seconds.

    Raises:
        ArmFailed: an arm failed; the message has its stderr.
    """
    told = json.dumps([host, list(arms), list(sizes), latency])
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.comparison.arm_process", told]
    with anyio.move_on_after(_LIMIT):
        done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise ArmFailed(f"{host}: {done.stderr.decode()[-3000:]}")
        lines = done.stdout.decode().splitlines()
        return [Cell(**json.loads(line[5:])) for line in lines if line.startswith("cell ")]
    raise ArmFailed(f"{host}: timed out after {_LIMIT:.0f} s")
