"""GRPO with TRL's `GRPOTrainer`, whose callback measures each step and keeps the best checkpoint.

The log has the share of the weights that moved. Weights in bfloat16 have eight bits: updates of a small
learning rate are rounded away. At 1e-6, 200 updates of AdamW change 1 % of them.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from podium.errors import ConfigError
from podium_train.guards import (
    Guards,
    GuardSettings,
    HeldOut,
    Sample,
    StepMeasures,
    Stop,
    ended_without_plans,
    held_out_told,
    measure,
    second_told,
)
from podium_train.recipe import GrpoSection, Recipe, base_of, environment_of, messages_of
from podium_train.rewards import Score, ScoreRequest, episode_json
from podium_train.run_files import (
    MEMORY,
    STEPS,
    TEXTS,
    BestCheckpoint,
    Reporter,
    StepLog,
    last_checkpoint,
    logged_texts,
    read_steps,
    step_of,
)
from podium_train.runs import begin, begin_after_sft, mark_model, passes_of, processes_of_training, record_of
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

_SAMPLE = 1024
"""Weights of each matrix that are compared."""


class MovedWeights:
    """Compares a sample of the trained weights of this process with their values when it was made."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._first = [each.clone() for each in self._sample()]

    def share(self) -> float:
        """Return the share of the weights that differ."""
        pairs = zip(self._sample(), self._first, strict=True)
        changed = torch.stack([(now != first).sum() for now, first in pairs]).sum()
        return float(changed) / max(1, sum(each.numel() for each in self._first))

    def _sample(self) -> Iterator[Tensor]:
        for weight in self._model.parameters():
            if weight.requires_grad:
                local = getattr(weight, "ds_tensor", weight)  # the shard of DeepSpeed's stage 3
                local = local.to_local() if hasattr(local, "to_local") else local
                flat = local.detach().flatten()
                yield flat[:: max(1, len(flat) // _SAMPLE)]


class GuardCallback(TrainerCallback):
    """Logs the measures of each step, stops a run that fails, and keeps the best checkpoint."""

    def __init__(
        self,
        *,
        folder: Path,
        settings: GuardSettings,
        checkpoint: Path | None,
        held_out: Callable[[], Mapping[str, HeldOut]],
        every: int,
        report: Reporter,
    ) -> None:
        self._is_first = PartialState().is_main_process
        memory = None if checkpoint is None else json.loads((checkpoint / MEMORY).read_text())
        step = step_of(checkpoint)
        self.stop: Stop | None = None
        self._guards = Guards(settings, memory)
        self._log = StepLog(folder / STEPS, resumed_at=step) if self._is_first else None
        self._texts = StepLog(folder / TEXTS, resumed_at=step) if self._is_first else None
        self._best = BestCheckpoint(folder)
        self._folder, self._held_out, self._every, self._report = folder, held_out, every, report
        self._moved: MovedWeights | None = None
        self._samples: list[Sample] = []
        self._accuracy: float | None = None
        self._began = time.monotonic()

    def hear(self, samples: Sequence[Sample]) -> None:
        """Take the samples of a batch of rewards of this process."""
        self._samples += samples

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002 - of transformers
        """Note the first weights."""
        self._moved = MovedWeights(model)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - of transformers
        """Measure the step, and stop the run if a rule says so."""
        step = state.global_step
        held_out: Mapping[str, HeldOut] = {}
        if step % self._every == 0:
            held_out = self._held_out()
            self._accuracy = next(iter(held_out.values())).reached
        seconds, self._began = time.monotonic() - self._began, time.monotonic()
        # All processes measure all samples, so that they stop at the same step.
        samples = gather_object(self._samples)
        moved = None if self._moved is None else self._moved.share()
        measures = measure(step, samples, held_out=held_out, seconds=seconds, moved=moved)
        self._samples = []
        if self._log is not None and self._texts is not None:
            self._log.write(measures)
            for text in logged_texts(step, samples):
                self._texts.write(text)
            self._report.step(step, state.max_steps, _told(measures))
        self.stop = self._guards.check(measures)
        if self.stop is not None:
            control.should_training_stop = True
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - of transformers
        """Write the memory of the guards, and keep the checkpoint if it is the best."""
        if not state.is_world_process_zero:
            return
        checkpoint = self._folder / f"checkpoint-{state.global_step}"
        mark_model(checkpoint, self._folder)
        (checkpoint / MEMORY).write_text(json.dumps(self._guards.memory))
        if self._accuracy is not None:
            self._best.offer(checkpoint, step=state.global_step, accuracy=self._accuracy)
            self._accuracy = None


def _told(measures: StepMeasures) -> str:
    held = "".join(
        f", {name} {held_out_told(found)}{second_told(found.sampled_second)}"
        for name, found in measures.held_out.items()
    )
    unknown = f", {measures.unknown:.0%} of the outcomes unknown" if measures.unknown else ""
    moved = "" if measures.moved is None else f", {measures.moved:.0%} of the weights moved"
    return (
        f"reward {measures.reward:.3f}, valid {measures.valid_plans:.0%}, "
        f"entropy {measures.worker_entropy:.2f}{moved}{unknown}{second_told(measures.second)}{held}"
    )


@quiet()
def run_grpo(
    recipe: Recipe, folder: Path, *, report: Reporter | None = None, report_to: str = "none"
) -> Stop | None:
    """Train by GRPO. An interrupted run continues from its last checkpoint, to the same weights.

    The last weights are in `final`, and the best checkpoint is in `best`, in the folder of the run.
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
    """Return TRL's settings for a recipe."""
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
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": grpo.vllm.memory,
        "vllm_tensor_parallel_size": grpo.vllm.tensor_parallel,
        "vllm_enable_sleep_mode": grpo.vllm.sleep,
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
