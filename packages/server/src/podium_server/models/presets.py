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
    "mini": "Short plans with cheap workers; a simple question goes to one worker.",
    "ultra": "Plans with all workers; each answer is checked, and improved in further rounds.",
}


def cheap_workers(config: Config) -> Sequence[str]:
    """Return the names of the workers whose price is not above the median; all, if no price is known.

    The price is the price of a million tokens read and a million written. Workers of unknown price are left
    out, if others have a price.
    """
    prices: dict[str, float] = {}
    for name in config.worker_names:
        known = [worker.card.price for worker in config.workers(name) if worker.card.price is not None]
        if known:
            prices[name] = max(price.input + price.output for price in known)
    paid = [price for price in prices.values() if price > 0]
    if not prices:
        return config.worker_names
    most = median(paid) if paid else 0.0
    return [name for name in config.worker_names if name in prices and prices[name] <= most]
