"""Which worker's card fits a part of a question best.

By words: what the part asks about against what the cards say. Knows no plans.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from podium.terms import terms
from podium.workers.arithmetic.grammar import find_expressions
from podium.workers.worker import Card

_READ = 8 * 1024
_CALCULATES = frozenset(
    terms("arithmetic calculates calculator calculation math maths mathematics computes sums")
)
_SEARCHES = frozenset(
    terms("searches documents retriever retrieves lookup passages sources files folder knowledge corpus wiki")
)
_GATHERS = frozenset(terms("gathers combines joins merges collects aggregates synthesises synthesizes"))
_WRITES = frozenset(terms("writes writer summarises summarizes composes drafts"))
_CHATS = frozenset(terms("general chat chats assistant anything everything"))
_GENERAL = _CHATS | frozenset(terms("answers"))
_CALCULATES_ONLY = frozenset(terms("arithmetic calculates calculator"))
_SPECIALIST = _CALCULATES | _SEARCHES | _GATHERS
_LOOKS_UP = re.compile(
    r"\b(?:who|what|where|when|how|why|which|whose|according to|find|look up|search|describe|explain|define"
    r"|list)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fit:
    """The worker chosen for a part."""

    worker: int
    why: str
    """For what, as in "its arithmetic"; empty when nothing on its card spoke for it."""
    alone: bool
    """Whether no other worker fits as well."""


class Matcher:
    """Chooses among workers by their cards.

    Args:
        cards: the workers, in the plan's order; of equals the earlier is chosen.
    """

    def __init__(self, cards: Sequence[Card]) -> None:
        self._cards = tuple(cards)
        self._terms = [frozenset(terms(f"{card.name} {card.description[:_READ]}")) for card in cards]

    def best(self, part: str) -> Fit:
        """Return the worker whose card fits `part` best."""
        text = part[:_READ]
        if find_expressions(text, back="1"):
            counts = [len(known & _CALCULATES) for known in self._terms]
            if any(counts):
                return self._fit(counts, "its arithmetic")
        wanted = frozenset(terms(text))
        shared = [len(known & wanted) for known in self._terms]
        looks_up = 1.5 if _LOOKS_UP.search(text) else 0.0
        scores = [
            0.0 if self._is_tool(known) else common + (looks_up if known & _SEARCHES else 0.0)
            for common, known in zip(shared, self._terms, strict=True)
        ]
        if any(scores):
            fit = self._fit(scores, "its question")
            return replace(fit, why="what its card speaks of") if shared[fit.worker] else fit
        general = self.general()
        return Fit(general, "", alone=len(self._generalists()) == 1 or len(self._cards) == 1)

    def gatherer(self) -> tuple[int, bool]:
        """Return the worker that is to join results, and whether its card says that it does."""
        for kind in (_GATHERS, _WRITES):
            counts = [len(known & kind) for known in self._terms]
            if any(counts):
                return self._fit(counts, "").worker, True
        return self.general(), False

    def general(self) -> int:
        """Return the worker that takes anything: its card says so, or it is no specialist."""
        others = [number for number, known in enumerate(self._terms) if not known & _SPECIALIST]
        usable = [number for number, known in enumerate(self._terms) if not self._is_tool(known)]
        return (*self._generalists(), *others, *usable, 0)[0]

    def _generalists(self) -> list[int]:
        claims = [n for n, known in enumerate(self._terms) if known & (_GENERAL | _WRITES)]
        return [n for n in claims if not self._terms[n] & _SPECIALIST] or [
            n for n in claims if not self._is_tool(self._terms[n])
        ]

    def _is_tool(self, known: frozenset[str]) -> bool:
        """Say whether a worker does one thing only, which is no answering of questions."""
        return bool(known & (_GATHERS | _CALCULATES_ONLY)) and not known & (_WRITES | _CHATS)

    def _fit(self, scores: Sequence[float], why: str) -> Fit:
        highest = max(scores)
        return Fit(list(scores).index(highest), why, alone=list(scores).count(highest) == 1)
