"""Makes the text of a report: sections with tables, which become Markdown or terminal output."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podium.cli.screen import counted, duration, money
from podium.secrets import printable, scrub
from podium_evals.audit.plan_estimate import PLANNER_INPUT, PLANNER_OUTPUT
from podium_evals.audit.report import Amounts, NamedAmounts, Report

MOST_ROWS = 20
"""Maximum number of models, steps and errors in a table; the JSON has all."""
_UNKNOWN = "—"


@dataclass(frozen=True, slots=True)
class Column:
    """The column of a table."""

    title: str
    is_number: bool = True
    is_wide: bool = False
    """Whether the column is left out in a terminal, which has too little room."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report."""

    title: str
    notes: tuple[str, ...] = ()
    """Paragraphs above the table."""
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    is_list: bool = False
    """Whether the notes are shown as a list."""


def sections(report: Report) -> list[Section]:
    """Return the sections of a report, without secrets and control characters."""
    made = [
        _overview(report),
        _expensive(report),
        _named("Cost by model", "model", report.models),
        _named("Cost by step", "step", report.steps),
        _findings(report),
        _errors(report),
        _plans(report),
        _gaps(report),
        _sources(report),
    ]
    return [_shown(section) for section in made if section.rows or section.notes]


def heading(report: Report) -> tuple[str, str]:
    """Return the title of the report, and a line below it."""
    return "Cost audit", f"Made {report.made.replace('T', ' ')}. Prices: {report.prices}."


def _shown(section: Section) -> Section:
    return Section(
        section.title,
        tuple(map(_text, section.notes)),
        section.columns,
        tuple(tuple(map(_text, row)) for row in section.rows),
        section.is_list,
    )


def _text(text: str) -> str:
    return printable(scrub(text))


def _overview(report: Report) -> Section:
    total, latency = report.total, report.latency
    failed = f" ({total.failed:,} failed)" if total.failed else ""
    timed = "" if latency.queries == report.queries else f" (known for {latency.queries:,} queries)"
    rows = [
        ("queries", f"{report.queries:,}"),
        ("model calls", f"{total.calls:,}{failed}"),
        ("input tokens", f"{total.input_tokens:,} ({total.cached_tokens:,} from a cache)"),
        ("output tokens", f"{total.output_tokens:,} ({total.reasoning_tokens:,} of reasoning)"),
        ("cost", _cost(total)),
        ("cost of a query", _cost_each(report)),
        ("time of a query, median", f"{_seconds(latency.p50)}{timed}"),
        ("time of a query, 95th percentile", _seconds(latency.p95)),
    ]
    return Section("Overview", (), (Column("", is_number=False), Column("")), tuple(rows))


def _expensive(report: Report) -> Section:
    columns = (
        Column("query", is_number=False),
        Column("question", is_number=False, is_wide=True),
        *(Column(title) for title in ("calls", "tokens", "cost", "time")),
    )
    rows = tuple(
        (
            each.id,
            each.question or _UNKNOWN,
            f"{each.calls:,}",
            f"{each.tokens:,}",
            _with_unknown(each.cost, each.unpriced),
            _seconds(each.seconds),
        )
        for each in report.expensive
    )
    return Section("The most expensive queries", (), columns, rows)


def _named(title: str, what: str, named: Sequence[NamedAmounts]) -> Section:
    columns = (
        Column(what, is_number=False),
        *(Column(title) for title in ("calls", "failed", "input", "cached", "output")),
        Column("reasoning", is_wide=True),
        Column("cost"),
    )
    rows = []
    for each in named[:MOST_ROWS]:
        sums = each.amounts
        counts = (sums.calls, sums.failed, sums.input_tokens, sums.cached_tokens, sums.output_tokens)
        told = (f"{count:,}" for count in (*counts, sums.reasoning_tokens))
        rows.append((each.name, *told, _cost(sums)))
    rest = len(named) - MOST_ROWS
    notes = (f"{counted(rest, 'further ' + what)} cost less; the JSON has all.",) if rest > 0 else ()
    return Section(title, notes, columns, tuple(rows))


def _findings(report: Report) -> Section:
    if not report.findings:
        return Section("Failures and loops", ("No failures and no loops were found.",))
    columns = (
        Column("what", is_number=False),
        Column("count"),
        Column("queries"),
        Column("cost"),
        Column("examples (query/span)", is_number=False, is_wide=True),
    )
    rows = tuple(
        (
            each.title,
            f"{each.count:,}",
            f"{each.queries:,}",
            _UNKNOWN if each.wasted is None else _with_unknown(each.wasted, each.unpriced),
            ", ".join(each.examples),
        )
        for each in report.findings
    )
    note = (
        "Cost is the cost of the calls in a row. For history that is sent again, it is the cost "
        "of the repeated tokens. For agents beyond "
        f"{report.turns} turns, it is the cost of the further calls. A call can be in several "
        f"rows. If each call counts once, with its largest cost, all rows cost {money(report.wasted)}, "
        f"{_share(report.wasted, report.total.cost)} of the known cost."
    )
    return Section("Failures and loops", (note,), columns, rows)


