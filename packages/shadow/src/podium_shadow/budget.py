"""What a shadow may spend on its candidate, and what it has spent."""

from dataclasses import dataclass
from math import inf

from podium.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a shadow may spend on its candidate, in one process.

    Candidates in flight are taken to cost as much as the dearest so far; so the first ones,
    as many as run at the same time, may go beyond `cost`. A conductor's own
    `Limits.cost` bounds each of them.
    """

    runs: int | None = None
    """Candidates that are started; `None` sets no limit, as below."""
    cost: float | None = None
    """USD for all of them."""
    unpriced: float | None = None
    """USD a candidate of unknown cost counts as under `cost`; with `None` the first such uses it all up."""
    seconds: float | None = None
    """After how long there is as much again: 3600 for an hour; `None` means that it is all there is."""

    def __post_init__(self) -> None:
        whole = isinstance(self.runs, int) and not isinstance(self.runs, bool)
        if self.runs is not None and not (whole and self.runs > 0):
            raise ConfigError(f"Budget.runs is {self.runs!r}: it must be a whole number, 1 or more")
        for name, least in (("cost", "above 0"), ("unpriced", "0 or more"), ("seconds", "above 0")):
            value = getattr(self, name)
            if value is not None and not (0 < value < inf or (value == 0 and name == "unpriced")):
                raise ConfigError(f"Budget.{name} is {value!r}: it must be a number, {least}")


class Purse:
    """What is left of a budget. Not for many threads at once: its owner has a lock.

    Args:
        budget: what there is.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._end: float | None = None
        self._runs = 0
        self._cost = 0.0
        self._in_flight = 0
        self._dearest = 0.0

    def take(self, now: float) -> bool:
        """Say whether one more candidate may be started, and count it if so.

        Args:
            now: on a clock that does not go back, in seconds.
        """
        budget = self._budget
        if budget.seconds is not None and (self._end is None or now >= self._end):
            self._end, self._runs, self._cost = now + budget.seconds, 0, 0.0
        if budget.runs is not None and self._runs >= budget.runs:
            return False
        if budget.cost is not None:
            expected = self._cost + (self._in_flight + 1) * self._dearest
            if self._cost >= budget.cost or expected > budget.cost:
                return False
        self._runs += 1
        self._in_flight += 1
        return True

    def give_back(self) -> None:
        """Take back a `take` after which nothing was started."""
        self._runs -= 1
        self._in_flight -= 1

    def settle(self, cost: float | None) -> None:
        """Count what a candidate cost, in USD; `None` means that it is not known."""
        self._in_flight -= 1
        known = cost if cost is not None else self._budget.unpriced
        self._cost += inf if known is None else known
        if known is not None:
            self._dearest = max(self._dearest, known)
