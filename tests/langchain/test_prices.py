"""Prices of LangChain's chat models, by the URL of their endpoint."""

import pytest
from contracts.known_prices import MODEL, OPENAI, check_planner, check_prices
from langchain_core.runnables import ConfigurableField
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from pydantic import SecretStr

from langchain_podium import as_planner, as_worker
from podium.workers import Card, ChatWorker, Endpoint, Worker

KEY = SecretStr("k")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def _model(url: str | None = None) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=url, api_key=KEY)


def test_a_chat_model_has_the_price_of_its_endpoint() -> None:
    """As a worker and as a planner; its own name alone says nothing."""

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(_model(url), card=card)

    check_prices(make)
    check_planner(as_planner(_model()))


def test_the_model_that_is_called_is_looked_up() -> None:
    """A bound name counts; a model that another may stand in for has no price."""
    bound = as_worker(_model().bind(model="gpt-5-mini")).card
    assert bound.price == ChatWorker("gpt-5-mini", endpoint=Endpoint(OPENAI)).card.price
    assert as_worker(_model().with_retry()).card.price == as_worker(_model()).card.price
    assert as_worker(_model().with_fallbacks([_model()])).card.price is None
    field = ConfigurableField(id="model")
    assert as_worker(_model().configurable_fields(model_name=field)).card.price is None


def test_a_model_on_azure_has_azures_price() -> None:
    """Its endpoint is a resource of one's own, whose host tells the provider."""
    url = "https://mine.openai.azure.com"
    model = AzureChatOpenAI(
        azure_endpoint=url, azure_deployment="d", api_version="2025-01-01", api_key=KEY, model=MODEL
    )
    known = ChatWorker(MODEL, endpoint=Endpoint(url)).card
    assert known.price is not None
    assert as_worker(model).card.price == known.price
