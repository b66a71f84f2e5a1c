"""The cost of plans as a tie-break among right answers of one group.

A cost term for all texts teaches a conductor to write cheap plans that fail. So only texts with a right
answer are compared by cost, with a weight that grows during training, and a right answer never falls to the
reward of a wrong one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from podium.errors import ConfigError
from podium_train.rewards.scorer import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class CostWeight:
    """The weight of the cost at each step of training.

    Raises:
        ConfigError: the weight is not from 0 to below 0.5, or the steps are not in order.
    """

    weight: float = 0.0
    """The reward that the most expensive right plan of a group loses at the end, from 0 to below 0.5."""
    start: int = 0
    """The step up to which the weight is 0."""
    end: int = 0
    """The step from which the weight is `weight`; between, it grows evenly."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight < 0.5:
            raise ConfigError(f"the weight of the cost is {self.weight!r}: it must be from 0 to below 0.5")
        if not 0 <= self.start <= self.end:
            told = "the first must be 0 or more, and not above the second"
            raise ConfigError(f"the cost counts from step {self.start} to step {self.end}: {told}")

    def at(self, step: int) -> float:
        """Return the weight at a step."""
        if step >= self.end:
            return self.weight
        return self.weight * max(step - self.start, 0) / (self.end - self.start)


def with_costs(group: Sequence[Score], weight: float) -> list[float | None]:
    """Return the rewards of one group, less the weighted cost of each right plan.

    Args:
        group: the scores of the texts for one episode.
        weight: what the most expensive right plan loses; the cheapest loses nothing.
    """
    costs = [score.cost for score in group if score.value == 1.0 and score.cost is not None]
    least, spread = min(costs, default=0.0), max(costs, default=0.0) - min(costs, default=0.0)
    return [
        score.value - weight * (score.cost - least) / spread
        if spread > 0 and score.value == 1.0 and score.cost is not None
        else score.value
        for score in group
    ]
