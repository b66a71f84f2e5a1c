"""CrewAI is imported when a name is asked for, and nothing of ours adds to what it does then."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(240)  # CrewAI takes its time to be imported

NOTHING = """
import sys
import crewai_podium
assert set(crewai_podium.__all__) <= set(dir(crewai_podium))
found = {name.split(".")[0] for name in sys.modules}
print(sorted(found & {"crewai", "openai", "chromadb", "pydantic_settings"}))
try:
    crewai_podium.Conductor
except AttributeError as error:
    assert "Conductor" in str(error)
"""
LEFT = """
import os, signal, sys, threading, warnings
changed = {name: value for name, value in os.environ.items() if name != "LC_CTYPE"}
signals = [str(signal.getsignal(number)).split(" at ")[0] for number in (1, 2, 15, 18, 20)]
others = {"langchain_core", "langgraph", "llama_index", "autogen_agentchat", "agent_framework"}
found = sorted({name.split(".")[0] for name in sys.modules} & others)
print(sorted(changed.items()), signals, found, len(threading.enumerate()), warnings.warn.__module__)
"""


def run(code: str, home: Path, **more: str) -> str:
    """Run code in a process and a folder of its own; return what it printed."""
    home.mkdir(parents=True)
    env = {"HOME": "home", "PWD": "home", **more}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=env, cwd=home, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + str(sorted(str(path.relative_to(home)) for path in home.rglob("*")))


def test_nothing_is_imported_before_a_name_is_asked_for(tmp_path: Path) -> None:
    assert run(NOTHING, tmp_path / "a") == "[]\n[]"


@pytest.mark.nightly
def test_what_crewai_does_on_being_imported_is_all_that_is_done(tmp_path: Path) -> None:
    """Variables, signals, threads, files and modules are as after importing CrewAI alone."""
    ours = "from crewai_podium import ConductorLLM, ConductorManager, as_worker"
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true"}
    theirs = run(f"import crewai\n{LEFT}", tmp_path / "theirs" / "app", **quiet)
    assert run(f"{ours}\n{LEFT}", tmp_path / "ours" / "app", **quiet) == theirs
