"""The forecast of a plan, and its comparison with the actual amounts. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podium.types.outcome import Outcome, total_cost
from podium.usage import Usage

LOW, HIGH = 0.05, 0.95
"""The quantiles at the ends of an interval: 90% of runs are expected inside it."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The expected range of an amount."""

    low: float
    """The 5% quantile."""
    likely: float | None
    """The median; `None` if the number of items, turns or steps that run is not known."""
    high: float
    """The 95% quantile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemForecast:
    """The expected calls and cost of one item of a map."""

    step: str
    """The name of the map."""
    calls: Interval
    cost: Interval | None
    """In USD; `None` when the price of a worker is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The expected calls, tokens, cost and time of a plan's steps, without the planner's calls.

    With maps over lists that are not known, conditions or loops, an interval is from the lowest amount (no
    item, no condition that holds, one turn) to the highest (`Limits.items`, all conditions, all turns).
    """

    calls: Interval
    input_tokens: Interval
    output_tokens: Interval
    cost: Interval | None
    """In USD; `None` when the price of a worker is unknown."""
    seconds: Interval
    """From the start of the first step to the end of the last."""
    actions: int = 0
    """Number of actions in the plan."""
    items: tuple[ItemForecast, ...] = ()
    """One item of each map whose list is not known."""
    guessed: tuple[str, ...] = ()
    """Workers with too few recorded calls, for which the forecast uses assumptions."""


@dataclass(slots=True)
class Amounts:
    """What a plan or a step spent, or may spend."""

    calls: float = 0
    read: float = 0
    """Tokens of the prompts."""
    written: float = 0
    """Tokens of the answers."""
    cost: float | None = 0.0
    """In USD; `None` if it is unknown."""
    seconds: float = 0.0

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Amounts":
        """Return what steps spent."""
        usage = Usage.total(outcome.usage for outcome in outcomes)
        read = usage.input_tokens + usage.orchestration_input_tokens
        calls = sum(len(outcome.calls) or min(outcome.attempts, 1) for outcome in outcomes)
        started = [outcome.started for outcome in outcomes if outcome.started is not None]
        ended = [outcome.ended for outcome in outcomes if outcome.ended is not None]
        seconds = max(ended) - min(started) if started and ended else 0.0
        cost = total_cost(outcome.cost for outcome in outcomes)
        return cls(calls, read, usage.total_tokens - read, cost, seconds)


def explain_forecast(forecast: Forecast) -> str:
    """Return the forecast in one line."""
    acts = [f"{forecast.actions} action{'' if forecast.actions == 1 else 's'}"] if forecast.actions else []
    told = ", ".join([*acts, *(_expected(fact) for fact in facts(forecast, ()))])
    for each in forecast.items:
        calls, cost = Fact("", each.calls, None, unit=" call(s)"), Fact("", each.cost, None, "${:.4f}")
        told += f"; per item of step {each.step}: {_expected(calls)}, {_expected(cost)}"
    guessed = ", ".join(forecast.guessed)
    based = f" (based on assumptions for {guessed}, with few recorded calls)" if guessed else ""
    return f"Expected: {told}{based}."


def compare(forecast: Forecast, outcomes: Sequence[Outcome]) -> str:
    """Return the forecast and the actual amounts of a plan in one line."""
    found = facts(forecast, outcomes)
    above = [fact.name for fact in found if fact.side > 0]
    below = [fact.name for fact in found if fact.side < 0]
    verdict = [f"more than expected: {', '.join(above)}"] if above else []
    verdict += [f"less than expected: {', '.join(below)}"] if below else []
    expected, came = ", ".join(map(_expected, found)), ", ".join(map(_came, found))
    return f"Expected: {expected}. Actual: {came}; {'; '.join(verdict) or 'as expected'}."


def within(forecast: Forecast, outcomes: Sequence[Outcome]) -> bool:
    """Return whether every amount that is known and was forecast is inside its interval."""
    return not any(fact.side for fact in facts(forecast, outcomes))


class Fact(NamedTuple):
    """One forecast amount and its actual value."""

    name: str
    interval: Interval | None
    amount: float | None
    form: str = "{:,.0f}"
    unit: str = ""

    @property
    def side(self) -> int:
        """1 above the interval, -1 below it, else 0."""
        if self.interval is None or self.amount is None:
            return 0
        return (self.amount > self.interval.high) - (self.amount < self.interval.low)


def facts(forecast: Forecast, outcomes: Sequence[Outcome]) -> tuple[Fact, ...]:
    """Return each forecast amount with the actual amount of the outcomes; cost in USD, time in seconds."""
    came = Amounts.of(outcomes)
    return (
        Fact("calls", forecast.calls, came.calls, unit=" call(s)"),
        Fact("tokens read", forecast.input_tokens, came.read, unit=" tokens read"),
        Fact("tokens written", forecast.output_tokens, came.written, unit=" written"),
        Fact("money", forecast.cost, came.cost, "${:.4f}"),
        Fact("time", forecast.seconds, came.seconds, "{:.1f}", " s"),
    )


def _expected(fact: Fact) -> str:
    if fact.interval is None:
        return "cost unknown"
    low, high = fact.form.format(fact.interval.low), fact.form.format(fact.interval.high)
    if low == high:
        return high + fact.unit
    likely = fact.interval.likely
    told = "" if likely is None else f" (likely {fact.form.format(likely)})"
    return f"{low} to {high}{fact.unit}{told}"


def _came(fact: Fact) -> str:
    return "cost unknown" if fact.amount is None else fact.form.format(fact.amount) + fact.unit
