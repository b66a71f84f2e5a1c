"""GRPO with TRL's `GRPOTrainer`."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from podium.errors import ConfigError
from podium_train.guards import HeldOut, Stop, ended_without_plans, last_checkpoint, read_steps
from podium_train.progress import Reporter
from podium_train.recipes import GrpoSection, Recipe, base_of, environment_of, messages_of
from podium_train.rewards import Score, ScoreRequest, episode_json
from podium_train.runs import begin, begin_after_sft, mark_model, record_of
from podium_train.runs.record import passes_of, processes_of_training
from podium_train.trl.callbacks import GuardCallback
from podium_train.trl.evaluation import Generator, measure_held_out
from podium_train.trl.models import (
    common_arguments,
    lora_of,
    quiet,
    settings_of,
    tell_processor,
    tokenizer_of,
    without_extras,
)
from podium_train.trl.rewards import EPISODE, PlanReward, SecondRoundRollouts


@quiet()
def run_grpo(
    recipe: Recipe, folder: Path, *, report: Reporter | None = None, report_to: str = "none"
) -> Stop | None:
    """Train by GRPO. An interrupted run continues from its last checkpoint, to the same weights.

    The last weights are in `final`, and the best checkpoint is in `best`, in the folder of the run.

    Args:
        recipe: the settings, with `[grpo]`.
        folder: the folder of the recipe, at which relative paths start.
        report: tells people of each step; `None` prints lines.
        report_to: where TRL reports its measures: `tensorboard`, `wandb`, `trackio`.

    Returns:
        Why the guards stopped the run, or that its last step has no valid plan; else `None`.

    Raises:
        ConfigError: a setting does not fit the machine or the environment, or the run was started with other
            settings.
    """
    grpo = recipe.grpo
    assert grpo is not None
    run, report = folder / recipe.folder, report or Reporter()
    arguments = grpo_config(recipe, run, report_to)  # first, because it joins the processes of the training
    trained = _after_sft(run)
    base = base_of(recipe.model, folder) if trained is None else str(trained.resolve())
    tokenizer = tokenizer_of(base, recipe.prompt.style.prefill)
    is_first = PartialState().is_main_process
    if is_first:
        if trained is not None:
            begin_after_sft(run, recipe)
        tell_processor(report)
        for line in begin(run, record_of("grpo", recipe, folder, start=trained)):
            report.line(line)
    reward = PlanReward(recipe, folder)
    checkpoint = last_checkpoint(run)

    def score(requests: Sequence[ScoreRequest]) -> list[Score]:
        # In the event loop of TRL, to which the connections of the scorer belong.
        return asyncio.run_coroutine_threadsafe(reward.scorer.score(requests), trainer.async_loop).result()

    def held_out() -> Mapping[str, HeldOut]:
        model = trainer.accelerator.unwrap_model(trainer.model)
        generator = Generator(model, tokenizer, max_tokens=grpo.max_tokens, temperature=grpo.temperature)
        return measure_held_out(recipe, folder, generator, score)

    callback = GuardCallback(
        folder=run,
        settings=recipe.guards,
        checkpoint=checkpoint,
        held_out=held_out,
        every=recipe.held_out.every,
        report=report,
        tensorboard="tensorboard" in report_to,
    )
    reward.heard = callback.hear
    trainer = GRPOTrainer(
        model=base,
        args=arguments,
        reward_funcs=reward,  # type: ignore[arg-type]  # it may be asynchronous, which its type leaves out
        train_dataset=_dataset(recipe, folder),
        processing_class=tokenizer,
        peft_config=lora_of(recipe.model),
        callbacks=[callback],
        rollout_func=None
        if recipe.recursion is None
        else SecondRoundRollouts(recipe, environment_of(recipe.environment, folder), score),
    )
    without_extras(trainer)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    trainer.save_model(str(run / "final"))
    if is_first:
        mark_model(run / "final", run)
    return callback.stop or ended_without_plans(read_steps(run))


def grpo_config(recipe: Recipe, run: Path, report_to: str = "none") -> GRPOConfig:
    """Return TRL's settings for a recipe.

    Raises:
        ConfigError: the texts of an update cannot be divided among the processes.
    """
    grpo = recipe.grpo
    assert grpo is not None
    texts = grpo.groups * grpo.group_size
    if recipe.recursion is not None and grpo.groups % processes_of_training():
        raise ConfigError(
            f"[recursion] needs whole groups in each process: 'groups' in [grpo] is {grpo.groups}, which is "
            f"not a multiple of {processes_of_training()}"
        )
    return GRPOConfig(
        output_dir=str(run),
        learning_rate=grpo.learning_rate,
        lr_scheduler_type=grpo.schedule,
        warmup_steps=round(grpo.warm_up * grpo.steps),
        max_steps=grpo.steps,
        per_device_train_batch_size=grpo.micro_batch,
        gradient_accumulation_steps=passes_of(texts, grpo.micro_batch, what="groups × group_size in [grpo]"),
        num_generations=grpo.group_size,
        num_iterations=1,
        max_completion_length=grpo.max_tokens,
        temperature=grpo.temperature,
        top_p=1.0,
        top_k=0,
        beta=grpo.beta,
        epsilon=grpo.epsilon,
        loss_type=grpo.loss,
        entropy_coef=grpo.entropy,
        scale_rewards="group",
        save_steps=grpo.save_every,
        seed=grpo.seed,
        shuffle_dataset=False,  # episodes are drawn at random
        report_to=report_to,
        model_init_kwargs=settings_of(recipe.model),
        **_vllm(grpo),
        **common_arguments(recipe.model),
    )


def _vllm(grpo: GrpoSection) -> dict[str, Any]:
    if grpo.vllm is None:
        return {}
    return {
        "use_vllm": True,
        "vllm_mode": grpo.vllm.mode,
        "vllm_server_base_url": grpo.vllm.url,
        "vllm_gpu_memory_utilization": grpo.vllm.memory,
        "vllm_tensor_parallel_size": grpo.vllm.tensor_parallel,
        "vllm_enable_sleep_mode": grpo.vllm.sleep and grpo.vllm.mode == "colocate",
        "vllm_max_model_length": grpo.vllm.max_length,
        "vllm_importance_sampling_correction": True,
    }


def _after_sft(run: Path) -> Path | None:
    """Return the model of supervised training, if there is one."""
    trained = run / "sft" / "final"
    return trained if trained.is_dir() else None


def _dataset(recipe: Recipe, folder: Path) -> Dataset:
    """Return the prompts of all steps, each with its episode."""
    grpo = recipe.grpo
    assert grpo is not None
    environment = environment_of(recipe.environment, folder)
    episodes = environment.episodes("train", grpo.groups * grpo.steps, seed=grpo.seed)
    rows = []
    for episode in episodes:
        told = episode_json(episode)
        messages = messages_of(recipe, environment, episode)
        prompt = [{"role": message.role, "content": message.text} for message in messages]
        if recipe.recursion is not None:
            prompt[0][EPISODE] = told
        rows.append({"prompt": prompt, "episode": told})
    return Dataset.from_list(rows)
