"""`podium plan`: what would be done, and nothing of it; and what it reads from a text."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from servers.chat_server import ChatServer, says
from typer.testing import Result

Podium = Callable[..., Result]


def test_plan_is_shown_and_not_run(podium: Podium, config: Path, server: ChatServer) -> None:
    result = podium("plan", "What is it?")
    assert result.exit_code == 0
    assert all(text in result.stdout for text in ("Say it aloud.", "flowchart TD"))
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
    shown = re.search(r"run it with `podium (.*)`", saved.stderr)
    assert shown is not None
    server.calls.clear()
    assert (podium(*shlex.split(shown[1])).stdout, len(server.calls)) == ("forty-two\n", 2)
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
    assert podium("run", "--plan", "review", "--arg", "repo=.", "--arg", "n=4").stdout == "forty-two\n"
    assert "See . 4 times." in str(server.calls[0].body)
    assert podium("run", "--plan", str(file), "--arg", "repo=.").stdout == "forty-two\n"
    assert "there is no saved plan 'revue': [plans] has review" in podium("run", "--plan", "revue").stderr
    again = podium("plan", "Review {{repo}}", "--save", "review")
    assert "plans/review.toml already exists" in again.stderr


SEEING = """name = "review"
[parameters]
files = { type = ["string"] }
mode = { type = "fast|deep", default = "fast" }
[[steps]]
worker = "thinker"
subtask = "See {{item}} {{mode}}."
each = "{{files}}"
access = []
"""


def test_a_run_is_listed_with_its_saved_plan(podium: Podium, config: Path) -> None:
    config.with_name("review.toml").write_text(SEEING, encoding="utf-8")
    config.write_text(config.read_text() + '[plans]\nreview = "review.toml"\n')
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    assert podium("run", "--plan", "review", "--arg", f'files=["a", "{key}"]').exit_code == 0
    run_id = json.loads(podium("runs", "--json").stdout)[0]["run_id"]
    for told in (podium("runs", env={"COLUMNS": "200"}).stdout, podium("show", run_id).stdout):
        assert 'review(files=["a", "sk-[secret]"], mode="fast")' in told


LISTS = 'model_id = [0, 2]\nsubtasks = ["Add é", "Say"]\naccess_list = [[], ["all"]]\n'


@pytest.fixture
def parse(podium: Podium, tmp_path: Path) -> Podium:
    def run(text: str | bytes, *args: str) -> Result:
        path = tmp_path / "plan.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return podium("plan", "--parse", str(path), "--workers", "3", *args)

    return run


def test_a_parsed_plan(parse: Podium) -> None:
    result = parse(LISTS, "--json")
    first = {"worker": 0, "subtask": "Add é", "access": []}
    steps = [first, {"worker": 2, "subtask": "Say", "access": [0]}]
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ok": True, "plan": {"steps": steps}})
    assert "Add é" in parse(LISTS).stdout


def test_a_text_that_is_no_plan(parse: Podium) -> None:
    result = parse(LISTS.replace('"all"', "7"), "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["code"], error["position"]) == (2, "forward_access", 66)
    assert set(error) == {"code", "message", "position"}
    result = parse(LISTS.replace('"all"', "7"))
    assert (result.exit_code, result.stdout) == (2, "")
    line, caret = result.stderr.splitlines()[1:3]
    assert line.endswith("access_list = [[], [7]]")
    assert line[caret.index("^")] == "7"
    for data in (b"", b"\0" * 1000, b"[" * 2**18):
        result = parse(data, "--json")
        assert (result.exit_code, json.loads(result.stdout)["ok"], parse(data).exit_code) == (2, False, 2)


def test_names_stand_for_workers(podium: Podium) -> None:
    """With names for workers, a step may name its own; stdin is read for `-`."""
    text = '{"worker": "claude", "subtask": "Say", "access": []}\n'
    result = podium("plan", "--parse", "-", "--workers", "gpt,claude", "--json", input=text)
    assert json.loads(result.stdout)["plan"]["steps"][0]["worker"] == 1
    for workers in ("0", "", "a,,b", "a,a"):
        result = podium("plan", "--parse", "-", f"--workers={workers}", input=LISTS)
        assert (result.exit_code, "--workers" in result.stderr) == (2, True)


def test_unreadable_file_is_told(parse: Podium, podium: Podium) -> None:
    for result, told in (
        (podium("plan", "--parse", "missing.txt", "--workers", "2"), "it does not exist"),
        (parse(b"\xff\xfe"), "it is not UTF-8 text"),
        (parse(b"x" * 2**21), "it is longer than"),
    ):
        assert result.exit_code == 2
        assert f"cannot be read: {told}" in result.stderr
