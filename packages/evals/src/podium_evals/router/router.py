"""A router predicts each worker's probability of a right answer from the words of a question."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Question, Recordings, recorded_pool
from podium_evals.statistics.intervals import Places

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

ALPHAS = (3.0, 10.0)
"""The strengths of the ridge penalty to try."""
_KINDS: tuple[dict[str, Any], ...] = (
    {"analyzer": "word", "ngram_range": (1, 2), "max_features": 20_000},
    {"analyzer": "char_wb", "ngram_range": (3, 5), "max_features": 30_000},
)


class TextScores:
    """A fitted regression from texts to scores."""

    def __init__(self, vectorizers: Sequence[TfidfVectorizer], weights: Floats, intercepts: Floats) -> None:
        self._vectorizers = tuple(vectorizers)
        self._weights, self._intercepts = weights, intercepts

    @classmethod
    def fit(cls, texts: Sequence[str], scores: Floats, folds: Places) -> tuple[Self, float, Floats]:
        """Fit a regression. The penalty is the one that chooses workers best out of fold.

        There are more terms than texts, so the regression is solved with the similarities of all pairs of
        texts. For 10,000 texts, this needs about 1 GB of memory.
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
    """Return the prediction for each text by a regression on the other folds."""
    predicted = np.empty_like(scores)
    for fold in np.unique(folds):
        out, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        middle = scores[others].mean(axis=0)
        ridge = KernelRidge(alpha=alpha, kernel="precomputed")
        ridge.fit(alike[np.ix_(others, others)], _short(scores[others] - middle))
        predicted[out] = ridge.predict(alike[np.ix_(out, others)]) + middle
    return predicted


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Scores and costs of the answers of all workers to all questions."""

    workers: tuple[str, ...]
    questions: tuple[Question, ...]
    scores: Floats
    """Shape (questions, workers): the mean scores of the samples, 0 to 1."""
    costs: Floats
    """Shape (questions, workers): the mean costs of the samples, in USD; NaN if the price is not known, or
    the tokens were not recorded."""

    @classmethod
    def of(cls, recordings: Recordings) -> Self:
        """Return the table of a recording."""
        workers, questions = recordings.workers, recordings.questions
        scores, costs = (np.full((len(questions), len(workers)), np.nan) for _ in range(2))
        for column, worker in enumerate(recorded_pool(recordings)):
            for row, question in enumerate(questions):
                samples = recordings.samples(question, worker.worker)
                graded = [sample.score for sample in samples if sample.score is not None]
                if not samples:
                    raise RouterInvalid(
                        "some workers have not answered all questions: select with `recordings.only(workers)`"
                    )
                if not graded:
                    raise RouterInvalid(f"the answer of {worker.worker!r} to {question.id!r} has no score")
                scores[row, column] = fmean(graded)
                if (cost := worker.cost_of(question)) is not None:
                    costs[row, column] = cost
        return cls(workers, questions, scores, costs)

    @property
    def mean_costs(self) -> tuple[float | None, ...]:
        """The mean cost of an answer of each worker, in USD; `None` if it is not known."""
        return tuple(None if np.isnan(cost) else cost for cost in self.costs.mean(axis=0).tolist())

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with the workers, the questions and the scores."""
        asked = [self.workers, [question.key for question in self.questions]]
        return sha256(json.dumps(asked).encode() + self.scores.tobytes()).hexdigest()[:16]


def choose(predicted: Floats, costs: Sequence[float | None], worth: float | None = None) -> Places:
    """Return the column of the worker that answers each question.

    The chosen worker has the highest `prediction - cost / worth`. A more expensive worker is chosen if it
    raises the probability of a right answer enough for its price. Of equal workers, the cheapest is chosen.
    """
    known = np.asarray([np.inf if cost is None else cost for cost in costs])
    values = predicted if worth is None else predicted - known / worth
    cheapest_first = np.argsort(known, kind="stable")
    chosen: Places = cheapest_first[values[:, cheapest_first].argmax(axis=1)]
    return chosen


