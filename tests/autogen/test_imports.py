"""What importing the package brings in."""

import subprocess
import sys

import pytest

HOSTS = (
    "langchain_core",
    "langgraph",
    "llama_index",
    "crewai",
    "autogen_core",
    "autogen_agentchat",
    "agent_framework",
)


def imported(code: str) -> set[str]:
    """Return which frameworks a piece of code brings in, in a fresh process."""
    told = f"{code}\nimport sys\nprint(*[name for name in {HOSTS!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "brought"),
    [
        ("import podium", set()),
        ("import autogen_podium", set()),
        ("import autogen_podium.agent_framework", set()),
        ("from autogen_podium import ConductorAgent", {"autogen_core", "autogen_agentchat"}),
        ("from autogen_podium.agent_framework import ConductorAgent, as_worker", {"agent_framework"}),
    ],
)
def test_only_its_own_framework_is_imported(code: str, brought: set[str]) -> None:
    """And that only when a name is asked for; nothing is printed or warned of."""
    assert imported(code) == brought
