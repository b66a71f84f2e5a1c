"""Finds the worker whose card fits a part of a question best.

Arithmetic goes to a calculator. A part of a measured kind goes to the worker with the best measured rate. For
any other part, the type of task and common words decide.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from podium.plan_text.stemming import words
from podium.planners.kind_matcher import kind_of, measured_kinds, rate_on
from podium.workers.offline import calculator, gather
from podium.workers.offline.expression_finder import computes_quantities, find_expressions
from podium.workers.worker import Card

_READ = 8 * 1024
_CALCULATES = re.compile(r"\b(?:arithmetic|calculat|math)", re.IGNORECASE)
_TOOL = re.compile(r"\b(?:arithmetic|calculat|gather|combin|join|merg|collect|synthesi)", re.IGNORECASE)
_SEARCHES = re.compile(r"\b(?:search|document|retriev|look ?up|passages?\b|corpus|wiki)", re.IGNORECASE)
_GATHERS = re.compile(r"\b(?:gather|combin|join|merg|collect|synthesi)", re.IGNORECASE)
_WRITES = re.compile(r"\b(?:writ|summari|compos|draft)", re.IGNORECASE)
_GENERAL = re.compile(r"\b(?:general|chat|assistant|anything|everything|answers?\b)", re.IGNORECASE)
_CHATS = re.compile(r"\b(?:general|chat|assistant|anything|everything|calculat|math|comput)", re.IGNORECASE)
_LOOKS_UP = re.compile(
    r"\b(?:who|what|where|when|how|why|which|whose|find|look up|search|describe|explain|define|list)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Match:
    """The worker chosen for a part."""

    worker: int
    why: str = ""
    """The feature of the part that fits the worker's card, such as "its arithmetic"; empty if no feature
    fits.
    """
    alone: bool = False
    """Whether no other worker fits equally well."""


def best_fit(part: str, cards: Sequence[Card], *, back: bool = False) -> Match | None:
    """Return the worker whose card fits `part` best; if several fit equally, the first.

    Args:
        part: the text of a subtask.
        cards: the workers' cards.
        back: whether the part refers to an earlier step, which the worker sees.

    Returns:
        The worker; `None` if no worker can do the part. For example, a calculator needs arithmetic, and a
        search cannot subtract dates.
    """
    able = [number for number, card in enumerate(cards) if _can(card, part[:_READ], back=back)]
    if not able:
        return None
    fit = _best(part[:_READ], [cards[number] for number in able], back=back)
    return replace(fit, worker=able[fit.worker])


def _can(card: Card, text: str, *, back: bool) -> bool:
    """Return whether a worker can do a subtask; Podium's offline workers and search workers cannot do all."""
    if card.description == gather.DESCRIPTION:
        return back
    if card.description == calculator.DESCRIPTION:
        return bool(find_expressions(text, that="1" if back else None))
    return not (_only_searches(card) and computes_quantities(text))


def _only_searches(card: Card) -> bool:
    told = f"{card.name} {card.description[:_READ]}"
    return bool(_SEARCHES.search(told)) and not (_WRITES.search(told) or _CHATS.search(told))


def _best(text: str, cards: Sequence[Card], *, back: bool) -> Match:
    has_calculator = any(card.description == calculator.DESCRIPTION for card in cards)
    kind = None if has_calculator else kind_of(text, measured_kinds(cards))
    if kind is not None:
        rates = [rate_on(card, kind) for card in cards]
        measured = [-1.0 if rate is None else rate.rate for rate in rates]
        return _cheapest_of_highest(measured, cards, f"its kind {kind.name!r}")
    told = [f"{card.name} {card.description[:_READ]}" for card in cards]
    if find_expressions(text, that="1" if back else None) and any(map(_CALCULATES.search, told)):
        exact = [float(card.description == calculator.DESCRIPTION) for card in cards]
        named = [float(bool(_CALCULATES.search(card))) for card in told]
        return _highest(exact if has_calculator else named, "its arithmetic")
    wanted = set(words(text))
    looks_up = 1.5 if _LOOKS_UP.search(text) else 0.0
    scores = [
        0.0
        if _is_tool(card)
        else len(wanted & set(words(card))) + (looks_up if _SEARCHES.search(card) else 0.0)
        for card in told
    ]
    if any(scores):
        return _highest(scores, "its question" if looks_up else "words of its description")
    return _highest([_generality(card) for card in told], "")


def gatherer(cards: Sequence[Card]) -> Match | None:
    """Return the worker that joins results; `None` if no worker can.

    The card of this worker mentions joining or writing. Without such a worker, a general worker joins the
    results.
    """
    for kind in (_GATHERS, _WRITES):
        scores = [float(bool(kind.search(f"{card.name} {card.description[:_READ]}"))) for card in cards]
        if any(scores):
            return _highest(scores, "gathering")
    return best_fit("", cards, back=True)


def _is_tool(card: str) -> bool:
    """Return whether a worker has one special task and does not answer questions."""
    return bool(_TOOL.search(card)) and not (_WRITES.search(card) or _GENERAL.search(card))


def _generality(card: str) -> int:
    """Return the rank of a worker: 4 general, 3 writing, 2 other, 1 search, 0 one special task."""
    if _GENERAL.search(card):
        return 4
    if _WRITES.search(card):
        return 3
    return 0 if _is_tool(card) else 1 if _SEARCHES.search(card) else 2


def _cheapest_of_highest(scores: Sequence[float], cards: Sequence[Card], why: str) -> Match:
    """Return the worker with the highest score; of equal workers the cheapest, and unknown prices last."""
    highest = max(scores)
    best = [number for number, score in enumerate(scores) if score == highest]
    prices = {number: cards[number].price for number in best}
    costs = {n: inf if price is None else price.input + price.output for n, price in prices.items()}
    return Match(min(best, key=costs.__getitem__), why, alone=len(best) == 1)


def _highest(scores: Sequence[float], why: str) -> Match:
    highest = max(scores)
    return Match(list(scores).index(highest), why, alone=list(scores).count(highest) == 1)
