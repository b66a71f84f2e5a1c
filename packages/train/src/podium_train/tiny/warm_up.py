"""Supervised training on the texts of the warm start."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from podium_train.environments import Episode
from podium_train.environments.specialists import Specialists
from podium_train.tiny.batches import Scores, scores_of
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.prompt import END, prompt_text, tiny_message
from podium_train.tiny.sampler import Prompts, padded
from podium_train.tiny.tokens import encode
from podium_train.tiny.warm_start import right_texts


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
    """Weight of the loss on the prompts."""
    left_out: float = 0.15
    """Share of the words that are left out of the questions that the model reads, so that no wording is
    learned by heart."""
    stretch: float = 1.5
    """All positions of a prompt are multiplied by a random factor from 1 / `stretch` to `stretch`, so that no
    distance is learned by heart and pools of other sizes can be read. After randomised positions (arXiv
    2305.16843), which are random for each token."""
    lr: float = 2e-3
    """Highest learning rate; it rises for 30 steps and falls to a tenth along half a cosine."""


def warm_up(
    conductor: TinyConductor,
    settings: WarmUp,
    *,
    seed: int,
    log: Callable[[dict[str, float]], None] = lambda _: None,
) -> None:
    """Train the conductor on right ones of random plans for episodes of the training split."""
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
    world = Specialists()
    for step in range(settings.steps):
        episodes = world.episodes("train", settings.prompts, seed=random.getrandbits(40))
        prompts = [prompt_text(tiny_message(_thinned(each, settings.left_out, random))) for each in episodes]
        rows = encode(conductor.tokenizer, prompts)
        stretch = torch.tensor([settings.stretch ** random.uniform(-1, 1) for _ in episodes])
        texts = [text for episode in episodes for text in right_texts(episode, random, settings.texts)]
        tokens = padded(encode(conductor.tokenizer, [text + END for text in texts])).view(
            settings.prompts, settings.texts, -1
        )
        plans = scores_of(conductor.model, Prompts.of(rows, stretch), tokens)
        # Reading the questions as text of its own makes their words known before any reward depends on them.
        starts = Prompts.of([[row[0], row[0]] for row in rows], stretch)
        questions = scores_of(conductor.model, starts, padded([row[1:] for row in rows])[:, None])
        loss = _loss(plans) + settings.questions * _loss(questions)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        torch.nn.utils.clip_grad_norm_(conductor.model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        log(
            {
                "step": step,
                "loss": _loss(plans).item(),
                "prompt loss": _loss(questions).item(),
                "cpu_s": time.process_time(),
            }
        )


def _thinned(episode: Episode, share: float, random: Random) -> Episode:
    """Return the episode with a question that lacks some of its words."""
    words = [word for word in episode.question.split() if random.random() >= share]
    return replace(episode, question=" ".join(words))


def _loss(scores: Scores) -> Tensor:
    return -scores.logps.sum() / scores.mask.sum()
