"""Scores and costs of answers as arrays, with a row for each question and a column for each worker."""

from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from statistics import fmean
from typing import Self

import numpy as np

from podium_evals.errors import RouterInvalid
from podium_evals.recorded import Question, Recordings, recorded_pool
from podium_evals.router.text_scores import Floats
from podium_evals.statistics.splits import Places


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
        """Return the table of a recording.

        Args:
            recordings: graded answers.

        Raises:
            RouterInvalid: a worker has not answered a question.
            RecordingInvalid: an answer has no score.
        """
        workers, questions = recordings.workers, recordings.questions
        scores, costs = (np.full((len(questions), len(workers)), np.nan) for _ in range(2))
        for column, worker in enumerate(recorded_pool(recordings)):
            for row, question in enumerate(questions):
                samples = recordings.samples(question, worker.worker)
                graded = [sample.score for sample in samples if sample.score is not None]
                if samples and not graded:
                    raise RouterInvalid(f"the answer of {worker.worker!r} to {question.id!r} has no score")
                if graded:
                    scores[row, column] = fmean(graded)
                if (cost := worker.cost_of(question)) is not None:
                    costs[row, column] = cost
        if np.isnan(scores).any():
            raise RouterInvalid(
                "some workers have not answered all questions: select with `recordings.only(workers)`"
            )
        return cls(workers, questions, scores, costs)

    @property
    def texts(self) -> list[str]:
        """The texts of the questions."""
        return [question.text for question in self.questions]

    @property
    def mean_costs(self) -> tuple[float | None, ...]:
        """The mean cost of an answer of each worker, in USD; `None` if it is not known."""
        return tuple(None if np.isnan(cost) else cost for cost in self.costs.mean(axis=0).tolist())

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with the workers, the questions and the scores."""
        asked = [self.workers, [question.key for question in self.questions]]
        return sha256(dumps(asked).encode() + self.scores.tobytes()).hexdigest()[:16]

    def at(self, places: Places) -> Self:
        """Return the table with only the rows at these places."""
        questions = tuple(self.questions[place] for place in places.tolist())
        return type(self)(self.workers, questions, self.scores[places], self.costs[places])

    def scores_of(self, chosen: Places) -> Floats:
        """Return the score of the chosen worker of each question.

        Args:
            chosen: shape (questions,), the column of the chosen worker.
        """
        found: Floats = self.scores[np.arange(len(self.questions)), chosen]
        return found

    def costs_of(self, chosen: Places) -> Floats:
        """Return the cost of the chosen worker of each question, in USD."""
        found: Floats = self.costs[np.arange(len(self.questions)), chosen]
        return found
