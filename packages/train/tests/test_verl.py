"""The job for verl, without verl."""

import json
import shlex
import subprocess
from pathlib import Path

import anyio
import pytest
from reward_server import served
from scored_world import ScoredWorld, episode, plan

from podium.errors import ConfigError
from podium_train.recipes import load_recipe, shipped_recipes
from podium_train.rewards import RewardService, RewardStore, episode_json, reward_app
from podium_train.runs import read_record
from podium_train.verl import write_job
from podium_train.verl.reward_function import compute_score

RECIPE = """
[environment]
type = "specialists"
[model]
base = "base"
[grpo]
groups = 2
steps = 3
save_every = 20
[reward]
url = "http://127.0.0.1:8321"
"""
SCHEMA = (Path(__file__).parent / "verl_settings.txt").read_text().split()
"""Names of settings of verl 0.9.1, from its file `_generated_ppo_trainer.yaml`."""


def words_of(out: Path) -> list[str]:
    """Return the settings of a job as words of verl's command line."""
    words = shlex.split((out / "train.sh").read_text().replace("\\\n", " "), comments=True)
    return words[words.index("verl.trainer.main_ppo") + 1 :]


def test_a_job_has_data_settings_and_a_script(tmp_path: Path) -> None:
    """The script is valid, and its settings are those of verl's schema."""
    (tmp_path / "recipe.toml").write_text(RECIPE)
    out = tmp_path / "job"
    write_job(load_recipe(tmp_path / "recipe.toml"), tmp_path, out, nodes=2, gpus=8)
    rows = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
    assert len(rows) == 6
    assert rows[0]["prompt"][-1]["role"] == "user"
    assert rows[0]["extra_info"]["environment"] == "specialists"
    subprocess.run(["/bin/sh", "-n", out / "job.sh"], check=True)
    subprocess.run(["/bin/sh", "-n", out / "train.sh"], check=True)
    assert shlex.quote(str(out / "train.sh")) in (out / "job.sh").read_text()
    settings = dict(word.split("=", 1) for word in words_of(out))
    assert set(settings) <= set(SCHEMA)
    assert settings["actor_rollout_ref.rollout.n"] == "64"
    assert Path(settings["reward.custom_reward_function.path"]).is_file()


def test_a_job_with_checkpoints_keeps_its_settings(tmp_path: Path) -> None:
    """Because verl continues from them; the record of the job says what its models are trained with."""
    path, out = tmp_path / "recipe.toml", tmp_path / "job"
    path.write_text(RECIPE)
    write_job(load_recipe(path), tmp_path, out, nodes=2, gpus=8)
    record = read_record(out)
    assert record is not None
    assert record.recipe == load_recipe(path)
    (out / "checkpoints").mkdir()
    path.write_text(RECIPE.replace("[grpo]", "[grpo]\nlearning_rate = 1e-3"))
    with pytest.raises(ConfigError, match="'learning_rate' in"):
        write_job(load_recipe(path), tmp_path, out, nodes=2, gpus=8)


@pytest.mark.parametrize(
    ("text", "gpus", "told"),
    [
        (RECIPE.partition("[reward]")[0], 8, "serve-rewards"),
        (RECIPE, 7, "not a multiple of the 14 GPUs"),
        (RECIPE.replace("steps = 3", 'steps = 3\nschedule = "linear"'), 8, "verl has no linear schedule"),
        (RECIPE + "[model.lora]\ndropout = 0.1\n", 8, "verl has no dropout of LoRA"),
        (RECIPE + '[prompt]\nstyle = { prefill = "Plan:" }\n', 8, "a prefill is only for TRL"),
    ],
)
def test_jobs_that_cannot_run(text: str, gpus: int, told: str, tmp_path: Path) -> None:
    """The error says what to write."""
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(ConfigError, match=told):
        write_job(load_recipe(tmp_path / "recipe.toml"), tmp_path, tmp_path / "job", nodes=2, gpus=gpus)


def test_the_reward_function_asks_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown outcome has the reward of a valid plan, and is counted."""
    info = {"episode": episode_json(episode()), "environment": "scored", "version": "1"}

    async def scores() -> list[dict[str, float]]:
        texts = [plan(0), plan(1), "no plan", plan(0, subtask="lost")]
        return [
            await compute_score(data_source="podium", solution_str=text, ground_truth="", extra_info=info)
            for text in texts
        ]

    with served(reward_app(RewardService(ScoredWorld(), RewardStore()))) as url:
        monkeypatch.setenv("PODIUM_REWARD_URL", url)
        found = anyio.run(scores)
    assert [each["score"] for each in found] == [1.0, 0.5, 0.0, 0.5]
    assert [each["unknown"] for each in found] == [0, 0, 0, 1]


def test_the_recipe_for_several_machines_is_one_for_verl(tmp_path: Path) -> None:
    """Its batches fit."""
    (tmp_path / "recipe.toml").write_text(shipped_recipes()["multi-node"])
    recipe = load_recipe(tmp_path / "recipe.toml")
    assert recipe.grpo is not None
    assert (recipe.grpo.groups * recipe.grpo.group_size) % 16 == 0