def _errors(report: Report) -> Section:
    columns = (Column("error", is_number=False), Column("calls and tools"))
    rows = [(name, f"{count:,}") for name, count in list(report.errors.items())[:MOST_ROWS]]
    return Section("Errors", (), columns, tuple(rows))


def _plans(report: Report) -> Section:
    made = report.estimate
    title = "What plans would have cost"
    if not made.queries:
        return Section(
            title, ("There is no estimate: each query lacks the cost of a call, or a price for a planner.",)
        )
    of = "1 query" if made.queries == 1 else f"{made.queries:,} queries"
    estimated = (
        "This is an estimate: nothing was run, and the quality of the plans' answers is unknown. The calls "
        f"of {of} cost {money(made.actual)}. With the same calls once each and a planner, they would have "
        f"cost {money(made.low)} to {money(made.high)}."
    )
    ends = (
        "The high end leaves out failed calls whose prompt was answered later, and repeats of a prompt that "
        "got the same answer. The low end leaves out all failed calls, all repeats (also "
        "intended repeats, such as votes), and history that loops send again."
    )
    planning = (
        f"A query of several calls gets one call of a planner, with {PLANNER_INPUT} tokens and the shortest "
        f"prompt of the query as input, and {PLANNER_OUTPUT} tokens of output for each call: at "
        f"the price of the cheapest model of the query (low end) or the most expensive one (high end)."
    )
    notes = [estimated, ends, planning]
    if made.high > made.actual:
        notes.append("At the high end, plans cost more than they save.")
    if made.left_out:
        of = f"{made.left_out:,} of {report.queries:,} queries"
        notes.append(f"Left out because of an unknown cost or price: {of}.")
    return Section(title, tuple(notes))


def _gaps(report: Report) -> Section:
    return Section("Assumptions and gaps", tuple(_gap_lines(report)), is_list=True)


def _gap_lines(report: Report) -> Iterator[str]:
    total, doubts = report.total, report.doubts
    for number, told in (
        (report.bad_rows, "Rows that could not be read, and are missing in all figures"),
        (
            total.unpriced,
            "Calls with an unknown price or unknown tokens, which are missing in all sums of costs",
        ),
        (total.uncounted, "Successful calls without tokens in the export"),
        (total.exported, "Calls with the cost from the export, because the price of their model is unknown"),
        (total.unbilled, "Failed calls without tokens, counted as not billed (a timeout may be billed)"),
        (
            doubts.without_prompt,
            "Calls without a prompt in the export; their repeats and loops cannot be found",
        ),
        (doubts.wrappers, "Calls that are not counted: around counted calls, or inside them without tokens"),
        (doubts.duplicates, "Repeated records of spans, which are not counted twice"),
        (doubts.orphans, "Spans whose parent span never ended, or was not exported"),
        (doubts.backwards, "Spans that end before they start; their duration is unknown"),
        (doubts.early, "Spans that start before the span around them, because clocks differ"),
    ):
        if number:
            yield f"{told}: {number:,}."
    for tier, number in doubts.tiers.items():
        yield f"Calls of the service tier {tier}, at the prices of the standard tier: {number:,}."
    yield (
        "Prices are found by the names of provider and model in the export. Prices of searches, "
        "audio and images, and your own discounts, are not known."
    )


def _sources(report: Report) -> Section:
    columns = (
        Column("source", is_number=False),
        Column("rows", is_number=False),
        Column("bad rows"),
        Column("the first of them", is_number=False, is_wide=True),
    )
    rows = tuple(
        (
            each.name,
            ", ".join(f"{name}: {number:,}" for name, number in each.rows.items()) or "none",
            f"{each.bad_rows:,}",
            "; ".join(each.problems) or _UNKNOWN,
        )
        for each in report.sources
    )
    return Section("Sources", (), columns, rows)


def _cost(amounts: Amounts) -> str:
    known = amounts.cost if amounts.unpriced < amounts.calls else None
    return _with_unknown(known, amounts.unpriced)


def _with_unknown(cost: float | None, unpriced: int) -> str:
    if cost is None or not unpriced:
        return money(cost)
    return f"{money(cost)} + {unpriced:,} unknown"


def _cost_each(report: Report) -> str:
    if report.total.unpriced:
        return "unknown"
    return money(report.total.cost / report.queries)


def _seconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else duration(seconds)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "no share"
