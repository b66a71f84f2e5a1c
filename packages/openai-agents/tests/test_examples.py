"""The examples, run as a user runs them, on a server that plays every role of their models."""

import json
import subprocess
import sys
from pathlib import Path

from servers.chat_server import Call, ChatServer, Reply, says

from podium.hosts import tool_call

EXAMPLES = Path(__file__).parents[3] / "examples" / "openai_agents"
AGENTS = ("first", "second", "critic", "writer")
WORDS = " ".join(["word"] * 240)
"""What makes an answer of about 300 tokens."""


def household(call: Call) -> Reply:
    """Be conductor, orchestrator and all four agents."""
    messages = call.body["messages"]
    text = json.dumps(messages, ensure_ascii=False)
    asked, reply = [], WORDS
    if "You are the conductor" in text:
        reply = plan()
    else:
        system = str(messages[0]["content"])
        own = next((name for name in AGENTS if f"You are the {name}." in system), None)
        names = [tool["function"]["name"] for tool in call.body.get("tools", ())]
        done = [name for name in AGENTS if f"[{name} is done]" in text]
        rest = [name for name in AGENTS if name not in done and name != own]
        if own is None:  # the orchestrator: the two heat pumps at once, then in turn
            asked = ["first", "second"] if not done else rest[:1]
            reply = "" if asked else WORDS
        else:
            reply = f"{WORDS} [{own} is done]"
            if names:
                asked = [next(name for name in names if name.endswith(rest[0]))] if rest else []
    arguments = {"input": "Do your part with what is known. " + " ".join(WORDS.split()[:80])}
    calls = [
        tool_call(f"call_{len(messages)}_{name}", name, {} if name.startswith("transfer") else arguments)
        for name in asked
    ]
    read = len(text + json.dumps(call.body.get("tools", ""))) // 4
    written = len(reply + (json.dumps(calls) if calls else "")) // 4
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    finish = "tool_calls" if calls else "stop"
    return says(call, reply, usage=usage, tool_calls=calls, finish_reason=finish)


def plan() -> str:
    """Return what the conductor plans: two side by side, then two in turn."""
    steps = [
        ("first", "What does the first cost?", []),
        ("second", "What does the second cost?", []),
        ("critic", "What speaks against each?", [0, 1]),
        ("writer", "Which is to be bought?", [0, 1, 2]),
    ]
    return "\n".join(json.dumps({"worker": w, "subtask": s, "access": a}) for w, s, a in steps)


def test_the_comparison() -> None:
    """On one script: one call more than there are steps, and the fewest tokens."""
    with ChatServer(household).in_thread() as server:
        command = [sys.executable, str(EXAMPLES / "compare.py"), server.url, "scripted-1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
        calls = len(server.calls)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: [float(n) for n in line.split()[1:]] for line in done.stdout.splitlines()[1:]}
    made = {team: int(row[0]) for team, row in rows.items()}
    tokens = {team: row[1] + row[2] for team, row in rows.items()}
    assert (made, sum(made.values())) == ({"conducted": 5, "orchestrated": 8, "handed": 4}, calls)
    assert tokens["conducted"] < tokens["handed"] < tokens["orchestrated"]
