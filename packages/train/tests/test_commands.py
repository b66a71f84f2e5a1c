"""The command line, without trainers."""

import re
from pathlib import Path

import pytest
from command_line import command
from small_recording import small_recording

from podium_evals.recorded import write_recordings
from podium_train.recipe import shipped_recipes
from podium_train.warm_start import read_examples

WORLD = 'type = "python"\nfactory = "tiny_conductor.world:Workshop"'
RECIPE = """
[environment]
type = "python"
factory = "tiny_conductor.world:Workshop"
[model]
base = "base"
[grpo]
steps = 100
"""
HELD_OUT = """
[held_out]
splits = ["validation", "kinds"]
"""


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
    recorded = 'type = "recorded"\nrecording = "recording.jsonl"\nanswers = { sizes = [2] }'
    text = RECIPE.replace(WORLD, recorded) + '[sft]\nexamples = "plans.jsonl"\n'
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
