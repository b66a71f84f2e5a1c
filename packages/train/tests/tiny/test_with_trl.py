"""TRL's own trainer, unmodified, on the tiny model; it needs trl and is run by `make test-trainers`."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny_conductor.model import TinyConductor
from tiny_conductor.world import Workshop
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from podium_train import reward_of

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.timeout(300)]  # theirs
WORLD = Workshop()
EPISODES = WORLD.episodes("train", 32, seed=1)


async def rewards(
    prompts: list[Any], completions: list[Any], number: list[int], **_: Any
) -> list[float | None]:
    """Return the rewards of plans; those of the first episode are unknown."""
    SEEN.extend(number)
    return [
        None if at == 0 else (await reward_of(text[0]["content"], EPISODES[at], WORLD)).value
        for text, at in zip(completions, number, strict=True)
    ]


SEEN: list[int] = []


def test_two_updates(small: TinyConductor, tmp_path: Path) -> None:
    """The reward is awaited and may be unknown, losses are finite, and the checkpoint loads again."""
    start = tmp_path / "start"
    small.save(start)
    rows = [
        {"prompt": [{"role": "user", "content": WORLD.message(episode)}], "number": number}
        for number, episode in enumerate(EPISODES)
    ]
    config = GRPOConfig(
        output_dir=str(tmp_path / "out"),
        max_steps=2,
        per_device_train_batch_size=32,
        num_generations=8,
        max_completion_length=56,
        learning_rate=1e-2,
        beta=0.0,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        use_cpu=True,
        bf16=False,
        save_steps=2,
        logging_steps=1,
        report_to=[],
        seed=0,
        shuffle_dataset=False,
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(start),
        reward_funcs=rewards,
        train_dataset=Dataset.from_list(rows),
        args=config,
    )
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(losses) == 2
    assert all(map(math.isfinite, losses))
    assert 0 in SEEN
    assert len(SEEN) == 64
    again = TinyConductor.load(tmp_path / "out" / "checkpoint-2")
    trained = trainer.model.state_dict()
    for name, weight in again.model.state_dict().items():
        assert torch.equal(weight, trained[name].cpu())
        assert torch.isfinite(weight).all()
    assert not torch.equal(again.model.model.norm.weight, small.model.model.norm.weight)
