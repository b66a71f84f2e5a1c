"""The settings of jobs, checked by verl itself: `make test-verl`."""

import os
from pathlib import Path
from typing import Any

import pytest
from test_verl import RECIPE, words_of

from podium_train.recipes import load_recipe, shipped_recipes
from podium_train.verl import write_job

verl = pytest.importorskip(
    "verl", reason="verl is not installed: `make test-verl` installs it and checks the settings of jobs"
)
hydra = pytest.importorskip("hydra")
omegaconf = pytest.importorskip("omegaconf")
checks = pytest.importorskip("verl.utils.config")
needs = pytest.importorskip("verl.trainer.ppo.utils")
os.environ["HF_HUB_OFFLINE"] = "1"
pytestmark = pytest.mark.filterwarnings("default")  # those of verl
MORE = """loss = "dr_grpo"
beta = 0.01
entropy = 0.1
epsilon = 0.3
vllm = { memory = 0.4, tensor_parallel = 2 }
"""


def checked(text: str, folder: Path, *, nodes: int, gpus: int) -> Any:
    """Return verl's settings for a recipe, after the checks with which verl's trainer starts."""
    (folder / "recipe.toml").write_text(text)
    out = folder / "a job, v=2"
    write_job(load_recipe(folder / "recipe.toml"), folder, out, nodes=nodes, gpus=gpus)
    config = Path(verl.__file__).parent / "trainer/config"
    with hydra.initialize_config_dir(str(config), version_base=None):
        found = hydra.compose("ppo_trainer", overrides=words_of(out))
    omegaconf.OmegaConf.resolve(found)
    assert found.data.train_files == str(out / "train.jsonl")
    for part in (found.algorithm, found.actor_rollout_ref.actor, found.actor_rollout_ref.rollout):
        checks.omega_conf_to_dataclass(part)  # checks the types and the choices
    checks.validate_config(
        found,
        use_reference_policy=needs.need_reference_policy(found),
        use_critic=needs.need_critic(found),
    )
    return found


@pytest.mark.parametrize(
    ("text", "nodes", "gpus"),
    [(RECIPE, 1, 2), (RECIPE.replace("groups = 2", "groups = 16"), 2, 8)],
)
def test_jobs_are_valid(text: str, nodes: int, gpus: int, tmp_path: Path) -> None:
    """On one machine and on two."""
    found = checked(text, tmp_path, nodes=nodes, gpus=gpus)
    assert found.actor_rollout_ref.actor.optim.lr_scheduler_type == "cosine"
    assert list(found.trainer.logger) == ["console", "tensorboard"]


def test_all_settings_of_a_recipe_reach_verl(tmp_path: Path) -> None:
    """With a reference model, whose settings verl checks too."""
    text = RECIPE.replace("[grpo]", "[grpo]\n" + MORE)
    found = checked(text, tmp_path, nodes=1, gpus=4)
    actor = found.actor_rollout_ref.actor
    assert (actor.clip_ratio_low, actor.clip_ratio_high) == (0.3, 0.3)
    assert (actor.use_kl_loss, actor.kl_loss_coef, actor.entropy_coeff) == (True, 0.01, 0.1)
    assert found.actor_rollout_ref.rollout.tensor_model_parallel_size == 2


@pytest.mark.parametrize("name", ["multi-node", "paper-7b"])
def test_shipped_recipes_are_valid(name: str, tmp_path: Path) -> None:
    """Those with a reward server; with the world in place of live workers."""
    text = shipped_recipes()[name]
    others = ("config =", "questions =", "prefill =")
    lines = [line for line in text.splitlines() if not line.startswith(others)]
    text = "\n".join(lines).replace('type = "live"', 'type = "specialists"')
    checked(text, tmp_path, nodes=1, gpus=8)
