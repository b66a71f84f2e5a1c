"""Prices of model clients of AutoGen and Agent Framework, by the URL of their endpoint."""

from typing import Any

import pytest
from autogen.speaking import SpeakingClient
from autogen_ext.models.openai import OpenAIChatCompletionClient
from contracts.known_prices import MODEL, OPENAI, check_planner, check_prices

from autogen_podium import as_planner, as_worker
from autogen_podium.agent_framework import (
    as_planner as framework_planner,
    as_worker as framework_worker,
)
from podium.workers import Card, Worker


def _client(url: str | None = None) -> OpenAIChatCompletionClient:
    options: Any = {} if url is None else {"base_url": url}
    return OpenAIChatCompletionClient(model=MODEL, api_key="k", **options)


def test_a_model_client_has_the_price_of_its_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a worker and as a planner; its own name alone says nothing."""
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return as_worker(_client(url), card=card)

    check_prices(make)
    check_planner(as_planner(_client()))


class _Client(SpeakingClient):
    """A chat client that says where its service is, as those of Agent Framework's providers do."""

    def __init__(self, url: str | None = OPENAI) -> None:
        super().__init__(lambda *_: "")
        self.model = MODEL
        self._url = url

    def service_url(self) -> str:
        return self._url or OPENAI


def test_a_chat_client_of_agent_framework_has_the_price_of_its_service() -> None:
    """As a worker and as a planner; one that does not say its service has none."""

    def make(url: str | None, /, *, card: Card | None = None) -> Worker:
        return framework_worker(_Client(url), card=card)

    check_prices(make)
    check_planner(framework_planner(_Client()))
    assert framework_worker(SpeakingClient(lambda *_: "")).card.price is None
