"""`python -m podium_train.tiny.against_trl`: compares the loop of this package with TRL's trainer.

Both continue from the same conductor with the same settings: no entropy bonus, the same optimizer, the same
learning rates, and groups of the same size. Episodes and texts differ, as between two seeds of the same
trainer. TRL's `GRPOTrainer` is used unmodified.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from podium_train.environments.specialists import Specialists
from podium_train.reward import reward_of
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.evaluation import VALIDATION, measure
from podium_train.tiny.grpo import Grpo, learning_rate, new_optimizer, train
from podium_train.tiny.prompt import tiny_message
from podium_train.tiny.sampler import MAX_TOKENS


def with_loop(start: Path, settings: Grpo, *, seed: int) -> TinyConductor:
    """Return the conductor after training with the loop of this package."""
    conductor = TinyConductor.load(start)
    train(conductor, Specialists(), settings, seed=seed)
    return conductor


def with_trl(start: Path, settings: Grpo, *, seed: int) -> TinyConductor:
    """Return the conductor after training with TRL's trainer."""
    world, random = Specialists(), Random(f"trl {seed}")
    episodes = world.episodes("train", settings.updates * settings.prompts, seed=random.getrandbits(40))

    async def rewards(completions: list[Any], number: list[int], **_: Any) -> list[float | None]:
        return [
            (await reward_of(text[0]["content"], episodes[at], world)).value
            for text, at in zip(completions, number, strict=True)
        ]

    rows = [
        {"prompt": [{"role": "user", "content": tiny_message(episode)}], "number": number}
        for number, episode in enumerate(episodes)
    ]
    model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    optimizer = new_optimizer(model.parameters(), settings)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: learning_rate(settings, at) / settings.lr
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            processing_class=AutoTokenizer.from_pretrained(start),
            reward_funcs=rewards,  # type: ignore[arg-type]  # TRL awaits it; its annotation lacks this
            train_dataset=Dataset.from_list(rows),
            args=GRPOConfig(
                output_dir=folder,
                max_steps=settings.updates,
                per_device_train_batch_size=settings.prompts * settings.texts,
                num_generations=settings.texts,
                max_completion_length=MAX_TOKENS,
                beta=0.0,
                loss_type="grpo",
                max_grad_norm=1.0,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                use_cpu=True,
                bf16=False,
                save_strategy="no",
                report_to=[],
                seed=seed,
                disable_tqdm=True,
            ),
            optimizers=(optimizer, schedule),
        )
        trainer.train()
        trainer.save_model(folder)
        return TinyConductor.load(Path(folder))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m podium_train.tiny.against_trl",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("start", type=Path, help="folder of the conductor, such as tiny/seed-1/start")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    settings = replace(Grpo(), updates=chosen.updates, entropy=0.0)
    for name, trained in (("loop", with_loop), ("trl", with_trl)):
        clock = time.process_time()
        ends = (trained(chosen.start, settings, seed=seed) for seed in chosen.seeds)
        grades = [fmean(measure(end, VALIDATION).sampled) for end in ends]
        print(json.dumps(_row(name, grades, time.process_time() - clock)), flush=True)  # noqa: T201 - the output


def _row(name: str, grades: Sequence[float], seconds: float) -> dict[str, Any]:
    return {
        "trainer": name,
        "sampled": [round(grade, 4) for grade in grades],
        "mean": round(fmean(grades), 4),
        "deviation": round(stdev(grades), 4) if len(grades) > 1 else None,
        "cpu_s": round(seconds),
    }


if __name__ == "__main__":
    main()
