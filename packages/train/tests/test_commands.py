"""The command line, without trainers, and the comparison of a served conductor with baselines."""

import json
import re
from pathlib import Path

import pytest
from command_line import Done, command
from servers.chat_server import ChatServer, says, whole
from small_recipes import PLANNER, RECIPE, RECORDED, WORLD
from small_recording import small_recording

from podium_evals.recorded import write_recordings
from podium_train.recipe import shipped_recipes
from podium_train.warm_start import read_examples

HELD_OUT = '[held_out]\nsplits = ["validation", "kinds"]\n'


def test_recipes_are_listed_and_printed(tmp_path: Path) -> None:
    assert "paper-7b" in command("recipe", folder=tmp_path).stdout
    assert command("recipe", "lora-3b", folder=tmp_path).stdout == shipped_recipes()["lora-3b"]
    wrong = command("recipe", "lora", folder=tmp_path)
    assert (wrong.returncode, "lora-3b" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "text", "told"),
    [
        (("grpo", "--config", "none.toml"), None, "podium-train recipe NAME"),
        (("grpo", "--config", "recipe.toml"), RECIPE + "epsilom = 0.2\n", "did you mean 'epsilon'"),
        (("sft", "--config", "recipe.toml"), RECIPE, "has no table [sft]"),
        (("grpo", "--config", "recipe.toml"), RECIPE + HELD_OUT, "names kinds: workshop has"),
        (("export", "--config", "recipe.toml", "--out", "out"), RECIPE, "there is no model in run/best"),
    ],
)
def test_wrong_input(words: tuple[str, ...], text: str | None, told: str, tmp_path: Path) -> None:
    """A short message, and exit code 2."""
    if text is not None:
        (tmp_path / "recipe.toml").write_text(text)
    done = command(*words, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert told in " ".join(done.stderr.replace("│", " ").split())


def test_examples_of_a_recipe(tmp_path: Path) -> None:
    """With the reasons of their choices if the prompt asks for them; a file that is there is kept."""
    write_recordings(small_recording(), tmp_path / "recording.jsonl")
    text = RECIPE.replace(WORLD, RECORDED) + '[sft]\nexamples = "plans.jsonl"\n'
    (tmp_path / "recipe.toml").write_text(text)
    words = ("examples", "--config", "recipe.toml", "--episodes", "30")
    done = command(*words, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    found = read_examples(tmp_path / "plans.jsonl")
    assert f"plans.jsonl has {len(found)} plans with a right answer" in done.stdout
    assert all(each.completion.startswith("model_id = [") for each in found)
    again = command(*words, folder=tmp_path)
    assert (again.returncode, "plans.jsonl exists: delete it" in again.stderr) == (2, True)
    text = text.replace("plans.jsonl", "reasons.jsonl") + "[prompt]\nstyle = { reasons = true }\n"
    (tmp_path / "recipe.toml").write_text(text)
    assert command(*words, folder=tmp_path).returncode == 0
    found = read_examples(tmp_path / "reasons.jsonl")
    assert all(re.match(r"Part 1 is \w+: 0 \d+%.* So \d", each.completion) for each in found)
    (tmp_path / "recipe.toml").write_text(RECIPE + '[sft]\nexamples = "other.jsonl"\n')
    other = command(*words, folder=tmp_path)
    assert (other.returncode, "this command needs recorded answers" in other.stderr) == (2, True)


COMPARED = """
environment.type = "recorded"
environment.recording = "recorded.jsonl"
environment.answers = { sizes = [2, 3], held_workers = 1 }
model.base = "base"
[grpo]
"""
PLAN = 'model_id = [0]\nsubtasks = ["Answer the question."]\naccess_list = [[]]'


def compare(folder: Path, *words: str, recipe: str = COMPARED) -> Done:
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
    assert (lines[0], lines[3][:5]) == ("recorded, split questions: 20 episodes", "mine ")
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
    live = 'type = "live", config = "podium.toml", questions = "q.jsonl", grader = "number"'
    own = f'environment = {{ {live} }}\nmodel.base = "base"\n[grpo]\n'
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
