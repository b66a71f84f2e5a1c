"""`podium plan`: what would be done, and nothing of it."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole
from typer.testing import Result

Podium = Callable[..., Result]


def test_plan_is_shown_and_not_run(podium: Podium, config: Path, server: ChatServer) -> None:
    """The plan is a table and a flowchart, and only the planner is called."""
    result = podium("plan", "What is it?")
    assert result.exit_code == 0
    assert "Say it aloud." in result.stdout
    assert "flowchart TD" in result.stdout
    assert len(server.calls) == 1
    told = result.stderr.splitlines()
    assert told[0].startswith("Planner thinker wrote the plan; ")
    assert told[1].startswith("Expected: 2 to 3 call(s) (likely 2), ")
    assert told[1].endswith("(based on assumptions for thinker, speaker, with few recorded calls).")
    assert "save the plan with `-o plan.json`, then run it with `podium run --plan plan.json`" in told[2]
    said = json.loads(podium("plan", "What is it?", "--json").stdout)
    assert [step["worker"] for step in said["steps"]] == ["thinker", "speaker"]
    assert said["query"][0]["content"] == "What is it?"


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


NAMED = '{"worker": 0, "subtask": "See {{repo}} {{n}} times.", "access": []}\n'


def test_a_plan_is_saved_with_a_name_and_run_with_arguments(
    podium: Podium, config: Path, server: ChatServer
) -> None:
    """Names in the question are parameters; what is wrong with an argument is told before a call."""
    server.reply = lambda call: says(call, NAMED if "structured_outputs" in call.body else "forty-two")
    saved = podium("plan", "Review {{repo}} {{n}} times", "--save", "review", "--param", "n=3")
    assert saved.exit_code == 0, saved.stderr
    file = config.parent / "plans" / "review.toml"
    text = file.read_text("utf-8")
    assert '[parameters.n]\ntype = "integer"\ndefault = 3' in text
    assert '[parameters.repo]\ntype = "string"' in text
    line = re.search(r"add the line `(.*)` to \[plans\]", saved.stderr)
    assert line is not None
    config.write_text(config.read_text() + f"[plans]\n{line[1]}\n")
    server.calls.clear()
    for arguments, told in [
        (("--arg", "n=4"), 'needs a value for repo ("string")'),
        (("--arg", "repo=.", "--arg", "n=x"), 'wrong value for n: the argument "x" does not fit'),
        (("--arg", "repo=.", "--arg", "m=1"), "has no parameter 'm': it has repo, n"),
        (("--arg", "repo"), "write NAME=VALUE"),
    ]:
        wrong = podium("run", "--plan", "review", *arguments)
        assert wrong.exit_code == 2, wrong.stderr
        assert told in wrong.stderr
    assert server.calls == []
    result = podium("run", "--plan", "review", "--arg", "repo=.", "--arg", "n=4")
    assert result.stdout == "forty-two\n"
    assert "See . 4 times." in str(server.calls[0].body)
    by_file = podium("run", "--plan", str(file), "--arg", "repo=.")
    assert by_file.stdout == "forty-two\n"
    assert "there is no saved plan 'revue': [plans] has review" in podium("run", "--plan", "revue").stderr
    again = podium("plan", "Review {{repo}}", "--save", "review")
    assert "plans/review.toml already exists" in again.stderr


SEEING = """name = "review"

[parameters.files]
type = ["string"]

[parameters.mode]
type = "fast|deep"
default = "fast"

[[steps]]
worker = "thinker"
subtask = "See {{item}}."
each = "{{files}}"
access = []

[[steps]]
worker = "thinker"
subtask = "Deeper."
access = [0]
when = { ref = "{{mode}}", is = "deep" }

[[steps]]
worker = "speaker"
subtask = "Say it."
access = [0, 1]
"""


@pytest.fixture
def review(config: Path) -> Path:
    """Write a saved plan, and list it in the config."""
    file = config.parent / "review.toml"
    file.write_text(SEEING, encoding="utf-8")
    config.write_text(config.read_text() + '[plans]\nreview = "review.toml"\n')
    return file


def test_a_saved_plan_is_shown_as_it_will_run(podium: Podium, review: Path, server: ChatServer) -> None:
    """With its arguments and their forecast; nothing is called."""
    for args, told, calls in (
        (('files=["a", "b", "c"]', "mode=deep"), 'review(files=["a", "b", "c"], mode="deep")', "5 call(s), "),
        (("files=[]",), 'review(files=[], mode="fast")', "1 call(s), "),
    ):
        options = [option for each in args for option in ("--arg", each)]
        shown = podium("plan", "--plan", "review", *options)
        assert shown.exit_code == 0, shown.stderr
        assert "See {{item}}." in shown.stdout
        lines = shown.stderr.splitlines()
        assert lines[0] == told
        assert lines[1].startswith(f"Expected: {calls}")
        run = shlex.join(["podium", "run", "--plan", "review", *options])
        assert lines[-1] == f"podium: run it with `{run}`"
    assert server.calls == []
    wrong = podium("plan", "--plan", "review", "--arg", "files=a")
    assert (wrong.exit_code, server.calls) == (2, [])
    assert f"({review.name}, line 3)" in wrong.stderr
    assert "--plan does not go with --save" in podium("plan", "--plan", "review", "--save", "x").stderr
    assert "--arg needs --plan" in podium("plan", "Why?", "--arg", "x=1").stderr


def test_what_a_saved_plan_keeps_of_an_unfinished_run(
    podium: Podium, review: Path, server: ChatServer
) -> None:
    """It is told of the newest, before a run, with the command that continues it."""

    def refuse(call: Call) -> Reply:
        refused = whole({"error": {"message": "no"}}, status=400)
        return refused if "Say it" in str(call.body) else says(call, "o")

    server.reply = refuse
    failed = podium("run", "--plan", "review", "--arg", 'files=["a", "b"]', "--run-id", "r")
    assert failed.exit_code == 1
    assert "of review" not in failed.stderr
    review.write_text(SEEING.replace("Say it.", "Tell it."), encoding="utf-8")
    told = (
        'podium: run r of review(files=["a", "b"], mode="fast") ended failed: 2 recorded results are kept '
        "(2 inside of maps and blocks); at least 1 call is expected"
    )
    calls = len(server.calls)
    shown = podium("plan", "--plan", "review", "--arg", "files=[]").stderr
    assert told in shown
    assert len(server.calls) == calls
    continues = re.search(r"continue it with `podium (.*)`", shown)
    assert continues is not None
    assert told in podium("run", "--plan", "review", "--arg", "files=[]").stderr
    calls = len(server.calls)
    assert podium(*shlex.split(continues[1])).stdout == "o\n"
    assert len(server.calls) == calls + 1
    assert "of review" not in podium("run", "--plan", "review", "--arg", "files=[]", "--no-journal").stderr
    assert "of review" not in podium("plan", "--plan", "review", "--arg", "files=[]").stderr


def test_a_run_is_listed_with_its_saved_plan(podium: Podium, review: Path) -> None:
    """And its arguments, without secrets."""
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    assert podium("run", "--plan", "review", "--arg", f'files=["a", "{key}"]').exit_code == 0
    run_id = json.loads(podium("runs", "--json").stdout)[0]["run_id"]
    for told in (podium("runs", env={"COLUMNS": "200"}).stdout, podium("show", run_id).stdout):
        assert 'review(files=["a", "sk-[secret]"], mode="fast")' in told
