"""The presets `mini` and `ultra`: how their conductors differ from the conductor of the config."""

from collections.abc import Mapping, Sequence
from statistics import median

from podium.config import Config
from podium_server.settings import Effort, EffortSection, Preset

LIMITS: Mapping[Preset, Mapping[str, float]] = {
    "mini": {"plan_steps": 2, "rounds": 1},
    "ultra": {"rounds": 3},
}
"""Limits of each preset."""
EFFORTS: Mapping[Preset, Mapping[Effort, EffortSection]] = {
    "mini": {},
    "ultra": {
        "low": EffortSection(rounds=1),
        "medium": EffortSection(rounds=2),
        "high": EffortSection(rounds=3),
    },
}
DESCRIPTIONS: Mapping[Preset, str] = {
    "mini": "Short plans with cheap workers; a simple question goes to one worker, the strongest of them.",
    "ultra": "Plans with all workers; each answer is checked, and improved in further rounds.",
}


def cheap_workers(config: Config) -> Sequence[str]:
    """Return the names of the workers whose price is not above the median; all, if no price is known.

    Workers of unknown price are left out, if others have a price.
    """
    prices = _prices(config, config.worker_names)
    paid = [price for price in prices.values() if price > 0]
    if not prices:
        return config.worker_names
    most = median(paid) if paid else 0.0
    return [name for name in config.worker_names if name in prices and prices[name] <= most]


def strongest_worker(config: Config, names: Sequence[str]) -> str | None:
    """Return the name of the model with the highest price, of these workers; `None` if no price is known."""
    prices = _prices(config, [name for name in names if name in config.chat_names])
    return max(prices, key=lambda name: prices[name], default=None)


def _prices(config: Config, names: Sequence[str]) -> dict[str, float]:
    """Return the known prices of workers: of a million tokens read and a million written."""
    prices: dict[str, float] = {}
    for name in names:
        known = [worker.card.price for worker in config.workers(name) if worker.card.price is not None]
        if known:
            prices[name] = max(price.input + price.output for price in known)
    return prices
