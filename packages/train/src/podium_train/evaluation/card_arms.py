"""Arms that read nothing but the cards, for environments whose workers answer whole questions."""

from collections.abc import Sequence
from random import Random

from podium.types import Plan, Step
from podium.workers import Card
from podium_evals.arms import ASK
from podium_train.environments import Episode
from podium_train.evaluation.arm import PlanArm, plan_arm


def card_arms() -> list[PlanArm]:
    """Return a random worker, the best card for the kind of the question, and the cheapest worker.

    Each asks one worker the whole question. The best card is the one with the highest measured rate on the
    kind, or on all kinds without a rate on it; without rates it is the first.
    """
    return [
        plan_arm("random worker", _random),
        plan_arm("best card", lambda episode: _one(best_card(_models(episode), episode.kind))),
        plan_arm("cheapest", lambda episode: _one(_cheapest(_models(episode)))),
    ]


def best_card(cards: Sequence[Card], kind: str) -> int:
    """Return the place of the card with the highest rate on a kind; of equal ones the best on all kinds."""
    return best_cards(cards, kind)[0]


def best_cards(cards: Sequence[Card], kind: str) -> list[int]:
    """Return the places of the cards, the one with the highest rate on a kind first."""

    def rank(place: int) -> tuple[float, float]:
        rates = cards[place].measured
        mean = sum(rate.rate for rate in rates) / len(rates) if rates else 0.0
        on_kind = next((rate.rate for rate in rates if rate.kind.name == kind), mean)
        return on_kind, mean

    return sorted(range(len(cards)), key=rank, reverse=True)


def _models(episode: Episode) -> Sequence[Card]:
    """Return the cards of the workers that read prose; they come first."""
    return episode.cards[: len(episode.cards) - len(episode.fills)]


def _random(episode: Episode) -> Plan:
    return _one(Random(episode.key).randrange(len(_models(episode))))


def _cheapest(cards: Sequence[Card]) -> int:
    prices = [float("inf") if card.price is None else card.price.output for card in cards]
    return prices.index(min(prices))


def _one(worker: int) -> Plan:
    return Plan((Step(worker, ASK),))
