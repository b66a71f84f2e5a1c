"""The forecast of a plan's calls, tokens, cost and time, and its comparison with the outcome. Pure data."""

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
    likely: float
    """The median."""
    high: float
    """The 95% quantile."""

    def __contains__(self, amount: float) -> bool:
        return self.low <= amount <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The expected calls, tokens, cost and time of a plan's steps, without the planner's calls."""

    calls: Interval
    input_tokens: Interval
    output_tokens: Interval
    cost: Interval | None
    """In USD; `None` when the price of a worker is unknown."""
    seconds: Interval
    """From the start of the first step to the end of the last."""
    actions: int = 0
    """Number of actions in the plan."""
    guessed: tuple[str, ...] = ()
    """Workers with too few recorded calls, for which the forecast uses assumptions."""


def explain_forecast(forecast: Forecast) -> str:
    """Return the forecast in one line."""
    acts = [f"{forecast.actions} action{'' if forecast.actions == 1 else 's'}"] if forecast.actions else []
    told = ", ".join([*acts, *(_expected(fact) for fact in facts(forecast, ()))])
    guessed = ", ".join(forecast.guessed)
    return f"Expected: {told}" + (
        f" (based on assumptions for {guessed}, with few recorded calls)." if guessed else "."
    )


def compare(forecast: Forecast, outcomes: Sequence[Outcome]) -> str:
    """Return the forecast and the actual amounts of a plan in one line.

    Args:
        forecast: the forecast of the plan.
        outcomes: the outcomes of the round that ran the plan.
    """
    found = facts(forecast, outcomes)
    known = [(fact.name, fact.interval, fact.amount) for fact in found]
    above = [name for name, span, amount in known if span and amount is not None and amount > span.high]
    below = [name for name, span, amount in known if span and amount is not None and amount < span.low]
    verdict = [f"more than expected: {', '.join(above)}"] if above else []
    verdict += [f"less than expected: {', '.join(below)}"] if below else []
    expected, came = ", ".join(map(_expected, found)), ", ".join(map(_came, found))
    return f"Expected: {expected}. Actual: {came}; {'; '.join(verdict) or 'as expected'}."


def within(forecast: Forecast, outcomes: Sequence[Outcome]) -> bool:
    """Return whether every amount that is known and was forecast is inside its interval."""
    return all(
        fact.interval is None or fact.amount is None or fact.amount in fact.interval
        for fact in facts(forecast, outcomes)
    )


class Fact(NamedTuple):
    """One forecast amount and its actual value."""

    name: str
    interval: Interval | None
    amount: float | None
    form: str = "{:,.0f}"
    unit: str = ""


def facts(forecast: Forecast, outcomes: Sequence[Outcome]) -> tuple[Fact, ...]:
    """Return each forecast amount with the actual amount of the outcomes; cost in USD, time in seconds."""
    usage = Usage.total(outcome.usage for outcome in outcomes)
    read = usage.input_tokens + usage.orchestration_input_tokens
    calls = sum(len(outcome.calls) or min(outcome.attempts, 1) for outcome in outcomes)
    cost = total_cost(outcome.cost for outcome in outcomes)
    started = [outcome.started for outcome in outcomes if outcome.started is not None]
    ended = [outcome.ended for outcome in outcomes if outcome.ended is not None]
    seconds = max(ended) - min(started) if started and ended else 0.0
    return (
        Fact("calls", forecast.calls, calls, unit=" call(s)"),
        Fact("tokens read", forecast.input_tokens, read, unit=" tokens read"),
        Fact("tokens written", forecast.output_tokens, usage.total_tokens - read, unit=" written"),
        Fact("money", forecast.cost, cost, "${:.4f}"),
        Fact("time", forecast.seconds, seconds, "{:.1f}", " s"),
    )


def _expected(fact: Fact) -> str:
    if fact.interval is None:
        return "cost unknown"
    low, likely, high = map(fact.form.format, (fact.interval.low, fact.interval.likely, fact.interval.high))
    return high + fact.unit if low == high else f"{low} to {high}{fact.unit} (likely {likely})"


def _came(fact: Fact) -> str:
    return "cost unknown" if fact.amount is None else fact.form.format(fact.amount) + fact.unit
