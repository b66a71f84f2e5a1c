"""`podium audit costs`: report tokens, cost, latency and failures in exports and journals."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath
from podium.cli.screen import Screen, counted, duration, money, reporting
from podium.config.load import find_journal
from podium.errors import ConfigError
from podium.journal import Journal
from podium_evals.audit.queries import Prices
from podium_evals.audit.report import TURNS, Amounts, NamedAmounts, Report, audit
from podium_evals.recorded import PriceTable

PARTIAL = 3
"""The exit code if some rows could not be read and are missing in the report."""
MOST_ROWS = 20
"""Maximum number of models, steps and errors in a table; the JSON has all."""


def costs(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Exports (JSON, JSON lines, also with gzip), journals (SQLite files), or URLs of journals. "
            "Default: the journal of the config.",
        ),
    ] = None,
    *,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own prices (TOML). They replace the prices of genai-prices."),
    ] = None,
    turns: Annotated[
        int, typer.Option(min=1, help="Limit of turns: an agent with more turns is reported as a loop.")
    ] = TURNS,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Report what model calls cost, and failures.

    The report has tokens, cost, latency, failures and loops of the calls in traces, logs and journals.
    """
    with reporting() as screen:
        sources = _sources(files or [], config)
        table = None if prices is None else PriceTable.read(prices)
        made = audit(sources, prices=Prices(table), turns=turns)
        if as_json:
            screen.result_json(made.as_json())
        else:
            _draw(screen, made)
        if made.bad_rows:
            for source in made.sources:
                for problem in source.problems:
                    screen.note(f"podium: {source.name}, {problem}")
            screen.note(f"podium: unreadable rows, which are missing in the report: {made.bad_rows:,}")
            raise typer.Exit(PARTIAL)


def _sources(files: list[str], config: Path | None) -> Sequence[str | Journal]:
    if not files:
        return [find_journal(config)]
    if twice := next((file for file in files if files.count(file) > 1), None):
        raise ConfigError(f"{twice} is named twice")
    return files


class _Section(NamedTuple):
    """A part of the report. Names of columns that begin with `>` have numbers."""

    title: str
    columns: Sequence[str] = ()
    rows: Iterable[Sequence[str]] = ()
    notes: Iterable[str] = ()


def _draw(screen: Screen, report: Report) -> None:
    """Print a report to stdout, without secrets and control characters."""
    text = screen.shown
    heading = f"Cost audit\nMade {report.made.replace('T', ' ')}. Prices: {report.prices}."
    drawn: list[RenderableType] = [Text(text(heading))]
    for section in _sections(report):
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
        table.show_header = any(section.columns)
        for name in section.columns:
            if name.startswith(">"):
                table.add_column(name[1:], justify="right", min_width=4)
            else:
                table.add_column(name, overflow="fold", min_width=12)
        for row in section.rows:
            table.add_row(*(Text(text(cell)) for cell in row))
        notes = [Text(text(note)) for note in section.notes]
        if notes or table.row_count:
            drawn += [Text(f"\n{section.title}", style="bold"), *notes, *([table] if table.row_count else [])]
    screen.draw(*drawn)


def _sections(report: Report) -> Iterator[_Section]:
    yield _Section("Overview", ("", ">"), _overview(report))
    expensive = (
        (
            each.id,
            f"{each.calls:,}",
            f"{each.tokens:,}",
            _cost(each.cost, each.unpriced),
            _seconds(each.seconds),
        )
        for each in report.expensive
    )
    columns: Sequence[str] = ("query", ">calls", ">tokens", ">cost", ">time")
    yield _Section("The most expensive queries", columns, expensive)
    for what, named in (("model", report.models), ("step", report.steps)):
        rest = len(named) - MOST_ROWS
        notes = (f"{counted(rest, 'further ' + what)} cost less; the JSON has all.",) if rest > 0 else ()
        columns = (what, ">calls", ">failed", ">input", ">cached", ">output", ">cost")
        yield _Section(f"Cost by {what}", columns, map(_named, named[:MOST_ROWS]), notes)
    yield _findings(report)
    errors = ((name, f"{count:,}") for name, count in list(report.errors.items())[:MOST_ROWS])
    yield _Section("Errors", ("error", ">calls and tools"), errors)
    yield _Section("Assumptions and gaps", notes=(f"- {note}" for note in _gaps(report)))
    sources = (
        (
            each.name,
            ", ".join(f"{name}: {number:,}" for name, number in each.rows.items()) or "none",
            f"{each.bad_rows:,}",
        )
        for each in report.sources
    )
    yield _Section("Sources", ("source", "rows", ">bad rows"), sources)


