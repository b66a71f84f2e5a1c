"""Estimates what runs cost, for keys with a budget."""

from math import ceil
from typing import Literal

from podium.conductor import Conductor
from podium.workers import Card
from podium_server.keys.account import BILLION

_PROMPT_TOKENS = 3000
"""Tokens that a prompt has beside the texts of the request."""
_PLANNER_TOKENS = 2000
"""Fewest tokens that are reserved for the prompt of a planner."""
_ANSWER_TOKENS = 64
"""Tokens of the shortest answer that is reserved."""
_CALLS = 2
"""How often a usual run calls its planner and each worker."""


def least_cost(conductor: Conductor, tokens: int, first: Literal["planner", "worker"]) -> int:
    """Return what the first call of a run costs at least, in billionths of a dollar.

    Args:
        conductor: the conductor of the run.
        tokens: the tokens of the request.
        first: what the run calls first.
    """
    planner = conductor.planner.card if first == "planner" else None
    read = tokens + (_PLANNER_TOKENS if planner is not None else 0)
    cards = conductor.pool.cards if planner is None else [planner]
    costs = [card.most(read, _ANSWER_TOKENS) or 0.0 for card in cards]
    return ceil(min(costs) * BILLION)


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
    costs = [card.most(read, limits.answer_tokens) for card in cards]
    known = [(limits.unpriced or 0.0) if cost is None else cost for cost in costs]
    return ceil(_CALLS * sum(known) * BILLION)
