"""Draws forecasts as tables."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import RenderableType
from rich.table import Column, Table

from podium.cli.numbers import duration, money
from podium.run.forecaster import SPEED, WRITTEN
from podium.types.forecast import HIGH, LOW, Forecast, facts
from podium.types.outcome import Outcome

_HEADS = {"money": "cost"}


def forecast(
    expected: Forecast, shown: Callable[[str], str], outcomes: Sequence[Outcome] | None = None
) -> list[RenderableType]:
    """Draw the forecast of a plan's steps, with one row each for calls, tokens, cost and time.

    Args:
        expected: the forecast of the plan.
        shown: makes foreign text safe for a terminal.
        outcomes: the outcomes of its steps, for the column `actual`; `None` before the run.
    """
    heads = ["guess" if expected.guessed else "expected", f"in {(HIGH - LOW) * 100:.0f} % of runs"]
    heads += [] if outcomes is None else ["actual"]
    columns = (Column(head, justify="right", no_wrap=True) for head in heads)
    table = Table(
        Column("forecast of the steps", no_wrap=True), *columns, box=None, header_style="dim", pad_edge=False
    )
    if expected.actions:
        table.add_row("actions", str(expected.actions), "")
    for fact in facts(expected, outcomes or ()):
        name, span = fact.name, fact.interval
        row = ["unknown", ""]
        if span is not None:
            row = [_amount(name, span.likely), f"{_amount(name, span.low)} to {_amount(name, span.high)}"]
        if outcomes is not None:
            row.append(_actual(name, fact.amount, None if span is None else (span.low, span.high)))
        table.add_row(_HEADS.get(name, name), *row)
    return [table, *_notes(expected, shown)]


def _notes(expected: Forecast, shown: Callable[[str], str]) -> Iterator[str]:
    """Yield notes on the calls that the forecast leaves out, and on its assumptions."""
    yield "The forecast does not include the planner's calls."
    if expected.guessed:
        names = shown(", ".join(expected.guessed))
        assumed = f"; assumed: {WRITTEN:,.0f} tokens per answer, {SPEED:,.0f} tokens per second"
        model = assumed if expected.output_tokens.high else ""
        yield f"Guessed, because few calls of these workers were known: {names}{model}"


def _amount(name: str, amount: float | None) -> str:
    if amount is None or name == "money":
        return money(amount)
    return duration(amount) if name == "time" else f"{amount:,.0f}"


def _actual(name: str, amount: float | None, span: tuple[float, float] | None) -> str:
    told = _amount(name, amount)
    if amount is None or span is None:
        return told
    if amount > span[1]:
        return f"{told} (more)"
    return f"{told} (less)" if amount < span[0] else told
