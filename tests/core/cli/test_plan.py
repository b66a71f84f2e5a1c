"""`podium plan`: what would be done, and nothing of it."""

import json
import re
import shlex
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
    assert [step["worker"] for step in said["steps"]] == ["thinker", "speaker"]
    assert said["query"][0]["content"] == "What is it?"


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


def test_the_forecast_says_what_it_guesses(podium: Podium, config: Path) -> None:
    """It stands on stderr, after the planner's own call."""
    told = podium("plan", "What is it?").stderr.splitlines()
    assert told[0].startswith("Planner thinker wrote the plan; ")
    assert told[1].startswith("Expected: 2 to 3 call(s) (likely 2), ")
    assert told[1].endswith("(based on assumptions for thinker, speaker, with few recorded calls).")


def test_a_saved_plan_is_run_as_it_says(podium: Podium, config: Path, server: ChatServer) -> None:
    """`--out` writes the plan beside the table; the last line is the command that runs it."""
    saved = podium("plan", "What is it?", "--out", "my plan.json")
    assert "Say it aloud." in saved.stdout
    shown = re.search(r"run it with `podium (.*)`", saved.stderr)
    assert shown is not None
    server.calls.clear()
    assert podium(*shlex.split(shown[1])).stdout == "forty-two\n"
    assert len(server.calls) == 2
    again = podium("plan", "What is it?", "-o", "my plan.json")
    assert (again.exit_code, again.stdout, len(server.calls)) == (2, "", 2)
    assert "my plan.json already exists: name another file" in again.stderr
    nowhere = podium("plan", "What is it?", "-o", "none/plan.json")
    assert nowhere.exit_code == 2
    assert "none/plan.json cannot be written: its folder does not exist" in nowhere.stderr


def test_a_plan_that_is_not_saved_says_how(podium: Podium, config: Path) -> None:
    """Under the table, the option and the command."""
    told = podium("plan", "What is it?").stderr
    assert "save the plan with `-o plan.json`, then run it with `podium run --plan plan.json`" in told
