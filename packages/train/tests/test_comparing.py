"""The command that compares a served conductor with baselines."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servers.chat_server import ChatServer, says
from small_recording import small_recording

from podium_evals.recorded import write_recordings

RECIPE = """
[environment]
type = "recorded"
recording = "recorded.jsonl"
[environment.answers]
sizes = [2, 3]
held_workers = 1
[model]
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


def compare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `podium-train compare` on a recipe with a small recording."""
    (folder / "recipe.toml").write_text(RECIPE)
    write_recordings(small_recording(), folder / "recorded.jsonl")
    return subprocess.run(
        [sys.executable, "-m", "podium_train", "compare", "--config", "recipe.toml", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )


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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--split", "weather"), "there is no split 'weather'"),
        (("--planner", "none.toml"), "none.toml cannot be read"),
        (("--episodes", "5", "--out", "missing/found.json"), "cannot be written"),
    ],
)
def test_wrong_options_are_told_in_a_line(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    """Without a traceback."""
    run = compare(tmp_path, *words)
    assert run.returncode != 0
    assert told in run.stderr
    assert "Traceback" not in run.stderr
