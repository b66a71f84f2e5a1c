"""Prices of CrewAI's LLMs, by the URL of their endpoint."""

import pytest
from contracts.known_prices import MODEL, check_prices
from crewai import LLM

from crewai_podium import as_worker
from podium.workers import Card, Worker


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "DEEPSEEK_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_an_llm_has_the_price_of_its_endpoint() -> None:
    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(LLM(model=f"openai/{MODEL}", base_url=url, api_key="k"), card=card)

    check_prices(make)
    assert as_worker(LLM(model="deepseek/deepseek-chat", api_key="k")).card.price_source
