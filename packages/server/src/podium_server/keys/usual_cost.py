"""Estimates the maximum cost of a usual run, for keys with a budget whose runs have no limit of their own."""

from math import ceil

from podium.conductor import Conductor
from podium.workers import Card
from podium_server.keys.account import BILLION

_PROMPT_TOKENS = 3000
"""Tokens that a prompt has beside the texts of the request."""
_CALLS = 2
"""How often a usual run calls its planner and each worker."""


def usual_cost(conductor: Conductor, tokens: int) -> int:
    """Return the maximum cost of a usual run, in billionths of a dollar.

    A usual run calls its planner and each of its workers twice. A run that needs more ends with an error.

    Args:
        conductor: the conductor of the run.
        tokens: the tokens of the request.
    """
    limits, planner = conductor.limits, conductor.planner.card
    cards: list[Card] = [*conductor.pool.cards, *([] if planner is None else [planner])]
    read = tokens + _PROMPT_TOKENS + limits.answer_tokens
    unknown = limits.unpriced or 0.0
    costs = [unknown if card.price is None else card.price.most(read, limits.answer_tokens) for card in cards]
    return ceil(_CALLS * sum(costs) * BILLION)
