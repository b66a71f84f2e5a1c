"""A router: fitted on a recording, saved as one file. It predicts how well each worker answers a question."""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Recordings, recorded_pool
from podium_evals.router.text_scores import Floats, TextScores
from podium_evals.statistics import halves

VERSION = 1
ALPHAS = (1.0, 3.0, 10.0)
"""Strengths of the ridge penalty that are tried."""
LEAST_QUESTIONS = 20
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterFacts:
    """What a router was fitted on."""

    workers: tuple[str, ...]
    """The names of the workers, in the order of its predictions."""
    costs: tuple[float | None, ...]
    """The mean cost of an answer of each worker, in USD; `None` if its price was not known."""
    questions: int
    kinds: int
    fingerprint: str
    """Changes with the questions, the workers and the scores."""
    alpha: float
    """The strength of the ridge penalty that was best on the part kept for validation."""
    calibrations: tuple[tuple[float, float], ...]
    """For each worker, slope and intercept of the logistic function from prediction to probability."""
    version: int = VERSION


class Router:
    """Predicts scores of workers. `fit_router` makes one.

    Args:
        facts: what it was fitted on.
        scores: the regression.
    """

    def __init__(self, facts: RouterFacts, scores: TextScores) -> None:
        self.facts = facts
        self._scores = scores

    def predict(self, text: str) -> dict[str, float]:
        """Return the expected score of each worker, 0 to 1: the probability of a right answer."""
        predicted = self._scores.predict([text])[0]
        slopes, intercepts = np.asarray(self.facts.calibrations).T
        probabilities = 1 / (1 + np.exp(-(slopes * predicted + intercepts)))
        return dict(zip(self.facts.workers, probabilities.tolist(), strict=True))

    def save(self, path: Path | str) -> None:
        """Write the router to a file.

        It is an `npz` archive of arrays and a JSON header. Reading it runs no code of the file.
        """
        arrays: dict[str, NDArray[Any]] = self._scores.arrays()
        with Path(path).open("wb") as file:
            arrays["header"] = np.asarray(json.dumps(asdict(self.facts)))
            np.savez_compressed(file, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a router from a file.

        Raises:
            RouterInvalid: there is no such file, or it is not a router of this version.
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
        raise RouterInvalid(f"{path} is a router of version {version!r}, and not {VERSION}: train it again")

    @classmethod
    def _of(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        listed = {"calibrations": tuple(map(tuple, header["calibrations"])), "costs": tuple(header["costs"])}
        facts = RouterFacts(**header | listed | {"workers": tuple(map(str, header["workers"]))})
        return cls(facts, TextScores.of_arrays(arrays))


def fit_router(recordings: Recordings, *, seed: int = 0) -> Router:
    """Fit a router on recorded answers.

    Half of the questions of each kind choose the penalty and calibrate: the router that is fitted on the
    other half predicts them, and for each worker a logistic regression of the scores on the predictions
    (Platt scaling) turns predictions into probabilities. The ridge regression of the result is fitted on all
    questions.

    Args:
        recordings: graded answers. Each worker has answered each question.
        seed: the seed of the halves.

    Raises:
        RouterInvalid: there are fewer than 20 questions, or fewer than two workers.
    """
    workers, questions = recordings.workers, recordings.questions
    if len(workers) < 2 or len(questions) < LEAST_QUESTIONS:
        told = f"{len(questions)} questions and {len(workers)} workers"
        raise RouterInvalid(
            f"a router needs at least {LEAST_QUESTIONS} questions and 2 workers: there are {told}"
        )
    texts = [question.text for question in questions]
    scores = _table(recordings)
    fitted, kept = halves(questions, seed=seed)
    asked = [texts[n] for n in kept]
    tried = [
        each.predict(asked) for each in TextScores.fit([texts[n] for n in fitted], scores[fitted], ALPHAS)
    ]
    best = max(range(len(ALPHAS)), key=lambda number: _routed(tried[number], scores[kept]))
    calibrations = [_calibrated(tried[best][:, n], scores[kept, n]) for n in range(len(workers))]
    facts = RouterFacts(
        workers=workers,
        costs=tuple(_costs(recordings)),
        questions=len(questions),
        kinds=len(recordings.kinds),
        fingerprint=_fingerprint(recordings, scores),
        alpha=ALPHAS[best],
        calibrations=tuple(calibrations),
    )
    (fitted_on_all,) = TextScores.fit(texts, scores, [ALPHAS[best]])
    return Router(facts, fitted_on_all)


def _fingerprint(recordings: Recordings, scores: Floats) -> str:
    asked = [recordings.workers, [question.key for question in recordings.questions]]
    return sha256(json.dumps(asked).encode() + scores.tobytes()).hexdigest()[:16]


def _table(recordings: Recordings) -> Floats:
    """Return the mean scores, shape (questions, workers)."""
    table = np.full((len(recordings.questions), len(recordings.workers)), np.nan)
    rows = {question.key: number for number, question in enumerate(recordings.questions)}
    columns = {worker: number for number, worker in enumerate(recordings.workers)}
    for recording in recordings:
        table[rows[recording.question.key], columns[recording.worker]] = recording.score
    if np.isnan(table).any():
        raise RouterInvalid("some workers have not answered all questions: use `recordings.only(workers)`")
    return table


def _routed(predicted: Floats, scores: Floats) -> float:
    """Return the mean score of the workers with the best predictions."""
    return float(scores[np.arange(len(scores)), predicted.argmax(axis=1)].mean())


def _calibrated(predicted: Floats, scores: Floats) -> tuple[float, float]:
    """Return slope and intercept of the logistic regression of a worker's scores on its predictions.

    A score between 0 and 1 counts as a right answer in part, and in part as a wrong one.
    """
    values = predicted.reshape(-1, 1)
    fitted = LogisticRegression(C=100).fit(
        np.concatenate([values, values]),
        np.repeat([1, 0], len(scores)),
        sample_weight=np.concatenate([scores, 1 - scores]),
    )
    return float(fitted.coef_[0, 0]), float(fitted.intercept_[0])


def _costs(recordings: Recordings) -> Iterator[float | None]:
    for worker in recorded_pool(recordings):
        price = worker.card.price
        yield None if price is None else fmean(map(price.cost, worker.usages()))
