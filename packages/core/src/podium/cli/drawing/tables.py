"""Draws plans and forecasts as tables, with the settings of the command line for rich."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.table import Column, Table
from rich.text import Text

from podium.cli.screen import duration, money
from podium.run.forecast import SPEED, WRITTEN
from podium.types.outcome import Outcome
from podium.types.plan import Plan
from podium.types.result import HIGH, LOW, Forecast, facts


def console(*, stderr: bool = False, file: TextIO | None = None, width: int | None = None) -> Console:
    """Return a console on stdout, stderr or a file that writes text verbatim, without markup."""
    return Console(stderr=stderr, file=file, width=width, highlight=False, markup=False)


def markdown(text: str) -> Markdown:
    """Draw a text as Markdown, with the URLs of its links."""
    return Markdown(text, hyperlinks=False)


def width(text: str) -> int:
    """Return the width of a text in a terminal, in columns."""
    return cell_len(text)


def plan_table(
    plan: Plan, workers: Sequence[str] | None, shown: Callable[[str], str], actions: Collection[int] = ()
) -> Table:
    """Draw `plan`, one row per step.

    Args:
        plan: the plan.
        workers: the workers' names in the pool's order; `None` to show their numbers.
        shown: makes foreign text safe for a terminal.
        actions: indices of the steps that are actions, which are marked.
    """
    table = Table("step", "worker", "subtask", "sees", box=None, header_style="dim", pad_edge=False)
    for index, step in enumerate(plan.steps):
        who = str(step.worker) if workers is None else workers[step.worker]
        who += " (acts)" if index in actions else ""
        sees = ", ".join(map(str, step.access_list)) or "-"
        sees += "" if step.enough is None else f" ({step.enough} of them)"
        table.add_row(plan.numbered(index), Text(shown(who)), Text(shown(step.subtask)), sees)
    if not plan.steps:
        table.add_row("-", "-", Text("keep the previous answer"), "-")
    return table


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
