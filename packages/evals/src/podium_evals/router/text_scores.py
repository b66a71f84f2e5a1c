"""Predicts scores from texts: TF-IDF of words and letters, and a ridge regression for each worker."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

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
    def fit(cls, texts: Sequence[str], scores: Floats, alphas: Sequence[float]) -> list[Self]:
        """Fit a regression for each strength of the ridge penalty.

        Args:
            texts: the questions.
            scores: shape (texts, workers), each 0 to 1.
            alphas: the strengths.
        """
        vectorizers = [TfidfVectorizer(sublinear_tf=True, **kind) for kind in _KINDS]
        terms = csr_matrix(hstack([vectorizer.fit_transform(texts) for vectorizer in vectorizers]))
        ridges = [Ridge(alpha=alpha).fit(terms, scores) for alpha in alphas]
        return [
            cls(vectorizers, np.atleast_2d(ridge.coef_).T, np.atleast_1d(ridge.intercept_))
            for ridge in ridges
        ]

    def predict(self, texts: Sequence[str]) -> Floats:
        """Return the predicted scores, shape (texts, workers). They can lie outside 0 to 1."""
        predicted: Floats = _terms(self._vectorizers, texts) @ self._weights + self._intercepts
        return predicted

    def arrays(self) -> Arrays:
        """Return all that was fitted. Weights have the precision of 32 bits."""
        found: Arrays = {"weights": self._weights.astype(np.float32), "intercepts": self._intercepts}
        for number, vectorizer in enumerate(self._vectorizers):
            found[f"terms_{number}"] = np.asarray(vectorizer.get_feature_names_out(), dtype=np.str_)
            found[f"idf_{number}"] = vectorizer.idf_
        return found

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return what `arrays` returned as a regression."""
        vectorizers = []
        for number, kind in enumerate(_KINDS):
            given = {name: value for name, value in kind.items() if name != "max_features"}
            vocabulary = {str(term): place for place, term in enumerate(arrays[f"terms_{number}"])}
            vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=vocabulary, **given)
            vectorizer.idf_ = arrays[f"idf_{number}"]
            vectorizers.append(vectorizer)
        return cls(vectorizers, arrays["weights"].astype(np.float64), arrays["intercepts"])


def _terms(vectorizers: Sequence[TfidfVectorizer], texts: Sequence[str]) -> csr_matrix:
    return csr_matrix(hstack([vectorizer.transform(texts) for vectorizer in vectorizers]))
