"""The models of an endpoint, with prices and context windows of known models."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.providers import PROVIDERS
from podium.workers.worker import Card, Price, PriceTier

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider as DataProvider, TieredPrices


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The known facts about a model of a provider."""

    price: Price | None
    """`None` if it is unknown, or depends on more than tokens."""
    context_window: int | None
    """In tokens; `None` if it is unknown."""
    is_deprecated: bool
    """Whether its provider has deprecated it."""
    source: str
    """The package and its version."""


def with_known_facts(card: Card, base_url: str, model: str) -> Card:
    """Return a card with the known price and context window of a model in place of missing values."""
    if card.price is not None and card.context_window is not None:
        return card
    known = look_up_model(base_url, model)
    if known is None:
        return card
    if card.price is None and known.price is not None:
        card = replace(card, price=known.price, price_source=known.source)
    if card.context_window is None and known.context_window is not None:
        card = replace(card, context_window=known.context_window, context_window_source=known.source)
    return card


@lru_cache(maxsize=1024)
def look_up_model(base_url: str, model: str) -> KnownModel | None:
    """Return the known facts about a model of an endpoint; `None` if the URL or the model is unknown."""
    url = base_url.lower()
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # an invalid URL
        return None
    if not _is_public(host):
        return None
    import genai_prices  # noqa: PLC0415  (slow, and only some processes need it)
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    try:
        provider, info = get_snapshot().find_provider_model(model, None, None, url)
    except LookupError:
        return None
    if not _is_told_by_host(provider.api_pattern, url, host):
        return None
    price = _price(info, caches=_caches_unasked(provider))
    source = f"genai-prices {genai_prices.__version__}"
    return KnownModel(price, info.context_window, bool(info.deprecated), source)


