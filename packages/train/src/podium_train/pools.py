"""Draws the workers of an episode, and writes what the conductor reads of them.

A conductor that is trained on one fixed pool learns the numbers of its workers by heart. So each episode has
its own workers, in an order of its own, and cards that tell what was measured and not who it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from random import Random

import numpy as np

from podium.errors import ConfigError
from podium.workers import Card, Kind, MeasuredRate, Price
from podium_evals.calibration import estimates, intervals

_JITTER = 0.3
_LETTERS = "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDraw:
    """How many workers an episode has.

    Raises:
        ConfigError: there is no size, or a size is below 1.
    """

    sizes: tuple[int, ...]
    """Possible numbers of workers; each is as probable as the others."""

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ConfigError(f"sizes is {self.sizes!r}: name at least one size, 1 or more")

    def draw(self, workers: Sequence[str], random: Random) -> tuple[str, ...]:
        """Return some of the workers, in random order.

        Raises:
            ConfigError: there are fewer workers than the drawn size.
        """
        size = random.choice(self.sizes)
        if size > len(workers):
            raise ConfigError(f"a pool of {size} cannot be drawn from {len(workers)} workers")
        return tuple(random.sample(list(workers), size))


def disguised(cards: Sequence[Card], random: Random) -> tuple[Card, ...]:
    """Return cards that do not tell which models they are.

    Each card gets a pseudonym and no description, and its price is changed by up to 30 % and rounded. What
    was measured stays.
    """
    names: list[str] = []
    while len(names) < len(cards):
        name = "model-" + "".join(random.choices(_LETTERS, k=3))
        if name not in names:
            names.append(name)
    return tuple(
        replace(card, name=name, description="A language model.", price=_jittered(card.price, random))
        for card, name in zip(cards, names, strict=True)
    )


def _jittered(price: Price | None, random: Random) -> Price | None:
    if price is None:
        return None
    factor = random.uniform(1 - _JITTER, 1 + _JITTER)
    return Price(input=_rounded(price.input * factor), output=_rounded(price.output * factor))


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def measured_rates(
    kind: Kind, *, prior: Sequence[float], right: Sequence[float], answers: int, day: date
) -> tuple[MeasuredRate, ...]:
    """Return the measured rate of each worker on a kind, by the estimate of `podium evals tune`.

    Args:
        kind: the kind.
        prior: what was expected of each worker before it answered, 0 to 1.
        right: the sum of the scores of each worker's answers.
        answers: the number of answers of each worker.
        day: the day of the measurement.
    """
    before, found = np.asarray(prior, dtype=np.float64), np.asarray(right, dtype=np.float64)
    count = np.full(len(found), float(answers))
    low, high = intervals(before, found, count)
    columns = zip(estimates(before, found, count), low, high, found, strict=True)
    return tuple(
        MeasuredRate(
            kind=kind,
            rate=float(rate),
            low=float(least),
            high=float(most),
            right=float(scored),
            answers=answers,
            measured_on=day,
        )
        for rate, least, most, scored in columns
    )
