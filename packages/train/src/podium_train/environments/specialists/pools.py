"""Draws the workers of an episode, by split."""

import hashlib
from random import Random

from podium_train.environments.environment import Split
from podium_train.environments.specialists.workers import (
    GENERAL,
    Skills,
    is_unseen,
    universe,
    worker_name,
)

COVERED = 5
"""The specialists of a pool have at least this many of the six skills together."""
SHARE_WITH_GENERALIST = 0.75
TENTHS_OF_MIXES = {"mixes": range(2), "validation": range(2, 4), "train": range(4, 10)}
"""Which tenths of all combinations of workers belong to a split, by a hash of the combination."""


def draw_pool(split: Split, size: int, random: Random) -> tuple[Skills, ...]:
    """Draw `size` workers in random order.

    Pools of the split `workers` have at least two workers with an unseen pair of skills. The pools of
    `mixes`, `validation` and all others are combinations that the other two do not have.
    """
    known = tuple(skills for skills in universe() if not is_unseen(skills))
    everyone = universe() if split == "workers" else known
    while True:
        general = (GENERAL,) if random.random() < SHARE_WITH_GENERALIST else ()
        specialists = random.choices(everyone, k=size - len(general))
        if len(set().union(*specialists)) < COVERED:
            continue
        pool = [*specialists, *general]
        random.shuffle(pool)
        if _belongs(pool, split):
            return tuple(pool)


def tenth_of(pool: list[Skills]) -> int:
    """Return the tenth of all combinations that a pool belongs to; the order of the workers has no effect."""
    mix = " ".join(sorted(map(worker_name, pool)))
    return hashlib.sha256(mix.encode()).digest()[0] * 10 // 256


def _belongs(pool: list[Skills], split: Split) -> bool:
    if split == "workers":
        return sum(map(is_unseen, pool)) >= 2
    return tenth_of(pool) in TENTHS_OF_MIXES["train" if split == "questions" else split]