VERSION = 2
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterFacts:
    """Facts about the fit of a router: its workers, their costs, and the fitted parameters."""

    workers: tuple[str, ...]
    """The names of the workers, in the order of its predictions."""
    costs: tuple[float | None, ...]
    """The mean cost of an answer of each worker, in USD; `None` if its price was not known."""
    questions: int
    kinds: int
    fingerprint: str
    """A digest of the questions, the workers and the scores."""
    alpha: float
    """The strength of the ridge penalty with the best out-of-fold result."""
    calibrations: tuple[tuple[float, float], ...]
    """The slope and the intercept that turn each worker's predictions into probabilities."""
    worth: float | None = None
    """The worth of a right answer, in USD, of the router's tier; `None` for a router without a tier."""
    version: int = VERSION


class Router:
    """Predicts the scores of workers on a question. `fit_router` makes a router.

    Args:
        facts: facts about the fit.
        scores: the regression from texts to scores.
    """

    def __init__(self, facts: RouterFacts, scores: TextScores) -> None:
        self.facts = facts
        self.scores = scores

    def predict(self, text: str) -> dict[str, float]:
        """Return the expected score of each worker, 0 to 1: the probability of a right answer."""
        return dict(zip(self.facts.workers, self.predict_all([text])[0].tolist(), strict=True))

    def predict_all(self, texts: Sequence[str]) -> Floats:
        """Return the expected scores, shape (texts, workers)."""
        return calibrated(self.scores.predict(texts), self.facts.calibrations)

    def save(self, path: Path | str) -> None:
        """Write the router to a file. An existing file is replaced when the new one is complete.

        The file is an `npz` archive of arrays and a JSON header. Reading a file runs no code from it.

        Raises:
            OSError: the file cannot be written.
        """
        arrays: dict[str, NDArray[Any]] = self.scores.arrays()
        arrays["header"] = np.asarray(json.dumps(asdict(self.facts)))
        path = Path(path)
        unfinished = path.with_name(f".{path.name}.part")
        try:
            with unfinished.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a router from a file.

        Raises:
            RouterInvalid: there is no such file, or the file is not a router of this version.
        """
        try:
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
            version = header["version"]
            if version == VERSION:
                return cls._of(header, arrays)
        except _UNREADABLE as error:
            raise RouterInvalid(f"{path} is not a router: {type(error).__name__}: {error}") from error
        raise RouterInvalid(
            f"{path} is a router of version {version!r}, but version {VERSION} is "
            f"needed: train the router again"
        )

    @classmethod
    def _of(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        listed = {"calibrations": tuple(map(tuple, header["calibrations"])), "costs": tuple(header["costs"])}
        facts = RouterFacts(**header | listed | {"workers": tuple(map(str, header["workers"]))})
        return cls(facts, TextScores.of_arrays(arrays))


def calibrated(predicted: Floats, calibrations: Sequence[tuple[float, float]]) -> Floats:
    """Turn the predictions of a regression into probabilities, shape (questions, workers)."""
    slopes, intercepts = np.asarray(calibrations).T
    probabilities: Floats = 1 / (1 + np.exp(-(slopes * predicted + intercepts)))
    return probabilities


LEAST_QUESTIONS = 20
FOLDS = 4


def fit_router(recordings: Recordings, *, seed: int = 0) -> Router:
    """Fit a router on recorded answers.

    Each question is predicted by a ridge regression that is fitted on the other three of four folds. These
    predictions decide the penalty. They also calibrate each worker: a logistic regression of the scores on
    the predictions (Platt scaling) turns predictions into probabilities. The router's own regression is
    fitted on all questions.

    Args:
        recordings: graded answers. Each worker has answered each question.
        seed: the seed of the folds.

    Raises:
        RouterInvalid: there are fewer than 20 questions or two workers, an answer is missing, or an answer
            has no score.
    """
    return _fitted(ScoreTable.of(recordings), seed)[0]


def _fitted(table: ScoreTable, seed: int) -> tuple[Router, Floats]:
    """Return a router, and its out-of-fold predictions, shape (questions, workers), which are calibrated."""
    if len(table.workers) < 2 or len(table.questions) < LEAST_QUESTIONS:
        told = f"{len(table.questions)} questions and {len(table.workers)} workers"
        raise RouterInvalid(
            f"a router is fitted on at least {LEAST_QUESTIONS} questions of 2 workers: there are {told}"
        )
    try:
        texts = [question.text for question in table.questions]
        scores, alpha, raw = TextScores.fit(texts, table.scores, _folds(table, seed))
    except ValueError as error:  # texts of single letters and signs contain no terms
        raise RouterInvalid(f"the questions cannot be told apart by their words: {error}") from error
    calibrations = [_calibrated(raw[:, n], table.scores[:, n]) for n in range(len(table.workers))]
    facts = RouterFacts(
        workers=table.workers,
        costs=table.mean_costs,
        questions=len(table.questions),
        kinds=len({question.kind for question in table.questions}),
        fingerprint=table.fingerprint,
        alpha=alpha,
        calibrations=tuple(calibrations),
    )
    return Router(facts, scores), calibrated(raw, calibrations)


def _folds(table: ScoreTable, seed: int) -> Places:
    """Return the fold of each question; questions that share a split key share their fold."""
    positions = np.asarray([question.position(seed) for question in table.questions])
    return np.asarray(np.unique(positions, return_inverse=True)[1] % FOLDS, dtype=np.int64)


def _calibrated(predicted: Floats, scores: Floats) -> tuple[float, float]:
    """Return the slope and the intercept that turn a worker's predictions into probabilities.

    A score of 0.7 counts as 0.7 right answers and 0.3 wrong answers.
    """
    values = predicted.reshape(-1, 1)
    fitted = LogisticRegression(C=100).fit(
        np.concatenate([values, values]),
        np.repeat([1, 0], len(scores)),
        sample_weight=np.concatenate([scores, 1 - scores]),
    )
    return float(fitted.coef_[0, 0]), float(fitted.intercept_[0])


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal that a tier must reach: a quality or a price."""

    of: Literal["quality", "price"]
    """`quality`: a mean score, to be reached as cheaply as possible. `price`: a mean cost of a question in
    USD, for which the best score is wanted."""
    value: float


