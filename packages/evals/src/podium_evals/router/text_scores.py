"""Predicts scores from texts: TF-IDF of words and letters, and a ridge regression for each worker."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_ridge import KernelRidge
from threadpoolctl import threadpool_limits

from podium_evals.statistics.splits import Places

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

ALPHAS = (3.0, 10.0)
"""The strengths of the ridge penalty to try."""
_KINDS: tuple[dict[str, Any], ...] = (
    {"analyzer": "word", "ngram_range": (1, 2), "max_features": 20_000},
    {"analyzer": "char_wb", "ngram_range": (3, 5), "max_features": 30_000},
)


class TextScores:
    """A fitted regression from texts to scores.

    Args:
        vectorizers: fitted, one for words and one for letters.
        weights: shape (terms, workers).
        intercepts: shape (workers,).
    """

    def __init__(self, vectorizers: Sequence[TfidfVectorizer], weights: Floats, intercepts: Floats) -> None:
        self._vectorizers = tuple(vectorizers)
        self._weights, self._intercepts = weights, intercepts

    @classmethod
    def fit(cls, texts: Sequence[str], scores: Floats, folds: Places) -> tuple[Self, float, Floats]:
        """Fit a regression. The penalty is the one that chooses workers best out of fold.

        There are more terms than texts, so the regression is solved with the similarities of all pairs of
        texts. For 10,000 texts, this needs about 1 GB of memory.

        Args:
            texts: the questions.
            scores: shape (texts, workers), each 0 to 1.
            folds: shape (texts,), the fold of each question. The question is predicted by a regression that
                was fitted on the other folds. The terms and their weights are computed from all texts,
                without scores.

        Returns:
            The regression that is fitted on all texts, the strength of its penalty, and the out-of-fold
            predictions, shape (texts, workers).
        """
        vectorizers = [TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **kind) for kind in _KINDS]
        terms = csr_matrix(hstack([vectorizer.fit_transform(texts) for vectorizer in vectorizers]))
        alike = (terms @ terms.T).toarray()
        middle = scores.mean(axis=0)
        with threadpool_limits(limits=1):  # several threads wait for each other more than they compute
            tried = [_out_of_fold(alike, scores, folds, alpha) for alpha in ALPHAS]
            routed = [scores[np.arange(len(scores)), each.argmax(axis=1)].mean() for each in tried]
            best = int(np.argmax(routed))
            ridge = KernelRidge(alpha=ALPHAS[best], kernel="precomputed")
            ridge.fit(alike, _short(scores - middle))
        fitted = cls(vectorizers, terms.T @ ridge.dual_coef_, middle)
        return fitted, ALPHAS[best], tried[best]

    def predict(self, texts: Sequence[str]) -> Floats:
        """Return the predicted scores, shape (texts, workers). They can lie outside 0 to 1."""
        terms = csr_matrix(hstack([vectorizer.transform(texts) for vectorizer in self._vectorizers]))
        predicted: Floats = terms @ self._weights + self._intercepts
        return predicted

    def arrays(self) -> Arrays:
        """Return all fitted values as arrays. Weights are stored with 32 bits."""
        found: Arrays = {"weights": self._weights.astype(np.float32), "intercepts": self._intercepts}
        for number, vectorizer in enumerate(self._vectorizers):
            found[f"terms_{number}"] = np.asarray(vectorizer.get_feature_names_out(), dtype=np.str_)
            found[f"idf_{number}"] = vectorizer.idf_
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make a regression from the result of `arrays`."""
        vectorizers = []
        for number, kind in enumerate(_KINDS):
            given = {name: value for name, value in kind.items() if name != "max_features"}
            vocabulary = {str(term): place for place, term in enumerate(arrays[f"terms_{number}"])}
            vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=vocabulary, **given)
            vectorizer.idf_ = arrays[f"idf_{number}"]
            vectorizers.append(vectorizer)
        return cls(vectorizers, arrays["weights"].astype(np.float64), arrays["intercepts"])


def _short(values: Floats) -> NDArray[np.float32]:
    return values.astype(np.float32)


def _out_of_fold(alike: NDArray[np.float32], scores: Floats, folds: Places, alpha: float) -> Floats:
    """Return the prediction for each text by a regression on the other folds.

    Args:
        alike: shape (texts, texts), the similarity of each pair.
        scores: shape (texts, workers).
        folds: shape (texts,).
        alpha: the strength of the penalty.
    """
    predicted = np.empty_like(scores)
    for fold in np.unique(folds):
        out, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        middle = scores[others].mean(axis=0)
        ridge = KernelRidge(alpha=alpha, kernel="precomputed")
        ridge.fit(alike[np.ix_(others, others)], _short(scores[others] - middle))
        predicted[out] = ridge.predict(alike[np.ix_(out, others)]) + middle
    return predicted
