"""Measures a tiny conductor beside the world's baselines, on the same episodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import log
from statistics import fmean
from typing import Literal

import torch

from podium.types import Plan
from podium_train.environments import Episode
from podium_train.environments.environment import Split
from podium_train.environments.specialists import BASELINES, Specialists, outcome_of
from podium_train.tiny.conductor import TinyConductor
from podium_train.tiny.rollouts import roll_out


@dataclass(frozen=True, slots=True)
class Held:
    """A set of episodes on which conductors are measured."""

    name: str
    split: Split
    size: int = 5
    """Number of workers of each pool."""
    wording: Literal["training", "validation", "held_out"] | None = None
    episodes: int = 1000
    seed: int = 41

    def draw(self) -> Sequence[Episode]:
        """Return the episodes."""
        world = Specialists(sizes=(self.size,), wording=self.wording)
        return world.episodes(self.split, self.episodes, seed=self.seed)


HELD_OUT = (
    Held("mixes", "mixes", episodes=2000),
    Held("three workers", "mixes", size=3),
    Held("six workers", "mixes", size=6),
    Held("unseen pairs of skills", "workers"),
    Held("unseen wordings", "questions"),
)
"""Measured once, after all settings were chosen."""
VALIDATION = Held("validation", "validation", episodes=400, seed=11)
"""For choosing settings and checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a conductor reached on a set of episodes. Grades are those of the episodes in their order."""

    sampled: list[float]
    """Grades at temperature 1."""
    greedy: list[float]
    valid: float
    """Share of sampled texts with a valid plan."""
    baselines: Mapping[str, list[float]]
    """Grades of the baselines."""
    kinds: list[str]
    """The kind of each episode."""
    entropy: float
    """Entropy of the workers of the sampled plans, in nats."""
    oracle_entropy: float
    """Entropy of the workers of the oracle's plans, in nats."""

    def by_kind(self, grades: Sequence[float]) -> dict[str, float]:
        """Return the mean grade of each kind."""
        kinds = dict.fromkeys(self.kinds)
        return {
            kind: fmean(grade for grade, of in zip(grades, self.kinds, strict=True) if of == kind)
            for kind in kinds
        }


def measure(conductor: TinyConductor, held: Held, *, seed: int = 0) -> Measured:
    """Measure a conductor on a set of episodes.

    Args:
        conductor: writes one text for each episode at temperature 1, and one at temperature 0.
        held: the episodes.
        seed: seed of the sampled texts.
    """
    episodes, references = _known(held)
    world = Specialists()
    generator = torch.Generator().manual_seed(seed)
    sampled = roll_out(conductor, world, episodes, generator=generator)
    greedy = roll_out(conductor, world, episodes, temperature=0, generator=generator)
    plans = [reward.plan for reward in sampled.rewards]
    return Measured(
        sampled=sampled.grades,
        greedy=greedy.grades,
        valid=fmean(plan is not None for plan in plans),
        baselines={
            name: [outcome_of(*pair).score for pair in zip(episodes, made, strict=True)]
            for name, made in references.items()
        },
        kinds=[episode.kind for episode in episodes],
        entropy=_entropy(episodes, plans),
        oracle_entropy=_entropy(episodes, references["oracle"]),
    )


@cache
def _known(held: Held) -> tuple[Sequence[Episode], Mapping[str, Sequence[Plan]]]:
    """Return the episodes, and the plans of the baselines for them."""
    episodes = held.draw()
    return episodes, {
        name: [plan_for(episode) for episode in episodes] for name, plan_for in BASELINES.items()
    }


def _entropy(episodes: Sequence[Episode], plans: Sequence[Plan | None]) -> float:
    """Return the entropy of how often workers are used, in nats."""
    counts = Counter(
        episode.workers[step.worker]
        for episode, plan in zip(episodes, plans, strict=True)
        for step in (plan.calls if plan else ())
    )
    total = counts.total()
    return -sum(count / total * log(count / total) for count in counts.values())