_POINTS = 80


def fit_for(goal: Goal, recordings: Recordings, *, seed: int = 0) -> Router:
    """Fit a router with the worth of a right answer that reaches a goal out of fold.

    Worths are tried from very low (only the cheapest worker answers) to very high (costs do not matter).
    """
    table = ScoreTable.of(recordings)
    router, predicted = _fitted(table, seed)
    costs = [cost for cost in router.facts.costs if cost is not None]
    if unknown := [
        name for name, cost in zip(table.workers, router.facts.costs, strict=True) if cost is None
    ]:
        raise RouterInvalid(f"the cost of {unknown[0]!r} is not known: its price, or the tokens of an answer")
    apart = np.diff(np.unique(costs))
    worths = np.geomspace(apart.min(), max(costs) * 1_000, _POINTS).tolist() if len(apart) else [1.0]
    rows = np.arange(len(table.questions))
    points = []
    for worth in worths:
        chosen = choose(predicted, costs, worth)
        points.append(
            (float(table.scores[rows, chosen].mean()), float(table.costs[rows, chosen].mean()), worth)
        )
    return Router(replace(router.facts, worth=_reached(goal, points)), router.scores)


def _reached(goal: Goal, points: Sequence[tuple[float, float, float]]) -> float:
    """Return the worth of the point that reaches a goal: the cheapest for a quality, the best for a price.

    Args:
        goal: the goal.
        points: quality, cost and worth.
    """
    if goal.of == "quality":
        if enough := [point for point in points if point[0] >= goal.value]:
            return min(enough, key=lambda point: (point[1], -point[0]))[2]
        quality, cost, _ = max(points, key=lambda point: point[0])
        raise RouterInvalid(
            f"no tier reaches a quality of {goal.value:g} where it was chosen: the best is {quality:.3f}, at "
            f"${cost:.2g} a question"
        )
    if cheap := [point for point in points if point[1] <= goal.value]:
        return max(cheap, key=lambda point: (point[0], -point[1]))[2]
    cost = min(point[1] for point in points)
    raise RouterInvalid(
        f"no tier costs ${goal.value:g} a question or less where it was chosen: the cheapest costs "
        f"${cost:.2g}"
    )
