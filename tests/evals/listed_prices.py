"""Prices of three of the workers in the recordings of tests."""

from datetime import date

from podium.workers import Price
from podium_evals.recorded import DatedPrice, PriceTable

_LISTED = {
    "google_gemma-3-27b-it": (0.1, 0.2, date(2026, 10, 19)),
    "anthropic_claude-sonnet-4": (3.0, 15.0, date(2026, 11, 10)),
    "meta-llama_llama-3.3-70b-instruct": (0.1, 0.3, date(2026, 11, 10)),
    "openai_o3-mini": (1.1, 4.4, date(2026, 11, 10)),
}
LISTED = PriceTable(
    DatedPrice(worker=worker, as_of=day, price=Price(input=read, output=written), source="a list")
    for worker, (read, written, day) in _LISTED.items()
)
