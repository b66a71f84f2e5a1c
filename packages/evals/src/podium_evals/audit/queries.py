"""The common form of records in exports, and the model calls of a query with their costs.

A span is a model call, a tool call or another step of a query. It stores digests of its prompt and answer,
not the texts, so that spans are small.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, Self

from podium.usage import Usage
from podium_evals.recorded.recordings import PriceTable

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo


Kind = Literal["call", "tool", "agent", "step"]
DIGEST_BYTES = 8
"""Length of the digest of one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A model call, a tool call, an agent or another step of a query."""

    trace: str
    """The id of the query."""
    id: str
    """The id of the span, unique in its query."""
    parent: str = ""
    """The id of the parent span; empty for the outermost span."""
    continues: str = ""
    """In exports without query ids: the id of the call whose conversation this call continues."""
    name: str = ""
    kind: Kind = "step"
    step: str = ""
    """The name of the call's step, if the export has it."""
    started: float | None = None
    """Unix time in seconds; `None` if it is unknown."""
    ended: float | None = None
    is_open: bool = False
    """Whether the export has no end of this span."""
    model: str = ""
    provider: str = ""
    base_url: str = ""
    tier: str = ""
    """The service tier, such as `flex`, whose prices differ from standard prices; empty for standard."""
    usage: Usage | None = None
    """`None` if the export has no token counts."""
    cache_writes: int = 0
    """The part of the input tokens that was written to a cache."""
    cost: float | None = None
    """The cost in the export, in USD."""
    error: str = ""
    """The type or code of the error; empty if there was no error."""
    error_text: str = ""
    """The first line of the error, without secrets."""
    finish: str = ""
    """Why the model stopped: `stop`, `length`, `content_filter`, `tool_calls`; empty if it is unknown."""
    prompt: str = ""
    """The digests of the prompt's messages in order, in hex; empty if the export has no prompts."""
    question: str = ""
    """The beginning of the user's last message, without secrets."""
    answer: str = ""
    """The digest of the answer in hex; empty if the export has no answers."""
    is_empty: bool = False
    """Whether the answer has neither text nor tool calls."""
    is_refusal: bool = False

    @property
    def seconds(self) -> float | None:
        """The duration; `None` if it is unknown, or if the end is before the start."""
        if self.started is None or self.ended is None or self.ended < self.started:
            return None
        return self.ended - self.started

    @property
    def messages(self) -> tuple[str, ...]:
        """The digests of the prompt's messages."""
        length = 2 * DIGEST_BYTES
        return tuple(self.prompt[at : at + length] for at in range(0, len(self.prompt), length))

    def merged(self, other: Self) -> Self:
        """Return this span, completed by another record of it. A record with an end takes precedence."""
        first, second = (other, self) if self.is_open else (self, other)
        facts = {}
        for each in fields(self):
            value = getattr(first, each.name)
            facts[each.name] = getattr(second, each.name) if value == each.default else value
        return type(self)(**facts | {"is_open": self.is_open and other.is_open})


_ALIASES = {
    "aws": "aws.bedrock amazon_bedrock bedrock",
    "azure": "azure_openai azure.ai.openai azure.ai.inference az.ai.openai az.ai.inference",
    "google": "gcp.gemini gcp.vertex_ai gcp.gen_ai google_genai google_vertexai "
    "google_anthropic_vertex vertexai",
    "mistral": "mistral_ai mistralai",
    "together": "together_ai",
    "x-ai": "x_ai xai",
}
"""The names of providers in traces, by their names in genai-prices."""
_PROVIDERS = {name: provider for provider, names in _ALIASES.items() for name in names.split()}


class Prices:
    """The prices of models on a day.

    Args:
        table: the user's own prices, by the name of the model; they take precedence.
        on: the day; `None` for today, in UTC.
    """

    def __init__(self, table: PriceTable | None = None, on: date | None = None) -> None:
        self._table = table
        self.on = on or datetime.now(UTC).date()
        self._info = lru_cache(maxsize=4096)(self._find)

    @property
    def source(self) -> str:
        """The source of the prices, and their day."""
        import genai_prices  # noqa: PLC0415  (slow; the help does not need it)

        own = "" if self._table is None else "your table, then "
        return f"{own}genai-prices {genai_prices.__version__}, on {self.on.isoformat()}"

    def cost(self, span: Span) -> float | None:
        """Return the cost of a call in USD; `None` if its tokens or its price are unknown."""
        if span.usage is None:
            return None
        if self._table is not None and (own := self._table.at(span.model, self.on)) is not None:
            return own.price.cost(span.usage)
        info = self._info(span.model, span.provider, span.base_url) if span.model else None
        noon = datetime.combine(self.on, time(12), UTC)  # some prices depend on the time of day
        return None if info is None else _list_cost(info, span.usage, span.cache_writes, noon)

    @staticmethod
    def _find(model: str, provider: str, base_url: str) -> "ModelInfo | None":
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415  (as above)

        snapshot = get_snapshot()
        if "://" in base_url:
            try:
                return snapshot.find_provider_model(model, None, None, base_url.lower())[1]
            except LookupError:
                pass  # the URL may be a company's gateway, so the provider's name says more
        name = provider.lower().replace(" ", "_")
        known = {each.id for each in snapshot.providers}
        found = name if name in known else _PROVIDERS.get(name)
        if name and found is None:
            return None
        try:
            return snapshot.find_provider_model(model, None, found, None)[1]
        except LookupError:
            return None


