"""The report of an audit: pure data, written as Markdown, JSON or a table."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file or journal that was read."""

    name: str
    rows: dict[str, int]
    """Number of rows by format."""
    bad_rows: int
    """Number of rows that could not be read."""
    problems: tuple[str, ...]
    """Place and reason of the first unreadable row; empty if there is none."""


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
    """`None` if no time is known."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """All failures or loops of one kind."""

    kind: str
    title: str
    count: int
    queries: int
    """Number of queries with such a failure or loop."""
    wasted: float | None
    """The cost of the calls, or of their repeated parts, in USD; `None` for a kind without a cost."""
    unpriced: int
    """Number of these calls with an unknown cost."""
    examples: tuple[str, ...]
    """Examples, as ids of query and span: `query/span`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimated cost of plans in place of the calls of the queries. Nothing was run."""

    queries: int
    """Number of queries whose costs are all known. The amounts are about these queries."""
    left_out: int
    """Number of queries with an unknown cost, which are left out."""
    actual: float
    """The actual cost of the calls, in USD."""
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Counts of records in the export that make the report uncertain."""

    duplicates: int
    """Number of repeated records of spans. They are not counted twice."""
    wrappers: int
    """Number of calls that are not counted: calls around other calls, and calls without tokens inside a
    call."""
    orphans: int
    """Number of spans whose parent span is not in the export: the parent never ended, or was not exported."""
    backwards: int
    """Number of spans that end before they start."""
    early: int
    """Number of spans that start before the span around them, because clocks differ."""
    without_prompt: int
    """Number of calls without a prompt in the export. Their repeats and loops cannot be found."""
    tiers: dict[str, int]
    """Number of calls by service tier, for tiers whose prices differ from standard prices."""


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
    """The ten most expensive queries."""
    models: tuple[NamedAmounts, ...]
    """Failures and loops by kind, the highest cost first."""
    steps: tuple[NamedAmounts, ...]
    findings: tuple[FindingRow, ...]
    wasted: float
    """The cost of all findings in USD. A call with several findings counts once, with the largest cost."""
    errors: dict[str, int]
    """Number of failed model calls and tool calls by error, the most frequent first."""
    estimate: Estimate
    doubts: Doubts

    @property
    def bad_rows(self) -> int:
        """Number of rows of all sources that could not be read."""
        return sum(source.bad_rows for source in self.sources)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values, unrounded."""
        return asdict(self)
