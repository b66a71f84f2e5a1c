"""Measures a trained model."""

from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
from peft import AutoPeftModelForCausalLM
from transformers import AutoModelForCausalLM

from podium.errors import ConfigError
from podium_train.errors import NothingMeasured
from podium_train.guards import HeldOut, WrittenText, held_out_told
from podium_train.recipes import Recipe, check_dtype
from podium_train.runs import check_prompt, read_record
from podium_train.trl.generate import Generator
from podium_train.trl.held_out import measure_held_out
from podium_train.trl.loading import dtype_of, quiet, tokenizer_of
from podium_train.trl.plan_reward import PlanReward


@quiet()
def evaluate(
    recipe: Recipe,
    folder: Path,
    model: Path,
    heard: Callable[[str, WrittenText], object] = lambda _split, _text: None,
) -> Mapping[str, HeldOut]:
    """Return the accuracy of a model on the splits of `[held_out]`.

    Args:
        recipe: the settings, with `[grpo]`.
        folder: the folder of the recipe.
        model: a folder that a trainer wrote.
        heard: is given each text, after its split; sampled texts come first.

    Raises:
        ConfigError: the folder has no model, or one that was trained with another prompt, or there is no GPU
            for the type of the weights.
        NothingMeasured: no outcome is known.
    """
    grpo = recipe.grpo
    assert grpo is not None
    check_dtype(recipe.model)
    if not model.is_dir():
        raise ConfigError(f"there is no model in {model}: train one, or name its folder with --model")
    if (record := read_record(model)) is not None:
        check_prompt(record, recipe, model)
    kind = AutoPeftModelForCausalLM if (model / "adapter_config.json").exists() else AutoModelForCausalLM
    generator = Generator(
        kind.from_pretrained(model, dtype=dtype_of(recipe.model)),
        tokenizer_of(str(model), recipe.prompt.style.prefill),
        max_tokens=grpo.max_tokens,
        temperature=grpo.temperature,
    )
    scorer = PlanReward(recipe, folder).scorer
    found = measure_held_out(
        recipe, folder, generator, lambda requests: anyio.run(scorer.score, requests), heard
    )
    if all(each.sampled is None and each.greedy is None for each in found.values()):
        told = "; ".join(f"{split}: {held_out_told(each)}" for split, each in found.items())
        raise NothingMeasured(f"no plan has a known outcome: {told}")
    return found
