"""Ranks passages by BM25.

The one module that knows the search library, which the extra `offline` brings.
"""

import logging
from collections.abc import Sequence

import bm25s  # type: ignore[import-untyped]

from podium.terms import terms
from podium.workers.passages import Passage

# The library logs every index it builds, at a level it sets itself.
logging.getLogger("bm25s").setLevel(logging.WARNING)


class Ranking:
    """Passages that can be asked which of them speak of something.

    A passage is found by its text, its headings and the name of its file.

    Args:
        passages: what to rank; of equals the earlier comes first.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._passages = tuple(passages)
        texts = [[*terms(p.text), *terms(" ".join((*p.headings, p.source)))] for p in self._passages]
        self._known = {term for text in texts for term in text}
        self._index = None
        if self._known:
            self._index = bm25s.BM25(backend="numpy")
            self._index.index(texts, show_progress=False)

    def best(self, wanted: Sequence[str], top: int, *, least: float) -> list[Passage]:
        """Return the passages that speak of the wanted terms, best first.

        Args:
            wanted: terms of the query; a repeated one counts once.
            top: most passages to return.
            least: share of the best passage's score the others must reach, from 0 to 1.
        """
        known = [term for term in dict.fromkeys(wanted) if term in self._known]
        if self._index is None or not known:
            return []
        scores = [float(score) for score in self._index.get_scores(known)]
        enough = max(scores) * least
        order = sorted(range(len(scores)), key=lambda number: (-scores[number], number))
        return [
            self._passages[number]
            for number in order[:top]
            if scores[number] > 0 and scores[number] >= enough
        ]
