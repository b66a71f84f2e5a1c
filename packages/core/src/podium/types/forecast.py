"""What a plan was expected to cost before it ran, and how that compares with the bill. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podium.types.outcome import Outcome, total_cost
from podium.usage import Usage

LOW, HIGH = 0.05, 0.95
"""The quantiles an interval lies between: nine of ten runs come to something in it."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What something may come to."""

    low: float
    """One run in twenty comes to less."""
    likely: float
    """Half of the runs come to less."""
    high: float
    """One run in twenty comes to more."""

    def __contains__(self, amount: float) -> bool:
        return self.low <= amount <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the steps of a plan may come to; the planner's own calls are not among them."""

    calls: Interval
    input_tokens: Interval
    output_tokens: Interval
    cost: Interval | None
    """In USD; `None` when the price of a worker is unknown."""
    seconds: Interval
    """From the start of the first step to the end of the last."""
    guessed: tuple[str, ...] = ()
    """Workers whose calls are too few to go by, so that what they take was assumed."""


def explain_forecast(forecast: Forecast) -> str:
    """Say in one line what a plan may come to."""
    told = ", ".join(_expected(fact) for fact in facts(forecast, ()))
    guessed = ", ".join(forecast.guessed)
    return f"Expected: {told}" + (
        f" (a guess for {guessed}, of which few calls are known)." if guessed else "."
    )


def compare(forecast: Forecast, outcomes: Sequence[Outcome]) -> str:
    """Say in one line what a plan was expected to come to, and what it did.

    Args:
        forecast: what was expected of the plan.
        outcomes: those of the round that carried it out.
    """
    found = facts(forecast, outcomes)
    known = [(fact.name, fact.interval, fact.amount) for fact in found]
    above = [name for name, span, amount in known if span and amount is not None and amount > span.high]
    below = [name for name, span, amount in known if span and amount is not None and amount < span.low]
    verdict = [f"more than expected: {', '.join(above)}"] if above else []
    verdict += [f"less than expected: {', '.join(below)}"] if below else []
    expected, came = ", ".join(map(_expected, found)), ", ".join(map(_came, found))
    return f"Expected: {expected}. Came to: {came}; {'; '.join(verdict) or 'as expected'}."


def within(forecast: Forecast, outcomes: Sequence[Outcome]) -> bool:
    """Say whether all that can be compared came to something inside its interval."""
    return all(
        fact.interval is None or fact.amount is None or fact.amount in fact.interval
        for fact in facts(forecast, outcomes)
    )


class Fact(NamedTuple):
    """One amount that was forecast."""

    name: str
    interval: Interval | None
    amount: float | None
    form: str = "{:,.0f}"
    unit: str = ""


def facts(forecast: Forecast, outcomes: Sequence[Outcome]) -> tuple[Fact, ...]:
    """Return each amount of a forecast with the amount of the outcomes; cost in USD, time in seconds."""
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
