"""Forecasts the cost and the duration of the missing answers of a recording."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from podium.workers import Worker
from podium_evals.recorded import Sample
from podium_evals.statistics import Expected, total


@dataclass(slots=True)
class Measured:
    """The usage of the answers so far of one worker."""

    costs: list[float] = field(default_factory=list)
    """In USD."""
    seconds: list[float] = field(default_factory=list)

    def add(self, sample: Sample, worker: Worker) -> None:
        """Add an answer, at the price of today; unknown amounts are left out."""
        price = worker.card.price
        if not worker.uses_tokens:
            self.costs.append(0.0)
        elif sample.usage is not None and price is not None:
            self.costs.append(price.cost(sample.usage))
        if sample.latency_s is not None:
            self.seconds.append(sample.latency_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A forecast for the missing answers."""

    answers: int
    """Number of missing answers."""
    most_cost: float | None
    """The cost in USD if each answer is as long as allowed and no call is repeated; `None` if a price is
    unknown."""
    measured: int
    """Least number of answers of a worker from which the expected amounts are computed."""
    cost: Expected | None
    """The expected cost in USD; `None` if a worker has no measured cost."""
    seconds: Expected | None
    """The expected duration; `None` if a worker has no measured time."""


def forecast(
    missing: Mapping[str, int],
    measured: Mapping[str, Measured],
    *,
    most_cost: float | None,
    at_once: int,
    concurrency: Mapping[str, int],
) -> Forecast:
    """Return a forecast.

    Args:
        missing: number of missing answers of each worker.
        measured: the answers so far.
        most_cost: the cost in the worst case.
        at_once: calls at the same time.
        concurrency: calls at the same time of each worker.
    """
    names = [name for name, count in missing.items() if count]
    return Forecast(
        answers=sum(missing.values()),
        most_cost=most_cost,
        measured=min((len(measured[name].seconds) for name in names), default=0),
        cost=_expected(names, {name: measured[name].costs for name in names}, Counter(missing)),
        seconds=_seconds(names, measured, missing, at_once, concurrency),
    )


def _expected(
    names: Sequence[str], values: Mapping[str, Sequence[float]], missing: Mapping[str, int]
) -> Expected | None:
    if not all(values[name] for name in names):
        return None
    return total(Expected.sum_of(values[name], missing[name]) for name in names)


def _seconds(
    names: Sequence[str],
    measured: Mapping[str, Measured],
    missing: Mapping[str, int],
    at_once: int,
    concurrency: Mapping[str, int],
) -> Expected | None:
    """Return the time of the slowest bottleneck: all calls together, or the calls of one worker."""
    values = {name: measured[name].seconds for name in names}
    together = _expected(names, values, missing)
    if together is None:
        return None
    alone = [Expected.sum_of(values[name], missing[name]) * (1 / concurrency[name]) for name in names]
    return max([together * (1 / at_once), *alone], key=lambda each: each.mean)
