"""Trains with TRL's `AsyncGRPOTrainer`: vLLM samples on the same GPU while the weights are updated.

The trainer and vLLM share one GPU. NCCL cannot connect two processes on one GPU, so a LoRA adapter is
trained, which vLLM reads from a folder.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datasets import Dataset
from gpu_use import GpuUse
from peft import LoraConfig
from speed import speed_line
from transformers import AutoTokenizer, TrainerCallback

from podium_train.recipes import Recipe, environment_of, messages_of
from podium_train.rewards import episode_json
from podium_train.trl import PlanReward, async_grpo_classes, dtype_of, merge_lora

PORT = 8123
RANK = 32
LONGEST = 4096
"""Maximum tokens of a prompt and its text."""
STALENESS = 4
"""Maximum updates between the weights that wrote a text and the weights that learn from it."""


def train_asynchronously(recipe: Recipe, folder: Path, out: Path) -> None:
    """Train from the result of supervised training, with the episodes of the synchronous run.

    Args:
        recipe: the settings.
        folder: the folder of the recipe.
        out: gets `final` with the model, `gpu.jsonl`, and `speed.txt` with a line for the report.
    """
    grpo = recipe.grpo
    assert grpo is not None
    base = (folder / recipe.folder / "sft" / "final").resolve()
    trainer_of, config_of = async_grpo_classes()
    environment = environment_of(recipe.environment, folder)
    rows = [
        {
            "prompt": [
                {"role": each.role, "content": each.text} for each in messages_of(recipe.prompt, episode)
            ],
            "episode": episode_json(episode),
        }
        for episode in environment.episodes("train", grpo.groups * grpo.steps, seed=grpo.seed)
    ]
    with _vllm(base, out):
        trainer = trainer_of(
            model=str(base),
            reward_funcs=PlanReward(recipe, folder),
            args=config_of(
                output_dir=str(out),
                learning_rate=grpo.learning_rate,
                max_steps=grpo.steps,
                num_generations=grpo.group_size,
                per_device_train_batch_size=grpo.micro_batch,
                gradient_accumulation_steps=grpo.groups * grpo.group_size // grpo.micro_batch,
                max_completion_length=grpo.max_tokens,
                temperature=grpo.temperature,
                vllm_server_base_url=f"http://127.0.0.1:{PORT}",
                dtype=dtype_of(recipe.model.dtype),
                save_strategy="no",
                logging_steps=1,
                report_to="none",
                max_staleness=STALENESS,
                seed=grpo.seed,
            ),
            train_dataset=Dataset.from_list(rows),
            peft_config=LoraConfig(
                r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"
            ),
        )
        clock = _Clock()
        trainer.add_callback(clock)
        with GpuUse(out / "gpu.jsonl"):
            trainer.train()
        trainer.save_model(str(out / "adapter"))
    AutoTokenizer.from_pretrained(base).save_pretrained(out / "final")
    merge_lora(out / "adapter", out / "final", dtype=recipe.model.dtype)
    told = speed_line(
        "asynchronous", clock.seconds, grpo.groups * grpo.group_size, GpuUse.told(out / "gpu.jsonl")
    )
    (out / "speed.txt").write_text(told + "\n", encoding="utf-8")


class _Clock(TrainerCallback):
    """Measures the wall time of each update, from the end of the update before it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = time.monotonic()

    def on_step_end(self, *_: object, **_values: object) -> None:
        """Note an update."""
        now = time.monotonic()
        self.seconds.append(now - self._last)
        self._last = now


@contextmanager
def _vllm(base: Path, out: Path) -> Iterator[None]:
    """Serve a model with vLLM; the trainer waits until it is ready. Its output is in `vllm.log`."""
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(base), "--host", "127.0.0.1", "--port", str(PORT)]
    command += ["--max-model-len", str(LONGEST), "--gpu-memory-utilization", "0.4"]
    command += ["--enable-lora", "--max-lora-rank", str(RANK)]
    command += ["--max-loras", str(STALENESS + 2), "--dtype", "bfloat16"]
    settings = {**os.environ, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_SERVER_DEV_MODE": "1"}
    with (
        (out / "vllm.log").open("w") as log,
        subprocess.Popen(  # noqa: S603 - our own words
            command, stdout=log, stderr=subprocess.STDOUT, env=settings
        ) as server,
    ):
        try:
            yield
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
