"""The shipped recipes and files are accepted by the libraries that read them."""

from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file

from podium_train.recipe import load_recipe, shipped_launchers, shipped_recipes
from podium_train.trl.grpo import grpo_config


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_recipes_are_accepted_by_trl(name: str, tmp_path: Path) -> None:
    """With vLLM's settings; the texts of an update are those of the recipe."""
    (tmp_path / "recipe.toml").write_text(shipped_recipes()[name])
    recipe = load_recipe(tmp_path / "recipe.toml")
    grpo, found = recipe.grpo, grpo_config(recipe, tmp_path)
    assert grpo is not None
    assert found.generation_batch_size == grpo.groups * grpo.group_size
    if grpo.vllm is not None:
        assert (found.use_vllm, found.vllm_enable_sleep_mode) == (True, True)
        assert found.vllm_max_model_length == grpo.vllm.max_length


@pytest.mark.parametrize("name", sorted(shipped_launchers()))
def test_files_are_accepted_by_accelerate(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(shipped_launchers()[name])
    found = load_config_from_file(str(tmp_path / name))
    assert (found.distributed_type, found.deepspeed_config["zero_stage"]) == ("DEEPSPEED", 3)
