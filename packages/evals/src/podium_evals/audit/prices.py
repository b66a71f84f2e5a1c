"""Looks up prices of models on a day: first in the user's own table, then in the data of genai-prices.

These are the list prices of providers. `podium.workers.look_up_model` returns the highest price instead,
because budgets need an upper limit. Nothing is downloaded.
"""

from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import TYPE_CHECKING

from podium.usage import Usage
from podium_evals.recorded.prices import PriceTable

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

_PROVIDERS = {
    "azure_openai": "azure",
    "azure.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "az.ai.openai": "azure",
    "az.ai.inference": "azure",
    "gcp.gemini": "google",
    "gcp.vertex_ai": "google",
    "gcp.gen_ai": "google",
    "google_genai": "google",
    "google_vertexai": "google",
    "google_anthropic_vertex": "google",
    "vertexai": "google",
    "aws.bedrock": "aws",
    "amazon_bedrock": "aws",
    "bedrock": "aws",
    "x_ai": "x-ai",
    "xai": "x-ai",
    "mistral_ai": "mistral",
    "mistralai": "mistral",
    "together_ai": "together",
}
"""The names of providers in genai-prices, by their names in traces."""


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

    def cost(
        self, model: str, usage: Usage, *, provider: str = "", base_url: str = "", cache_writes: int = 0
    ) -> float | None:
        """Return the cost of a call in USD; `None` if the price is unknown.

        Args:
            model: the name of the model in the export.
            usage: the tokens of the call.
            provider: the name of the provider in the export; empty if it is unknown.
            base_url: the URL or host of the endpoint; empty if it is unknown.
            cache_writes: the part of the input tokens that was written to a cache.
        """
        if self._table is not None and (own := self._table.at(model, self.on)) is not None:
            return own.price.cost(usage)
        info = self._info(model, provider, base_url) if model else None
        return None if info is None else _cost(info, usage, cache_writes, self._noon)

    @property
    def _noon(self) -> datetime:
        """Noon, because some prices depend on the time of day."""
        return datetime.combine(self.on, time(12), UTC)

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


def _cost(info: "ModelInfo", usage: Usage, cache_writes: int, at: datetime) -> float | None:
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
