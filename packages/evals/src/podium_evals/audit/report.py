"""The audit: adds up the queries of exports and journals, and returns a report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from podium.aio import run_sync
from podium.errors import ConfigError
from podium.journal import Journal
from podium.usage import Usage
from podium_evals.audit.findings import KINDS, Finding, findings
from podium_evals.audit.logs import run_spans, span_of
from podium_evals.audit.queries import Call, Prices, Query
from podium_evals.audit.sources import Row, SpanStore, read_rows, source_of
from podium_evals.audit.texts import excerpt

TURNS = 10
"""Default limit of turns: an agent with more turns is reported as a loop."""
MOST_EXPENSIVE, EXAMPLES, PROBLEMS = 10, 5, 5
_DOUBTS = ("without_prompt", "unended", "wrappers", "duplicates")


@dataclass(slots=True, kw_only=True)
class Source:
    """A file or journal that was read."""

    name: str
    rows: dict[str, int] = field(default_factory=dict)
    """Number of rows by format."""
    bad_rows: int = 0
    """Number of rows that could not be read."""
    problems: list[str] = field(default_factory=list)
    """Place and reason of the first unreadable rows."""

    def complain(self, row: Row, problem: str) -> None:
        """Count an unreadable row."""
        self.bad_rows += 1
        if len(self.problems) < PROBLEMS:
            self.problems.append(excerpt(f"{row.place}: {problem}", 200))


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Sums over calls: their number, tokens and costs."""

    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input tokens that was read from a cache."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    """The part of the output tokens that is hidden reasoning."""
    cost: float = 0.0
    """The sum of the known costs, in USD."""
    unpriced: int = 0
    """Number of calls of unknown cost."""
    exported: int = 0
    """Number of calls whose cost is the cost in the export, because their price is unknown."""
    unbilled: int = 0
    """Number of failed calls without tokens, which count as not billed."""
    uncounted: int = 0
    """Number of successful calls with unknown tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedAmounts:
    """Sums over the calls of one model or one step."""

    name: str
    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """How long queries took, in seconds."""

    queries: int
    """Number of queries whose time is known."""
    p50: float | None
    p95: float | None
    """The shortest time that 95 % of the queries do not exceed; `None` if no time is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpensiveQuery:
    """One of the most expensive queries."""

    id: str
    question: str
    """The beginning of the question, without secrets; empty if the export has no prompts."""
    calls: int
    tokens: int
    cost: float | None
    """The sum of the known costs in USD; `None` if no cost is known."""
    unpriced: int
    """Number of calls of unknown cost."""
    seconds: float | None


@dataclass(slots=True, kw_only=True)
class FindingRow:
    """All failures or loops of one kind."""

    kind: str
    title: str
    count: int = 0
    queries: int = 0
    """Number of queries with such a failure or loop."""
    wasted: float = 0.0
    """The cost of the calls, in USD."""
    unpriced: int = 0
    """Number of these calls with an unknown cost."""
    examples: list[str] = field(default_factory=list)
    """Examples, as ids of query and span: `query/span`."""

    def add(self, query: Query, found: Finding, waste: dict[str, float]) -> None:
        """Count a finding; `waste` has the largest cost of each call of the query."""
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(excerpt(f"{query.id}/{found.span}", 160))
        for span, cost in found.costs:
            if cost is None:
                self.unpriced += 1
            else:
                self.wasted += cost
                waste[span] = max(waste.get(span, 0.0), cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of `audit`: tokens, costs, latency, failures and loops."""

    made: str
    """When the report was made, in ISO 8601."""
    prices: str
    """The source of the prices, and their day."""
    turns: int
    """The limit of turns: an agent with more turns is reported as a loop."""
    sources: tuple[Source, ...]
    queries: int
    total: Amounts
    latency: Latency
    expensive: tuple[ExpensiveQuery, ...]
    """The ten most expensive queries. Those of unknown cost follow, the one with most tokens first."""
    models: tuple[NamedAmounts, ...]
    """The amounts of each model, the highest cost first; `steps` has those of each step."""
    steps: tuple[NamedAmounts, ...]
    findings: tuple[FindingRow, ...]
    """Failures and loops by kind."""
    wasted: float
    """The cost of all findings in USD. A call with several findings counts once, with the largest cost."""
    errors: dict[str, int]
    """Number of failed model calls and tool calls by error, the most frequent first."""
    doubts: dict[str, int]
    """Number of records that make the report uncertain: calls `without_prompt` or an end (`unended`),
    `wrappers` (calls that are not counted, around counted ones), and `duplicates`."""
    tiers: dict[str, int]
    """Number of calls by service tier, for tiers whose prices differ from standard prices."""

    @property
    def bad_rows(self) -> int:
        """Number of rows of all sources that could not be read."""
        return sum(source.bad_rows for source in self.sources)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values, unrounded."""
        return asdict(self)


def audit(
    sources: Sequence[str | Path | Journal], *, prices: Prices | None = None, turns: int = TURNS
) -> Report:
    """Audit files and journals together; the spans of a query may be in several of them.

    This function blocks until all files are read. In an event loop, call it in a separate thread.

    Args:
        sources: files of exports, files or URLs of journals, and journals.
        prices: the prices of calls; default: today's prices.
        turns: the limit of turns; an agent with more turns is reported as a loop.

    Raises:
        ConfigError: a file cannot be read, or no source has a model call.
        JournalError: a journal cannot be read.
    """
    priced, tally = prices or Prices(), _Tally(turns)
    read, store = list[Source](), SpanStore()
    for source in map(source_of, sources):
        if isinstance(source, Path):
            read.append(_read_file(source, store))
        else:
            read.append(run_sync(partial(_read_journal, source, store)))
    for spans in store.queries():
        tally.add(Query(spans, priced))
    tally.doubts["duplicates"] = store.duplicates
    if not tally.queries:
        raise ConfigError(_nothing(read))
    return tally.report(priced, read)


def _read_file(path: Path, store: SpanStore) -> Source:
    source = Source(name=excerpt(str(path), 200))
    for row in read_rows(path):
        if row.value is None:
            source.complain(row, row.problem)
            continue
        try:
            name, span = span_of(row.value)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
            told = str(error) if isinstance(error, ValueError) else f"a field has an unexpected type: {error}"
            source.complain(row, told)
            continue
        source.rows[name] = source.rows.get(name, 0) + 1
        store.add(span)
    return source


async def _read_journal(journal: Journal, store: SpanStore) -> Source:
    source = Source(name="journal")
    async for span in run_spans(journal):
        source.rows["journal"] = source.rows.get("journal", 0) + (span.name == "run")
        store.add(span)
    return source


def _nothing(sources: Sequence[Source]) -> str:
    """Return why there is nothing to report."""
    told = ["no model call was found"]
    for each in sources:
        why = f"; {each.problems[0]}" if each.problems else ""
        read = f"readable rows: {sum(each.rows.values()):,}; unreadable rows: {each.bad_rows:,}"
        told.append(f"{each.name}: {read}{why}")
    return "\n".join(told)


class _Tally:
    """The sums over queries."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.queries = 0
        self._total = Counter[str]()
        self._models, self._steps = dict[str, Counter[str]](), dict[str, Counter[str]]()
        self._errors = Counter[str]()
        self._wasted = 0.0
        self.doubts = dict.fromkeys(_DOUBTS, 0)
        self._tiers = Counter[str]()
        self._latencies = list[float]()
        self._all = list[ExpensiveQuery]()
        self._kinds = {kind: FindingRow(kind=kind, title=title) for kind, title in KINDS.items()}

    def add(self, query: Query) -> None:
        """Add a query. Queries without model calls, such as traces of web requests, are ignored."""
        if not query.calls:
            return
        self.queries += 1
        for call in query.calls:
            self._add_call(call)
        self._add_findings(query)
        self._all.append(
            ExpensiveQuery(
                id=excerpt(query.id, 160),
                question=query.question,
                calls=len(query.calls),
                tokens=Usage.total(call.usage for call in query.calls).total_tokens,
                cost=query.cost,
                unpriced=sum(call.cost is None for call in query.calls),
                seconds=query.seconds,
            )
        )
        if query.seconds is not None:
            self._latencies.append(query.seconds)
        self.doubts["wrappers"] += query.wrappers

    def _add_call(self, call: Call) -> None:
        span, usage = call.span, call.usage
        sums = {
            "calls": 1,
            "failed": bool(span.error),
            "input_tokens": usage.total_input_tokens,
            "cached_tokens": usage.total_cached_tokens,
            "output_tokens": usage.total_output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
            "cost": call.cost or 0.0,
            "unpriced": call.cost is None,
            "exported": call.cost_source == "export",
            "unbilled": call.cost_source == "none",
            "uncounted": span.usage is None and not span.error,
        }
        model = excerpt(span.model) or "(unknown)"
        named = (self._models, model), (self._steps, excerpt(call.step))
        for counter in (self._total, *(of.setdefault(name, Counter()) for of, name in named)):
            counter.update(sums)  # costs are added like counts
        self.doubts["without_prompt"] += not span.prompt
        self.doubts["unended"] += span.is_open
        if span.tier:
            self._tiers[excerpt(span.tier)] += 1

    def _add_findings(self, query: Query) -> None:
        here, waste = set[str](), dict[str, float]()
        for found in findings(query, self._turns):
            self._kinds[found.kind].add(query, found, waste)
            here.add(found.kind)
        for name in here:
            self._kinds[name].queries += 1
        self._wasted += sum(waste.values())
        for span in query.spans:
            if span.error and span.kind in ("call", "tool"):
                self._errors[span.error] += 1

    def report(self, prices: Prices, sources: Sequence[Source]) -> Report:
        """Return the report."""
        times = sorted(self._latencies)
        self._all.sort(key=lambda each: (each.cost or 0.0, each.tokens, each.id), reverse=True)
        return Report(
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            prices=prices.source,
            turns=self._turns,
            sources=tuple(sources),
            queries=self.queries,
            total=_amounts(self._total),
            latency=Latency(queries=len(times), p50=_percentile(times, 50), p95=_percentile(times, 95)),
            expensive=tuple(self._all[:MOST_EXPENSIVE]),
            models=_by_cost(self._models),
            steps=_by_cost(self._steps),
            findings=tuple(kind for kind in self._kinds.values() if kind.count),
            wasted=self._wasted,
            errors=dict(self._errors.most_common()),
            doubts=self.doubts,
            tiers=dict(self._tiers.most_common()),
        )


def _amounts(sums: Mapping[str, float]) -> Amounts:
    whole = {each.name: int(sums.get(each.name, 0)) for each in fields(Amounts) if each.name != "cost"}
    return Amounts(**whole, cost=float(sums.get("cost", 0.0)))


def _by_cost(named: Mapping[str, Mapping[str, float]]) -> tuple[NamedAmounts, ...]:
    """Return the amounts of each name, the most expensive first."""
    rows = (NamedAmounts(name=name, amounts=_amounts(sums)) for name, sums in named.items())
    return tuple(sorted(rows, key=lambda row: (-row.amounts.cost, -row.amounts.input_tokens, row.name)))


def _percentile(times: Sequence[float], percent: int) -> float | None:
    return times[max(0, -(-len(times) * percent // 100) - 1)] if times else None