def _is_public(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return "." in host
    return False


def _is_told_by_host(pattern: str, url: str, host: str) -> bool:
    """Return whether a pattern matches the whole host of a URL, not just its path or the host's start."""
    found = re.match(pattern, url)
    elsewhere = url.replace(host, "host.invalid", 1)
    if found is None or re.match(pattern, elsewhere):
        return False
    rest = url[found.end() :]
    return found.group().endswith(("/", ".")) or not rest or rest[0] in "/:"


def _caches_unasked(provider: "DataProvider") -> bool:
    """Return whether a provider, or the original provider of its models, caches every prompt by default."""
    names = (provider.id, *(provider.fallback_model_providers or ()))
    return any(name in PROVIDERS and PROVIDERS[name].caches_unasked for name in names)


def _price(info: "ModelInfo", *, caches: bool) -> Price | None:
    """Return the highest prices of the day; `None` if the cost depends on more than tokens."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    now = datetime.now(UTC)
    times = (now, *(midnight + timedelta(hours=hour) for hour in range(24)))
    lists = [info.get_prices(time) for time in times]
    if any(each.input_mtok is None or each.output_mtok is None or each.requests_kcount for each in lists):
        return None
    starts = sorted({start for each in lists for start in _starts(each)})
    tiers = tuple(PriceTier(above=start, price=_dearest(lists, start + 1, caches=caches)) for start in starts)
    return replace(_dearest(lists, 0, caches=caches), tiers=tiers)


def _starts(prices: "ModelPrice") -> list[int]:
    """Return the numbers of input tokens above which another price applies."""
    tiered = (getattr(prices, name) for name in ("input_mtok", "output_mtok", "cache_read_mtok"))
    return [tier.start for price in tiered for tier in getattr(price, "tiers", ())]


def _dearest(lists: "list[ModelPrice]", tokens: int, *, caches: bool) -> Price:
    """Return the highest price of each kind for a call with so many input tokens."""

    def highest(name: str) -> float | None:
        found = [_at(price, tokens) for each in lists if (price := getattr(each, name)) is not None]
        return max(found, default=None)

    read, written, cached = highest("input_mtok"), highest("output_mtok"), highest("cache_read_mtok")
    assert read is not None
    assert written is not None
    if caches:  # the provider writes every prompt to its cache
        read = max(read, highest("cache_write_mtok") or 0.0)
    if any(each.cache_read_mtok is None for each in lists):
        cached = None
    return Price(input=read, output=written, cached_input=cached)


def _at(price: "Decimal | TieredPrices", tokens: int) -> float:
    """Return a price in USD per million tokens, for a call with so many input tokens."""
    if isinstance(price, Decimal):
        return float(price)
    reached = [tier.price for tier in price.tiers if tokens > tier.start]
    return float(reached[-1] if reached else price.base)


_NO_CHAT = re.compile(
    "(?<![a-z])(?:embed|audio|realtime|speech|tts|whisper|transcri|translat|image|dall-e|banana|"
    "sora|video|veo|imagen|lyria|music|live|robotics|moderation|guard|rerank|search|research|computer-use|instruct|davinci|"
    "babbage|aqa|preview|exp|codex|cyber|decision|ft:)"
)
"""Words in the names of models that are not for chat, are specialized, or are previews."""
_SMALL = re.compile("(?<![a-z])(?:mini|nano|micro|lite|small|tiny|gemma|oss)")
"""Words in the names of small models of a family."""
_NUMBER = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d+)?(?![\d.])")
"""A version number in a name; longer numbers are dates."""
_NO_TEXT = re.compile(
    "(?<![a-z])(?:embed|bge-|e5-|rerank|whisper|transcri|tts|speech|audio|dall-e|stable-diffusion|flux|moderation|guard)"
)
"""Words in the names of models that do not write text."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?)b(?![a-z0-9])")


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model in the list of an endpoint."""

    name: str
    created: float
    """In seconds since 1970; 0 if the endpoint does not report it."""
    owner: str = ""
    """Its `owned_by`; empty if the endpoint does not report it."""
    context_window: int | None = None
    """In tokens, as vLLM reports it; `None` if the endpoint does not report it."""

    @property
    def size(self) -> float:
        """The billions of parameters in its name, as in `qwen2.5-7b`; 0 if the name has none."""
        return max(map(float, _SIZE.findall(self.name.lower())), default=0.0)


async def list_models(endpoint: Endpoint, *, deadline: float | None = None) -> list[ListedModel]:
    """Return the models that an endpoint lists."""
    raw = await endpoint.ask("/models", deadline=deadline)
    rows = raw.get("data")
    return [model for row in rows if (model := _read(row))] if isinstance(rows, list) else []


def choose_model(models: Iterable[ListedModel], base_url: str) -> str | None:
    """Return the newest general chat model, by date or version; a small one only without another."""
    chat = [model for model in models if not _NO_CHAT.search(model.name.lower())]
    current = [model for model in chat if not _is_deprecated(base_url, model.name)]
    large = [model for model in current if not _SMALL.search(model.name.lower())]
    return max(large or current, key=_newness).name if current else None


def rank_models(models: Iterable[ListedModel]) -> list[ListedModel]:
    """Return the models of a server that write text, by size (largest first) and age (newest first)."""
    chat = [model for model in models if not _NO_TEXT.search(model.name.lower())]
    return sorted(
        chat, key=lambda model: (-model.size, bool(_SMALL.search(model.name.lower())), -model.created)
    )


def _newness(model: ListedModel) -> tuple[float, list[float], int, str]:
    versions = [float(number) for number in _NUMBER.findall(model.name)]
    return model.created, versions, -len(model.name), model.name


def _is_deprecated(base_url: str, name: str) -> bool:
    known = look_up_model(base_url, name)
    return known is not None and known.is_deprecated


def _read(row: object) -> ListedModel | None:
    """Return a model of the list; `None` if its name is not text that a file can have."""
    if not isinstance(row, Mapping):
        return None
    name = row.get("id")
    if not isinstance(name, str) or not name or not name.isprintable() or any(c in name for c in '"\\\0'):
        return None
    owner, window = row.get("owned_by"), row.get("max_model_len")
    return ListedModel(
        name.removeprefix("models/"),
        _created(row),
        owner if isinstance(owner, str) else "",
        window if type(window) is int and window > 0 else None,
    )


def _created(row: Mapping[str, object]) -> float:
    number, text = row.get("created"), row.get("created_at")
    if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 2**53:
        return float(number)
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0
