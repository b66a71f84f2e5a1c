"""Supervised training on plans with TRL's `SFTTrainer`."""

from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import Dataset
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

from podium.errors import ConfigError
from podium_train.prompts import whole_text
from podium_train.recipe import Recipe, base_of
from podium_train.run_files import MEMORY, Reporter, last_checkpoint
from podium_train.runs import begin, mark_model, passes_of, record_of
from podium_train.trl.grpo import MovedWeights
from podium_train.trl.models import (
    common_arguments,
    lora_of,
    quiet,
    settings_of,
    tell_processor,
    tokenizer_of,
    without_extras,
)
from podium_train.warm_start import read_examples


class _Progress(TrainerCallback):
    """Tells each update, and marks whole checkpoints."""

    def __init__(self, folder: Path, report: Reporter) -> None:
        self._folder, self._report = folder, report
        self._moved: MovedWeights | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:  # noqa: ARG002 - of transformers
        self._moved = MovedWeights(model)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002 - of transformers
        if state.is_world_process_zero and logs and "loss" in logs:
            moved = "" if self._moved is None else f", {self._moved.share():.0%} of the weights moved"
            told = f"loss {float(logs['loss']):.4f}{moved}"
            self._report.step(state.global_step, state.max_steps, told)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - of transformers
        if state.is_world_process_zero:
            checkpoint = self._folder / f"checkpoint-{state.global_step}"
            mark_model(checkpoint, self._folder)
            (checkpoint / MEMORY).write_text("{}")


@quiet()
def run_sft(recipe: Recipe, folder: Path, *, report: Reporter | None = None, report_to: str = "none") -> Path:
    """Train on plans. An interrupted run continues from its last checkpoint, to the same weights."""
    sft, report = recipe.sft, report or Reporter()
    assert sft is not None
    run = folder / recipe.folder / "sft"
    read = read_examples(folder / sft.examples)
    arguments = _sft_config(recipe, run, report_to)  # first, because it joins the processes of the training
    base = base_of(recipe.model, folder)
    tokenizer = tokenizer_of(base, recipe.prompt.style.prefill)
    tell_processor(report)
    prefill = recipe.prompt.style.prefill
    tokens = [
        tokens_of(
            [{"role": each.role, "content": each.text} for each in example.messages],
            example.completion,
            tokenizer=tokenizer,
            prefill=prefill,
        )
        for example in read
    ]
    examples = _short_enough(tokens, sft.max_tokens, report)
    is_first = PartialState().is_main_process
    if is_first:
        for line in begin(run, record_of("sft", recipe, folder)):
            report.line(line)
    checkpoint = last_checkpoint(run)
    trainer = SFTTrainer(
        model=base,
        args=arguments,
        train_dataset=Dataset.from_list(examples),
        processing_class=tokenizer,
        peft_config=lora_of(recipe.model),
        callbacks=[_Progress(run, report)],
    )
    without_extras(trainer)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    final = run / "final"
    model = trainer.accelerator.unwrap_model(trainer.model)
    if recipe.model.lora is not None:
        model = model.merge_and_unload()
    model.save_pretrained(final, is_main_process=is_first)
    if is_first:
        tokenizer.save_pretrained(final)
        mark_model(final, run)
    return final


def _sft_config(recipe: Recipe, run: Path, report_to: str) -> SFTConfig:
    """Return TRL's settings for a recipe."""
    sft = recipe.sft
    assert sft is not None
    return SFTConfig(
        output_dir=str(run),
        learning_rate=sft.learning_rate,
        lr_scheduler_type="cosine",
        num_train_epochs=sft.epochs,
        per_device_train_batch_size=sft.micro_batch,
        gradient_accumulation_steps=passes_of(sft.batch, sft.micro_batch, what="'batch' in [sft]"),
        max_length=sft.max_tokens,
        completion_only_loss=True,
        save_steps=sft.save_every,
        seed=sft.seed,
        report_to=report_to,
        model_init_kwargs=settings_of(recipe.model),
        **common_arguments(recipe.model),
    )


def tokens_of(
    messages: list[dict[str, str]], completion: str, *, tokenizer: Any, prefill: str
) -> dict[str, list[int]]:
    """Return the tokens of an example, and which of them are learnt: those after the prefill.

    The prompt has the tokens that it has when it is served, whatever the chat template does with earlier
    answers, and whatever tokens could span the end of the prompt.
    """
    text = whole_text(completion, prefill)
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    answer = {"role": "assistant", "content": text}
    _, found, end = tokenizer.apply_chat_template([*messages, answer], tokenize=False).rpartition(
        text.strip()
    )
    if not found:
        raise ConfigError(f"the chat template changes the example {text!r:.60}: take another base")
    asked, learnt = (
        tokenizer(part, add_special_tokens=False)["input_ids"]
        for part in (prompt, text.removeprefix(prefill).rstrip() + end)
    )
    return {"input_ids": asked + learnt, "completion_mask": [0] * len(asked) + [1] * len(learnt)}


def _short_enough(
    examples: list[dict[str, list[int]]], most: int, report: Reporter
) -> list[dict[str, list[int]]]:
    """Return the examples that fit, because TRL leaves out or cuts the others without a word."""
    short = [example for example in examples if len(example["input_ids"]) <= most]
    if not short:
        raise ConfigError(
            f"all {len(examples)} examples are longer than {most} tokens: raise max_tokens in [sft]"
        )
    if len(short) < len(examples):
        report.line(
            f"{len(examples) - len(short)} of {len(examples)} examples have more than {most} tokens: left out"
        )
    return short
