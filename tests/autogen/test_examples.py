"""The examples, run as a user runs them, on a server that plays every role of their models."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from autogen.scripts import is_planning, shown
from servers.chat_server import Call, ChatServer, Reply, says

from podium.hosts import tool_call

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"
AGENTS = ("first", "second", "critic", "writer")
WORDS = " ".join(["word"] * 240)
"""What makes an answer of about 300 tokens."""


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def counted(call: Call, text: str) -> Reply:
    usage = {"prompt_tokens": len(shown(call)) // 4, "completion_tokens": len(text) // 4}
    return says(call, text, usage={**usage, "total_tokens": sum(usage.values())})


def household(call: Call) -> Reply:
    """Be conductor, selector, orchestrator and all four agents."""
    text = shown(call)
    done = [name for name in AGENTS if f"[{name} is done]" in text]
    rest = [name for name in AGENTS if name not in done]
    if is_planning(call):
        return counted(call, plan())
    if "role play game" in text:
        return counted(call, rest[0])
    if "is_request_satisfied" in text:
        said = {"reason": "As planned.", "answer": "Do your part."}
        ledger = {
            "is_request_satisfied": {"reason": "See there.", "answer": not rest},
            "is_in_loop": {"reason": "No.", "answer": False},
            "is_progress_being_made": {"reason": "Yes.", "answer": True},
            "next_speaker": {**said, "answer": (rest or AGENTS)[0]},
            "instruction_or_question": said,
        }
        return counted(call, json.dumps(ledger))
    own = re.search(r"You are the (\w+)\.", text)
    if own is None:  # facts, a plan, a final answer of the orchestrator
        return counted(call, WORDS)
    name = own.group(1)
    return counted(call, f"{WORDS} [{name} is done]{' TERMINATE' if name == 'writer' else ''}")


def plan() -> str:
    """Return what the conductor plans: two side by side, then two in turn."""
    return rows(
        ("first", "What does the first cost?", []),
        ("second", "What does the second cost?", []),
        ("critic", "What speaks against each?", [0, 1]),
        ("writer", "Which is to be bought?", [0, 1, 2]),
    )


def rows(*steps: tuple[str, str, list[int]]) -> str:
    return "\n".join(json.dumps({"worker": w, "subtask": s, "access": a}) for w, s, a in steps)


@pytest.mark.timeout(180)
def test_the_comparison() -> None:
    """On one script: one call more than there are steps, and the fewest tokens by far."""
    with ChatServer(household).in_thread() as server:
        printed = run("autogen/compare.py", server.url, "scripted-1")
        calls = len(server.calls)
    rows = {line.split()[0]: [float(n) for n in line.split()[1:]] for line in printed.splitlines()[1:]}
    made = {team: int(row[0]) for team, row in rows.items()}
    tokens = {team: row[1] + row[2] for team, row in rows.items()}
    assert (made, sum(made.values())) == ({"conducted": 5, "selected": 8, "magentic": 12}, calls)
    assert tokens["conducted"] < tokens["selected"] < tokens["magentic"]
    assert tokens["conducted"] * 3 < tokens["magentic"]


def room(call: Call) -> Reply:
    """Plan; measure; look up; write."""
    text, last = shown(call), call.body["messages"][-1]
    if is_planning(call):
        steps = [("surveyor", "Measure the width.", []), ("buyer", "Find the price of wool.", [])]
        return says(call, rows(*steps, ("writer", "Say what wool costs for it.", [0, 1])))
    if last["role"] == "tool":
        return says(call, str(last["content"]))
    if "tools" in call.body:
        name = call.body["tools"][0]["function"]["name"]
        asked = tool_call("1", name, '{"side": "width"}' if name == "measure" else '{"carpet": "wool"}')
        return says(call, "", finish_reason="tool_calls", tool_calls=[asked])
    assert "The width is 3.0 m." in text
    return says(call, "480 euros, at 40.0 euros per square metre.")


def test_the_team() -> None:
    with ChatServer(room).in_thread() as server:
        printed = run("autogen/rooms.py", server.url, "scripted-1", "What does a wool carpet cost?")
    assert "2. writer: Say what wool costs for it. (shown step 0, 1)" in printed
    assert "ToolCallExecutionEvent" in printed
    assert "wool costs 40.0 euros per square metre." in printed
    assert "stopped: The conductor has answered." in printed


def test_the_agents_of_agent_framework() -> None:
    with ChatServer(room).in_thread() as server:
        printed = run("agent_framework/rooms.py", server.url, "scripted-1", "What does a wool carpet cost?")
    assert "[surveyor] The width is 3.0 m." in printed
    assert "480 euros, at 40.0 euros per square metre." in printed
    assert "ok, 3 steps" in printed
