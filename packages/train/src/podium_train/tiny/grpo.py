"""GRPO (arXiv 2402.03300) in one loop, for the tiny model.

Departures from the paper: no KL term (as in the RL Conductor, β 0); one update for each batch, so that the
ratio is 1 and clipping never acts; an entropy bonus that falls to zero; texts without a known reward are left
out of their group's mean, and get no advantage.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from podium_train.environments import Environment
from podium_train.tiny.batches import Scores, scores_of
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.rollouts import Rollouts, roll_out
from podium_train.tiny.variation import UNVARIED, Variation


@dataclass(frozen=True, slots=True, kw_only=True)
class Grpo:
    """Settings of GRPO."""

    updates: int = 400
    prompts: int = 16
    """Episodes of an update."""
    texts: int = 16
    """Texts for each episode, the group."""
    lr: float = 4e-4
    """Highest learning rate; it rises for 10 updates and then falls linearly to a tenth."""
    variation: Variation = UNVARIED
    """How prompts vary."""
    entropy: float = 0.002
    """Weight of the entropy bonus at the start; it falls linearly to 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one update did."""

    number: int
    rollouts: Rollouts
    loss: float
    entropy: float
    """Mean entropy of a token, in nats."""
    flat_groups: float
    """Share of the groups whose rewards are all equal, which teach nothing."""


def train(
    conductor: TinyConductor,
    environment: Environment,
    settings: Grpo,
    *,
    seed: int,
    after: Callable[[Update], bool] = lambda _: False,
) -> None:
    """Train the model on the training split of an environment.

    Args:
        conductor: the conductor after its warm start; its weights are changed.
        environment: draws the episodes and carries out the plans.
        settings: size and number of the updates.
        seed: seed of episodes and texts.
        after: called after each update; training stops when it returns true.
    """
    optimizer = torch.optim.AdamW(
        conductor.model.parameters(), lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0
    )
    random = Random(f"grpo {seed}")
    generator = torch.Generator().manual_seed(seed)
    for number in range(settings.updates):
        left = 1 - number / settings.updates
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * min((number + 1) / 10, 0.1 + 0.9 * left)
        drawn = environment.episodes("train", settings.prompts, seed=random.getrandbits(40))
        episodes = [settings.variation.placed(episode, random) for episode in drawn]
        rollouts = roll_out(
            conductor,
            environment,
            episodes,
            texts=settings.texts,
            generator=generator,
            variation=(settings.variation, random),
        )
        scores = scores_of(conductor.model, rollouts.prompts, rollouts.tokens)
        bonus = settings.entropy * left
        loss = loss_of(scores, advantages(rollouts.values), bonus)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        torch.nn.utils.clip_grad_norm_(conductor.model.parameters(), 1.0)
        optimizer.step()
        update = Update(
            number=number,
            rollouts=rollouts,
            loss=loss.item(),
            entropy=(scores.entropy.sum() / scores.mask.sum()).item(),
            flat_groups=float((advantages(rollouts.values) == 0).all(-1).float().mean()),
        )
        if after(update):
            return


def advantages(rewards: Tensor) -> Tensor:
    """Return (reward - mean) / deviation within each group; 0 where the reward, (P, G), is NaN."""
    known = ~rewards.isnan()
    count = known.sum(-1, keepdim=True).clamp(min=1)
    mean = rewards.nan_to_num().sum(-1, keepdim=True) / count
    apart = torch.where(known, rewards - mean, 0.0)
    deviation = (apart.square().sum(-1, keepdim=True) / count).sqrt()
    return apart / (deviation + 1e-4)


def loss_of(scores: Scores, advantage: Tensor, entropy: float) -> Tensor:
    """Return the loss: the mean over texts of the mean over their tokens, less the entropy bonus."""
    ratio = (scores.logps - scores.logps.detach()).exp()  # 1, with the gradient of the log-probability
    gained = ratio * advantage[..., None] + entropy * scores.entropy
    lengths = scores.mask.sum(-1)
    return -((gained * scores.mask).sum(-1) / lengths).mean()
