"""Prices of LlamaIndex's LLMs, by the URL of their endpoint."""

import pytest
from contracts.known_prices import MODEL, OPENAI, check_planner, check_prices
from llama_index.llms.openai import OpenAI, OpenAIResponses
from llama_index.llms.openai_like import OpenAILike

from llama_index_podium import as_planner, as_worker
from podium.workers import Card, Worker


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_an_llm_has_the_price_of_its_endpoint() -> None:
    """As a worker and as a planner; its own name alone says nothing."""

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(OpenAI(model=MODEL, api_base=url, api_key="k"), card=card)

    check_prices(make)
    check_planner(as_planner(OpenAI(model=MODEL, api_key="k")))
    priced = as_worker(OpenAI(model=MODEL, api_key="k")).card
    assert as_worker(OpenAIResponses(model=MODEL, api_key="k")).card.price == priced.price
    like = as_worker(OpenAILike(model=MODEL, api_base=OPENAI, api_key="k")).card
    assert (like.price, like.price_source) == (priced.price, priced.price_source)
    assert like.context_window_source == priced.price_source
