"""The command that compares a served conductor with baselines."""

import json
from pathlib import Path

import pytest
from command_line import Done, command
from servers.chat_server import ChatServer, says, whole
from small_recording import small_recording

from podium_evals.recorded import write_recordings

ANSWERS = """[environment.answers]
sizes = [2, 3]
held_workers = 1
"""
RECIPE = f"""
[environment]
type = "recorded"
recording = "recorded.jsonl"
{ANSWERS}[model]
base = "base"
[grpo]
steps = 100
"""
PLANNER = """
[endpoints.own]
base_url = "{url}"
[workers.any]
endpoint = "own"
model = "any"
[planner]
endpoint = "own"
model = "mine"
spelling = "lists"
"""
PLAN = 'model_id = [0]\nsubtasks = ["Answer the question."]\naccess_list = [[]]'


def compare(folder: Path, *words: str, recipe: str = RECIPE) -> Done:
    (folder / "recipe.toml").write_text(recipe)
    write_recordings(small_recording(), folder / "recorded.jsonl")
    return command("compare", "--config", "recipe.toml", *words, folder=folder)


def test_a_served_conductor_is_compared(tmp_path: Path) -> None:
    """It is the first arm of the table; the JSON has the same figures."""
    with ChatServer(lambda call: says(call, PLAN)).in_thread() as server:
        (tmp_path / "podium.toml").write_text(PLANNER.format(url=server.url))
        words = ("--planner", "podium.toml", "--episodes", "20", "--out", "found.json")
        run = compare(tmp_path, *words)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0] == "recorded, split questions: 20 episodes"
    assert lines[3].startswith("mine ")
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["arms"][0]["valid"], found["arms"][0]["calls"], found["base"]) == (1.0, 1.0, "best single")
    assert len(server.calls) == 20


def test_a_planner_that_never_answers(tmp_path: Path) -> None:
    """The command ends with its first error, and without a table of zeros."""
    (tmp_path / "podium.toml").write_text(PLANNER.format(url="http://127.0.0.1:9/v1"))
    run = compare(tmp_path, "--planner", "podium.toml", "--episodes", "4")
    assert (run.returncode, run.stdout) == (2, "")
    assert "the planner 'mine' gave no plan: worker_unavailable: no connection" in run.stderr


def test_workers_that_never_answer(tmp_path: Path) -> None:
    """No outcome is known, so there are no figures."""
    rows = [{"question": f"What is {n} + 1?", "answer": n + 1} for n in range(9)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    live = 'type = "live"\nconfig = "podium.toml"\nquestions = "q.jsonl"\ngrader = "number"'
    own = RECIPE.replace('type = "recorded"\nrecording = "recorded.jsonl"', live).replace(ANSWERS, "")
    with ChatServer(lambda _: whole({"error": {"message": "a bad key"}}, status=401)).in_thread() as server:
        (tmp_path / "podium.toml").write_text(PLANNER.format(url=server.url))
        run = compare(tmp_path, "--split", "train", "--episodes", "2", recipe=own)
    assert (run.returncode, run.stdout) == (2, "")
    assert "no plan of any arm has a known outcome" in run.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--split", "weather"), "there is no split 'weather'"),
        (("--episodes", "5", "--out", "recipe.toml"), "recipe.toml exists: name another file with --out"),
    ],
)
def test_wrong_options_are_told_in_a_line(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    run = compare(tmp_path, *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert told in run.stderr
