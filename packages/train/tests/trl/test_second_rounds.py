"""GRPO over two rounds with TRL."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from trl_base import QUIET, make_base

RECIPE = """
folder = "run"
environment = { type = "python", factory = "tiny_conductor.world:Workshop" }
prompt = { form = "environment", style = { spelling = "lists", rounds = 2 } }
model = { base = "base", dtype = "float32" }
held_out = { episodes = 4, every = 2 }
[grpo]
groups = 2
group_size = 8
steps = 2
learning_rate = 1e-3
schedule = "constant"
max_tokens = 32
micro_batch = 16
save_every = 2
[recursion]
"""


@pytest.mark.timeout(300)
def test_second_rounds_are_trained_and_measured(tmp_path: Path) -> None:
    """Half of the texts of each group continue the others, and `eval` tells what they change."""
    make_base(tmp_path / "base")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    command = [sys.executable, "-m", "podium_train"]

    def run(name: str) -> str:
        words = [*command, name, "--config", str(recipe)]
        done = subprocess.run(words, capture_output=True, text=True, env=QUIET, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = run("grpo")
    assert "second rounds" in told
    lines = [json.loads(line) for line in (tmp_path / "run/steps.jsonl").read_text().splitlines()]
    assert [line["texts"] for line in lines] == [8, 8]
    assert all(0 < line["second"]["texts"] <= 8 for line in lines)
    assert lines[-1]["held_out"]["validation"]["sampled_second"]["after"] >= 0
    assert "kept" in run("eval")
