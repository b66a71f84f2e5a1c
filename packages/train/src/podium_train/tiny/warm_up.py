"""Supervised training on the texts of the warm start."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from podium_train.tiny.batches import Scores, scores_of
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.prompt import END, prompt_text
from podium_train.tiny.sampler import Prompts, padded
from podium_train.tiny.tokens import encode
from podium_train.tiny.variation import UNVARIED, Variation
from podium_train.tiny.world import SPECIALISTS, World


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """Settings of the warm start."""

    steps: int = 600
    """Number of steps. Which row a question needs is learned after 150, reading the rows after 450."""
    prompts: int = 32
    """Prompts of a step."""
    texts: int = 4
    """Texts for each prompt."""
    questions: float = 0.2
    """Weight of the loss on the prompts; 0 does not compute it."""
    variation: Variation = UNVARIED
    """How prompts vary."""
    lr: float = 2e-3
    """Highest learning rate; it rises for 30 steps and falls to a tenth along half a cosine."""


def warm_up(
    conductor: TinyConductor,
    settings: WarmUp,
    *,
    seed: int,
    world: World = SPECIALISTS,
    log: Callable[[dict[str, float]], None] = lambda _: None,
) -> None:
    """Train the conductor on the texts of a world: right ones of random plans for the training split."""
    optimizer = torch.optim.AdamW(
        conductor.model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.01
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        settings.lr,
        total_steps=settings.steps,
        pct_start=min(0.3, 30 / settings.steps),
        final_div_factor=0.4,
    )
    random = Random(f"warm start {seed}")
    for step in range(settings.steps):
        drawn = world.environment.episodes("train", settings.prompts, seed=random.getrandbits(40))
        episodes = [settings.variation.placed(episode, random) for episode in drawn]
        read = [settings.variation.thinned(episode, random) for episode in episodes]
        rows = encode(conductor.tokenizer, [prompt_text(conductor.message(episode)) for episode in read])
        stretch = settings.variation.factors(episodes, random)
        texts = [text + END for text in world.texts(episodes, random, settings.texts)]
        tokens = padded(encode(conductor.tokenizer, texts)).view(settings.prompts, settings.texts, -1)
        plans = scores_of(conductor.model, Prompts.of(rows, stretch), tokens)
        loss = of_plans = _loss(plans)
        of_questions = 0.0
        if settings.questions:
            # Reading the questions as text of its own makes their words known before any reward depends on
            # them.
            starts = Prompts.of([[row[0], row[0]] for row in rows], stretch)
            questions = _loss(scores_of(conductor.model, starts, padded([row[1:] for row in rows])[:, None]))
            loss = of_plans + settings.questions * questions
            of_questions = questions.item()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        torch.nn.utils.clip_grad_norm_(conductor.model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        log(
            {
                "step": step,
                "loss": of_plans.item(),
                "prompt loss": of_questions,
                "cpu_s": time.process_time(),
            }
        )


def _loss(scores: Scores) -> Tensor:
    return -scores.logps.sum() / scores.mask.sum()
