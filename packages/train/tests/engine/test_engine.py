"""The settings of vLLM in the shipped recipes, as TRL gives them to vLLM, are accepted by vLLM itself."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from trl.generation import vllm_generation
from vllm.engine.arg_utils import EngineArgs

from podium_train.recipe import load_recipe, shipped_recipes
from podium_train.trl import write_small_base
from podium_train.trl.grpo import grpo_config

RECIPES = sorted(name for name, text in shipped_recipes().items() if "[grpo.vllm]" in text)


class Engine:
    """Stands in for `vllm.LLM`, which would load the model."""

    last: dict[str, Any]

    def __init__(self, **given: Any) -> None:
        Engine.last = given

    def sleep(self, level: int) -> None:
        """Do nothing."""


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_accepted_by_vllm(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the arguments that TRL computes for the engine in the process of the trainer."""
    (tmp_path / "recipe.toml").write_text(shipped_recipes()[name])
    recipe = load_recipe(tmp_path / "recipe.toml")
    assert recipe.grpo is not None
    assert recipe.grpo.vllm is not None
    gpus, args = recipe.grpo.vllm.tensor_parallel, grpo_config(recipe, tmp_path)
    for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(key, "0")  # so that they are removed after TRL has set them
    process: Any = SimpleNamespace(num_processes=gpus, process_index=0, local_process_index=0)
    process.wait_for_everyone = lambda: None
    groups = "torch.distributed.new_subgroups_by_enumeration"
    monkeypatch.setattr(groups, lambda _ranks: (None, None))
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda: True)  # asks for the package `vllm`
    monkeypatch.setattr(vllm_generation, "DistributedBackend", lambda _accelerator: None)
    monkeypatch.setattr(vllm_generation, "LLM", Engine, raising=False)
    write_small_base(tmp_path / "base")
    model: Any = SimpleNamespace(name_or_path=str(tmp_path / "base"), named_modules=list)
    vllm_generation.VLLMGeneration(
        model,
        process,
        None,  # type: ignore[arg-type]  # a tokenizer, which is not used here
        mode=args.vllm_mode,
        tensor_parallel_size=args.vllm_tensor_parallel_size,
        gpu_memory_utilization=args.vllm_gpu_memory_utilization,
        max_model_length=args.vllm_max_model_length,
        max_num_seqs=args.per_device_train_batch_size * gpus * args.steps_per_generation,
        enable_sleep_mode=args.vllm_enable_sleep_mode,
        model_impl=args.vllm_model_impl,
    )
    found = EngineArgs(**Engine.last)
    assert found.enable_sleep_mode is recipe.grpo.vllm.sleep
    found.enable_sleep_mode = False  # it needs a GPU
    config = found.create_model_config()
    assert config.max_model_len == (recipe.grpo.vllm.max_length or 32_768)


@pytest.mark.nightly
def test_the_printed_command_is_accepted_by_vllm(tmp_path: Path) -> None:
    from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: PLC0415 - only for this test

    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    words = ["--model", str(tmp_path), "--served-model-name", "conductor"]
    found = EngineArgs.from_cli_args(parser.parse_args(words))
    assert found.served_model_name in ("conductor", ["conductor"])
