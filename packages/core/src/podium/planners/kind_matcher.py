"""Finds the measured kind of a question: the kind with the most similar question.

Similarity is the cosine between the sets of words. Rare words weigh more (by the inverse document frequency
over the measured questions). All numbers count as the same word.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import log, sqrt

from podium.plan_text.stemming import words
from podium.workers.measured import Kind, MeasuredRate
from podium.workers.worker import Card

LEAST = 0.3
"""Minimum similarity, 0 to 1, of two questions of one kind. The value was measured (docs/log.md)."""
_READ = 8 * 1024


def measured_kinds(cards: Iterable[Card]) -> tuple[Kind, ...]:
    """Return the kinds on which at least one of the workers was measured."""
    return tuple(dict.fromkeys(rate.kind for card in cards for rate in card.measured))


def by_similarity(text: str, kinds: Sequence[Kind]) -> list[tuple[Kind, float]]:
    """Return the kinds with their similarity to a text, 0 to 1, the most similar first."""
    if not kinds:
        return []
    index = _Index.of(tuple(kinds))
    return sorted(index.similarities(text), key=lambda found: -found[1])


def kind_of(text: str, kinds: Sequence[Kind]) -> Kind | None:
    """Return the kind of a question; `None` if it is not similar to a question of any kind."""
    nearest = by_similarity(text, kinds)[:1]
    return next((kind for kind, similarity in nearest if similarity >= LEAST), None)


def rate_on(card: Card, kind: Kind) -> MeasuredRate | None:
    """Return a worker's measured rate on a kind; `None` if there is none."""
    return next((rate for rate in card.measured if rate.kind == kind), None)


class _Index:
    """The words of the questions of some kinds, with their weights."""

    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        asked = [(kind, _words(question)) for kind in kinds for question in kind.questions]
        counts = Counter(word for _, found in asked for word in found)
        total = len(asked)
        self._weights: Mapping[str, float] = {
            word: log((1 + total) / (1 + count)) + 1 for word, count in counts.items()
        }
        self._unseen = log(1 + total) + 1
        self._asked = [(kind, found, self._length(found)) for kind, found in asked]

    @staticmethod
    @lru_cache(maxsize=8)
    def of(kinds: tuple[Kind, ...]) -> "_Index":
        return _Index(kinds)

    def similarities(self, text: str) -> list[tuple[Kind, float]]:
        """Return for each kind the similarity of its most similar question."""
        found = _words(text)
        length = self._length(found)
        best: dict[Kind, float] = {}
        for kind, words_asked, length_asked in self._asked:
            common = sum(self._weights[word] ** 2 for word in found & words_asked)
            similarity = common / (length * length_asked) if common else 0.0
            best[kind] = max(best.get(kind, 0.0), similarity)
        return list(best.items())

    def _length(self, found: frozenset[str]) -> float:
        return sqrt(sum(self._weights.get(word, self._unseen) ** 2 for word in found))


def _words(text: str) -> frozenset[str]:
    return frozenset("0" if word.isdigit() else word for word in words(text[:_READ]))
