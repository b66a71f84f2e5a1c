"""`podium plan`: what would be done, and nothing of it."""

import json
from collections.abc import Callable
from pathlib import Path

from servers.chat_server import ChatServer, says
from typer.testing import Result

Podium = Callable[..., Result]


def test_plan_is_shown_and_not_run(podium: Podium, config: Path, server: ChatServer) -> None:
    """The plan is a table and a flowchart, and only the planner is called."""
    result = podium("plan", "What is it?")
    assert result.exit_code == 0
    assert "Say it aloud." in result.stdout
    assert "flowchart TD" in result.stdout
    assert len(server.calls) == 1


def test_json_is_the_plan(podium: Podium, config: Path) -> None:
    """With `--json` stdout is the plan as it is saved, with its question."""
    said = json.loads(podium("plan", "What is it?", "--json").stdout)
    assert [step["worker"] for step in said["steps"]] == [0, 1]
    assert said["query"][0]["content"] == "What is it?"


def test_mermaid_alone(podium: Podium, config: Path) -> None:
    """With `--mermaid` stdout is the flowchart, ready for a file."""
    assert podium("plan", "What is it?", "--mermaid").stdout.startswith("flowchart TD\n")


def test_a_plan_of_the_fallback_is_told_of(podium: Podium, config: Path, server: ChatServer) -> None:
    """Who planned is said on stderr, so that a plan nobody meant does not pass for the planner's."""
    server.reply = lambda call: says(call, "I would just ask around.")
    alone = podium("plan", "What is it?", "--json")
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert "there is no plan" in alone.stderr
    config.write_text(config.read_text().replace("[planner]\n", '[planner]\nfallback = "rule"\n'))
    result = podium("plan", "What is it?", "--json")
    assert json.loads(result.stdout)["steps"]
    assert "thinker wrote no usable plan (no_plan" in result.stderr
    assert "Planner rule wrote the plan as the fallback" in result.stderr