def _overview(report: Report) -> Iterator[tuple[str, str]]:
    total, latency = report.total, report.latency
    failed = f" ({total.failed:,} failed)" if total.failed else ""
    timed = "" if latency.queries == report.queries else f" (known for {latency.queries:,} queries)"
    yield "queries", f"{report.queries:,}"
    yield "model calls", f"{total.calls:,}{failed}"
    yield "input tokens", f"{total.input_tokens:,} ({total.cached_tokens:,} from a cache)"
    yield "output tokens", f"{total.output_tokens:,} ({total.reasoning_tokens:,} of reasoning)"
    yield "cost", _cost_of(total)
    yield "cost of a query", "unknown" if total.unpriced else money(total.cost / report.queries)
    yield "time of a query, median", f"{_seconds(latency.p50)}{timed}"
    yield "time of a query, 95th percentile", _seconds(latency.p95)


def _named(each: NamedAmounts) -> tuple[str, ...]:
    sums = each.amounts
    counts = (sums.calls, sums.failed, sums.input_tokens, sums.cached_tokens, sums.output_tokens)
    return (each.name, *(f"{count:,}" for count in counts), _cost_of(sums))


def _findings(report: Report) -> _Section:
    title = "Failures and loops"
    if not report.findings:
        return _Section(title, notes=("No failures and no loops were found.",))
    rows = (
        (
            each.title,
            f"{each.count:,}",
            f"{each.queries:,}",
            _cost(each.wasted, each.unpriced),
        )
        for each in report.findings
    )
    share = f"{100 * report.wasted / report.total.cost:.1f} %" if report.total.cost else "no share"
    note = (
        f"Cost is the cost of the calls in a row. For agents beyond {report.turns} turns, it is the cost of "
        "the further calls. A call can be in several "
        f"rows. If each call counts once, with its largest cost, all rows cost {money(report.wasted)}, "
        f"{share} of the known cost."
    )
    return _Section(title, ("what", ">count", ">queries", ">cost"), rows, (note,))


_GAPS = {
    "bad_rows": "Rows that could not be read, and are missing in all figures",
    "unpriced": "Calls with an unknown price or unknown tokens, which are missing in all sums of costs",
    "uncounted": "Successful calls without tokens in the export",
    "exported": "Calls with the cost from the export, because the price of their model is unknown",
    "unbilled": "Failed calls without tokens, counted as not billed (a timeout may be billed)",
    "without_prompt": "Calls without a prompt in the export; their repeats and loops cannot be found",
    "wrappers": "Calls that are not counted: around counted calls, or inside them without tokens",
    "duplicates": "Repeated records of spans, which are not counted twice",
    "unended": "Calls without an end in the export",
}
"""What makes a report uncertain: fields of the report, of its total, and keys of its doubts."""


def _gaps(report: Report) -> Iterator[str]:
    for name, told in _GAPS.items():
        number = report.doubts.get(name) or getattr(report.total, name, getattr(report, name, 0))
        if number:
            yield f"{told}: {number:,}."
    for tier, number in report.tiers.items():
        yield f"Calls of the service tier {tier}, at the prices of the standard tier: {number:,}."
    yield (
        "Prices are found by the names of provider and model in the export. Prices of searches, "
        "audio and images, and your own discounts, are not known."
    )


def _cost_of(amounts: Amounts) -> str:
    return _cost(amounts.cost if amounts.unpriced < amounts.calls else None, amounts.unpriced)


def _cost(cost: float | None, unpriced: int) -> str:
    if cost is None or not unpriced:
        return money(cost)
    return f"{money(cost)} + {unpriced:,} unknown"


def _seconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else duration(seconds)
