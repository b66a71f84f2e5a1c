"""A trained conductor behind a real server: train, export, serve, plan."""

import json
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import anyio
import httpx2
import pytest
from trl_base import PLAN, QUIET, free_port, make_base

from podium.config import load_config
from podium.errors import ConfigError
from podium_train.export import FACTS_FILE
from podium_train.recipes import environment_of, load_recipe, messages_of

RECIPE = """
folder = "run"
[environment]
type = "python"
factory = "tiny_conductor.world:Workshop"
[prompt]
style = { spelling = "lists", show = "ordinals", examples = 0, prefill = "Let us see. model_id = [" }
[model]
base = "base"
dtype = "float32"
[sft]
examples = "plans.jsonl"
epochs = 12
learning_rate = 5e-3
batch = 4
micro_batch = 4
save_every = 100
[grpo]
"""


@contextmanager
def served(folder: Path) -> Generator[str]:
    """Serve a folder with the server of transformers; yield its URL."""
    port = free_port()
    words = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--device", "cpu"]
    with (folder.parent / "server.log").open("w") as log:
        process = subprocess.Popen([*words, "--port", str(port)], stdout=log, stderr=log, env=QUIET)
    try:
        url = f"http://127.0.0.1:{port}"
        ends = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < ends:
            try:
                httpx2.get(f"{url}/health", trust_env=False)
                break
            except httpx2.TransportError:
                time.sleep(0.2)
        assert process.poll() is None, (folder.parent / "server.log").read_text()
        yield f"{url}/v1"
    finally:
        process.terminate()
        process.wait(20)


def command(*words: str) -> None:
    """Run podium-train to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "podium_train", *words], capture_output=True, text=True, env=QUIET, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_trained_conductor_plans(tmp_path: Path) -> None:
    """With the preset `conductor` and a prefill; another prompt than that of the training is refused."""
    make_base(tmp_path / "base")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    recipe = load_recipe(path)
    environment = environment_of(recipe.environment, tmp_path)
    episodes = environment.episodes("train", 8, seed=1)
    rows = [
        {
            "messages": [
                {"role": m.role, "content": m.text} for m in messages_of(recipe, environment, episode)
            ],
            "completion": "Let us see. " + PLAN,
        }
        for episode in episodes
    ]
    (tmp_path / "plans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command("sft", "--config", str(path))
    exported = tmp_path / "conductor"
    command(
        "export", "--config", str(path), "--model", str(tmp_path / "run/sft/final"), "--out", str(exported)
    )
    preset = (files("podium") / "config/presets/conductor.toml").read_text()
    with served(exported) as url:
        text = preset.replace("http://localhost:8000/v1", url).replace(
            '"conductor"       #', f'"{exported}"  #'
        )
        (tmp_path / "podium.toml").write_text(text.replace('provider = "vllm"', 'provider = "compatible"'))
        conductor = load_config(tmp_path / "podium.toml").conductor(journaled=False)
        plan = anyio.run(conductor.plan, episodes[0].question)
    assert [(step.worker, step.subtask) for step in plan.steps] == [(0, "lookup")]
    assert plan.planner is not None
    facts = exported / FACTS_FILE
    facts.write_text(facts.read_text().replace('"examples": 0', '"examples": 1'))
    with pytest.raises(ConfigError, match="trained with the prompt"):
        load_config(tmp_path / "podium.toml").conductor(journaled=False)
