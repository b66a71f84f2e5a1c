"""The examples, as somebody runs them: in a process of their own, against a real server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]  # CrewAI takes its time to be imported

EXAMPLES = Path(__file__).parents[2] / "examples" / "crewai"
PLAN = """
{"worker": 0, "subtask": "Look at the market.", "access": []}
{"worker": 1, "subtask": "Look at the engines.", "access": []}
{"worker": 0, "subtask": "Sum it up.", "access": [0, 1]}
"""
REPORT = {"title": "Heat pumps", "findings": ["They work."], "advice": "Buy one."}


def run(name: str, url: str, home: Path) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LLM_URL": url, "LLM_KEY": "k"}
    words = [sys.executable, str(EXAMPLES / name), "m", "heat pumps"]
    given: Any = {"env": env, "cwd": home, "capture_output": True, "text": True, "timeout": 220}
    done = subprocess.run(words, check=False, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_crew_hands_in_a_report(tmp_path: Path) -> None:
    """Planned once; the agent that the task names has the last step, and its form."""

    def reply(call: Call) -> Reply:
        told = json.dumps(call.body["messages"])
        if "You are the conductor" in told:
            return says(call, PLAN)
        return says(call, json.dumps(REPORT) if "You are Writer." in told else "a finding")

    with ChatServer(reply).in_thread() as server:
        printed = run("report.py", server.url, tmp_path)
        assert len(server.calls) == 4
    assert "Heat pumps\n- They work.\nBuy one." in printed
    assert "Step 2, Writer, seeing 0, 1: ok" in printed
    assert "The crew's own count: 872 tokens." in printed


def test_the_flow_mends_what_is_not_whole(tmp_path: Path) -> None:
    """A step that fails for good leaves the draft in part, which sends the flow the other way."""

    def reply(call: Call) -> Reply:
        told = json.dumps(call.body["messages"])
        if "You are the conductor" in told:
            is_first = "Brief me" in told and "Mend this" not in told
            return says(call, PLAN if is_first else PLAN.splitlines()[1])
        if "You are Writer." in told:
            return whole({"error": {"message": "no such model"}}, status=404)
        return says(call, "mended" if "Mend this" in told else "a finding")

    with ChatServer(reply).in_thread() as server:
        assert run("flow.py", server.url, tmp_path).rstrip().endswith("mended")