def _list_cost(info: "ModelInfo", usage: Usage, cache_writes: int, at: datetime) -> float | None:
    from genai_prices import Usage as PricedUsage  # noqa: PLC0415  (as above)

    prices = info.get_prices(at)
    if prices.input_mtok is None or prices.requests_kcount is not None:
        return None
    if prices.output_mtok is None and usage.total_output_tokens:
        return None
    read = usage.total_input_tokens
    cached = min(usage.total_cached_tokens, read)
    priced = PricedUsage(
        input_tokens=read,
        output_tokens=usage.total_output_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=min(cache_writes, read - cached),
    )
    return float(prices.calc_price(priced)["total_price"])


CostSource = Literal["prices", "export", "none", "unknown"]
_WRAPPERS = "Runnable"
"""Beginnings of the names of LangChain classes that only compose steps."""


@dataclass(frozen=True, slots=True)
class Call:
    """A model call with its cost."""

    span: Span
    step: str
    """The name of the call's step: as in the export, else the name of the span around the call, else of its
    own span."""
    agent: str
    """The id of the agent that made the call; empty if there is none."""
    cost: float | None
    """The cost in USD; `None` if it is unknown."""
    cost_source: CostSource
    """Where the cost is from. `prices`: tokens times prices; `export`: the cost in the export, because no
    price is known; `none`: the call failed without tokens, and counts as not billed; `unknown`: the price or
    the tokens are unknown."""

    @property
    def usage(self) -> Usage:
        """The tokens of the call; zero if they are unknown."""
        return self.span.usage or Usage()


class Query:
    """The spans of one query."""

    def __init__(self, spans: Sequence[Span], prices: Prices) -> None:
        self.id = spans[0].trace
        self.spans = sorted(spans, key=lambda span: (span.started or 0.0, len(span.prompt), span.id))
        self._by_id = {span.id: span for span in spans}
        counted, self.wrappers = self._counted()
        self.calls = tuple(self._call(span, prices) for span in counted)
        """The model calls in order of their start. A call that contains other calls is left out."""

    @cached_property
    def question(self) -> str:
        """An excerpt of the question, from the outermost span, else from the first call."""
        asked = [span for span in self.spans if span.question]
        roots = [span for span in asked if span.parent not in self._by_id]
        return next((span.question for span in (*roots, *asked)), "")

    @cached_property
    def cost(self) -> float | None:
        """The sum of all known costs; `None` if no cost is known."""
        known = [call.cost for call in self.calls if call.cost is not None]
        return sum(known) if known or not self.calls else None

    @cached_property
    def seconds(self) -> float | None:
        """The duration of the outermost span; without such a span, from the first start to the last end."""
        roots = [span for span in self.spans if span.parent not in self._by_id]
        if len(roots) == 1 and roots[0].seconds is not None:
            return roots[0].seconds
        timed = [span for span in self.spans if span.seconds is not None]
        if not timed:
            return None
        return max(span.ended or 0.0 for span in timed) - min(span.started or 0.0 for span in timed)

    def _counted(self) -> tuple[list[Span], int]:
        """Return the spans that count as calls, and the number of model calls that do not count."""
        billed = [span for span in self.spans if span.kind == "call" or span.usage is not None]
        bearing = {span.id for span in billed if span.usage is not None or span.cost is not None}
        inside = {outer.id for span in billed if span.id in bearing for outer in self._around(span)}
        called = [span for span in billed if span.id not in inside]
        left = [span for span in billed if span.id in inside and span.kind == "call"]
        # A call inside a counted call does not count: the outer call has the tokens.
        counted = {span.id for span in called if span.id in bearing}
        inner = {span.id for span in called if any(outer.id in counted for outer in self._around(span))}
        return [span for span in called if span.id not in inner], len(left) + len(inner)

    def _around(self, span: Span) -> list[Span]:
        """Return the spans around a span, the nearest first; no span if the parents form a cycle."""
        found: dict[str, Span] = {}
        outer = self._by_id.get(span.parent)
        while outer is not None and outer.id not in found:
            if outer.id == span.id:
                return []
            found[outer.id] = outer
            outer = self._by_id.get(outer.parent)
        return list(found.values())

    def _call(self, span: Span, prices: Prices) -> Call:
        around = self._around(span)
        agent = next((outer.id for outer in around if outer.kind == "agent"), "")
        named = (outer.name for outer in around if outer.name and not outer.name.startswith(_WRAPPERS))
        cost, source = _cost(span, prices)
        return Call(span, span.step or next(named, "") or span.name or "(no name)", agent, cost, source)


def _cost(span: Span, prices: Prices) -> tuple[float | None, CostSource]:
    if (found := prices.cost(span)) is not None:
        return found, "prices"
    if span.cost is not None:
        return span.cost, "export"
    return (0.0, "none") if span.error and span.usage is None else (None, "unknown")
