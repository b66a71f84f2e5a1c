"""Prices and context windows of models of known providers."""

import pytest

from podium import Card, ChatWorker, Conductor, Endpoint, Limits, Plan, Price, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner
from podium.usage import Usage
from podium.workers import FREE, PriceTier

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"


def _card(url: str, model: str, card: Card | None = None) -> Card:
    return ChatWorker(model, endpoint=Endpoint(url), card=card).card


def test_a_known_provider_fills_in_what_the_card_leaves_out() -> None:
    card = _card(OPENAI.upper(), "gpt-5", Card(name="gpt", labels=frozenset({"us"})))
    assert (card.price, card.context_window) == (Price(input=1.25, output=10.0, cached_input=0.125), 400_000)
    assert card.price_source.startswith("genai-prices 0.")
    assert (card.context_window_source, card.name, card.labels) == (card.price_source, "gpt", {"us"})


def test_the_card_comes_first() -> None:
    priced = _card(OPENAI, "gpt-5", Card(name="gpt", price=FREE))
    assert (priced.price, priced.price_source, priced.context_window) == (FREE, "", 400_000)
    sized = _card(OPENAI, "gpt-5", Card(name="gpt", context_window=1000))
    assert (sized.context_window, sized.context_window_source) == (1000, "")
    assert sized.price is not None


ELSEWHERE = ("http://[::1]:8000/v1", "http://gpu-server/v1", f"https://proxy.example.com/{OPENAI}")
ELSEWHERE += ("https://api.openai.com.example.com/v1", "https://notapi.openai.com.example/v1")


@pytest.mark.parametrize("url", ELSEWHERE)
def test_a_model_s_name_alone_says_nothing(url: str) -> None:
    """Whoever serves a model of that name elsewhere asks what they like for it."""
    card = _card(url, "gpt-5")
    assert (card.price, card.context_window, card.price_source) == (None, None, "")


def test_unknown_models_of_known_providers_stay_unknown() -> None:
    """Their price is `None`, which no cost limit takes for free."""
    assert _card(OPENAI, "no-such-model").price is None
    worker = ChatWorker("no-such-model", endpoint=Endpoint(OPENAI))
    with pytest.raises(ConfigError, match="no-such-model"):
        Conductor(FixedPlanner(Plan((Step(0, "go"),))), [worker], limits=Limits(cost=1.0)).run_sync("What?")


def test_long_prompts_have_their_own_price() -> None:
    price = _card(ANTHROPIC, "claude-sonnet-4-5").price
    dear = Price(input=6.0, output=22.5, cached_input=0.6)
    cheap = Price(input=3.0, output=15.0, cached_input=0.3, tiers=(PriceTier(above=200_000, price=dear),))
    assert (price, cheap.cost(Usage(200_000, 1000))) == (cheap, pytest.approx(0.615))
    assert cheap.cost(Usage(200_001, 1000)) == pytest.approx(1.222506)
    assert cheap.cost(Usage(300_000, 1000, cached_tokens=100_000)) == pytest.approx(1.2825)
    assert cheap.most(200_000, 1000) == pytest.approx(0.615)
    assert cheap.most(200_001, 1000) == pytest.approx(1.222506)
