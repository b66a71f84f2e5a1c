"""Checks that each adapter looks up the price of a model by the URL of its endpoint."""

from typing import Protocol

from podium import Card, ChatWorker, Endpoint
from podium.planners import Planner
from podium.workers import FREE, Worker

MODEL = "gpt-5"
"""A model whose price is in the installed data. No test calls it."""
OPENAI = "https://api.openai.com/v1"


class MakeWorker(Protocol):
    """Makes a worker from a model of a host."""

    def __call__(self, url: str | None, /, *, card: Card | None = None) -> Worker:
        """Return a worker with `MODEL` at a URL (default: the URL of its class), with a card if given."""


def check_prices(make: MakeWorker) -> None:
    """Check that prices and windows are looked up by the URL, and that the card takes precedence."""
    known = ChatWorker(MODEL, endpoint=Endpoint(OPENAI)).card
    assert known.price is not None
    for url in (None, OPENAI):
        found = make(url).card
        assert (found.price, found.price_source) == (known.price, known.price_source)
        assert found.context_window is not None
    sized = make(None, card=Card(name="mine", context_window=1000)).card
    assert (sized.price, sized.context_window, sized.context_window_source) == (known.price, 1000, "")
    priced = make(None, card=Card(name="mine", price=FREE)).card
    assert (priced.price, priced.price_source, priced.context_window) == (FREE, "", known.context_window)
    assert priced.context_window_source == known.context_window_source
    for url in ("http://127.0.0.1:8000/v1", "https://models.example.com/v1"):
        assert make(url, card=Card(name="mine")).card == Card(name="mine")
        assert make(url).card.price is None


def check_planner(planner: Planner) -> None:
    """Check that a planner with `MODEL` at the default URL of its class has the known price."""
    assert planner.worker.card.price == ChatWorker(MODEL, endpoint=Endpoint(OPENAI)).card.price
