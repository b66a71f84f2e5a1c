"""Recorded answers of many workers to many questions. Questions with the same content are one question."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from podium.usage import Usage
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded.prices import PriceTable
from podium_evals.recorded.question import Question, content_key, normalised

NO_ANSWER = "(no answer)"
"""The text that a recorded worker returns for an empty answer. An empty text would be retried."""
NO_TEXT = "(text not recorded)"
"""The beginning of the text of an answer of which only the score was recorded; it is not compared."""
REPEATED = "the worker has already answered another question with the same text"
"""The reason why an answer is left out. Questions with the same text are not independent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One answer of one worker to one question."""

    text: str
    """The final answer, without the reasoning before it; empty if the worker gave no answer."""
    score: float | None = None
    """The grader's score, 0 to 1; 0 for an empty answer. `None` if the answer was not graded."""
    usage: Usage | None = None
    """Tokens of the call; `None` if they were not recorded."""
    latency_s: float | None = None
    """Seconds until the answer was complete; `None` if the time was not recorded."""
    asked_on: date | None = None
    """The day of the call; `None` if it was not recorded."""

    def __post_init__(self) -> None:
        if self.score is not None and not 0 <= self.score <= 1:
            raise RecordingInvalid(f"the score {self.score!r} is not between 0 and 1")
        if self.score and not self.text.strip():
            object.__setattr__(self, "score", 0.0)

    @property
    def is_empty(self) -> bool | None:
        """Whether the answer has no text, or none that the source could read; `None` if it is not known."""
        return None if self.text.startswith(NO_TEXT) else not self.text.strip()


@dataclass(frozen=True, slots=True)
class Recording:
    """The recorded answers (samples) of one worker to one question."""

    question: Question
    worker: str
    samples: tuple[Sample, ...]
    """The samples in their order of time. They are not independent, because they share a question."""

    @property
    def score(self) -> float:
        """The mean score of the samples; samples without a score are left out.

        Raises:
            RecordingInvalid: no sample has a score.
        """
        scores = [sample.score for sample in self.samples if sample.score is not None]
        if not scores:
            raise RecordingInvalid(f"the answers of {self.worker!r} to {self.question.id!r} have no scores")
        return sum(scores) / len(scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where recorded answers are from."""

    source: str
    """The repository or the file of the answers."""
    revision: str = ""
    """The commit of the repository; empty if there is none."""
    licence: str = ""
    """The SPDX identifier of the licence; empty if the source states no licence."""
    citation: str = ""
    """The publication to cite; empty if there is none."""


class Recordings:
    """The recorded answers of many workers. Questions are identified by their content.

    If a source has several questions with the same text, only the first is used. A worker's answers to the
    others are left out; `left_out` has their number.

    Args:
        recordings: the recorded answers, in any order. Questions keep the order in which they first occur.
        provenance: where they are from.
        left_out: number of recordings that a reader has left out, by reason.
        prices: the prices of the workers when they were recorded; `None` means that none is known.
    """

    def __init__(
        self,
        recordings: Iterable[Recording],
        provenance: Provenance | None = None,
        left_out: Counter[str] | None = None,
        prices: PriceTable | None = None,
    ) -> None:
        self.provenance = provenance
        """The source of the answers; `None` if it is not known."""
        self.left_out = Counter[str]() if left_out is None else left_out
        """Number of recordings that were left out, by reason."""
        self.prices = prices or PriceTable(())
        """The prices of the workers when they were recorded."""
        self._questions: dict[str, Question] = {}
        self._samples: dict[str, dict[str, tuple[Sample, ...]]] = {}
        for each in recordings:
            self._add(each)

    def _add(self, recording: Recording) -> None:
        key = recording.question.key
        of_worker = self._samples.setdefault(recording.worker, {})
        if key in of_worker:
            self.left_out[REPEATED] += 1
            return
        self._questions.setdefault(key, recording.question)
        of_worker[key] = recording.samples

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        return tuple(self._questions.values())

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of all workers, in the order in which they first occur."""
        return tuple(self._samples)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the questions, sorted."""
        return tuple(sorted({question.kind for question in self._questions.values()}))

    def __len__(self) -> int:
        return len(self._questions)

    def __iter__(self) -> Iterator[Recording]:
        for key, question in self._questions.items():
            for worker, of_worker in self._samples.items():
                if key in of_worker:
                    yield Recording(question, worker, of_worker[key])

    def find(self, text: str) -> Question | None:
        """Return the question with this content; `None` if it was not recorded."""
        return self._questions.get(content_key(text))

    def samples(self, question: Question, worker: str) -> tuple[Sample, ...]:
        """Return a worker's answers to a question; empty if the worker was not asked."""
        return self._samples.get(worker, {}).get(question.key, ())

    def score(self, question: Question | str, answer: str) -> float | None:
        """Return the score of an answer; `None` if no worker gave this answer, or it was not graded.

        Answers are found by their normalised text. An empty answer scores 0. This method also scores the
        answers of reducers, because a reducer returns one of the workers' answers.

        Args:
            question: the question, or its text.
            answer: the answer.
        """
        key = content_key(question) if isinstance(question, str) else question.key
        wanted = normalised(answer)
        if wanted in ("", NO_ANSWER):
            return 0.0
        given = (sample for of_worker in self._samples.values() for sample in of_worker.get(key, ()))
        return next((each.score for each in given if normalised(each.text) == wanted), None)

    def only(self, workers: Sequence[str]) -> "Recordings":
        """Return the recordings of some workers, with the questions that all of these workers have answered.

        Raises:
            RecordingInvalid: the list of workers is empty, or the recording lacks a worker.
        """
        if unknown := sorted(set(workers) - set(self.workers)):
            known = ", ".join(self.workers)
            raise RecordingInvalid(f"the recording has no worker {unknown[0]!r}: its workers are {known}")
        if not workers:
            raise RecordingInvalid("name at least one worker")
        common = set.intersection(*(set(self._samples[worker]) for worker in workers))
        kept = (each for each in self if each.worker in workers and each.question.key in common)
        return self.with_answers(kept)

    def where(self, chosen: Callable[[Question], bool]) -> "Recordings":
        """Return the recordings of the questions for which `chosen` returns true."""
        kept = {key for key, question in self._questions.items() if chosen(question)}
        of_kept = (each for each in self if each.question.key in kept)
        return self.with_answers(of_kept)

    def with_answers(
        self, recordings: Iterable[Recording], left_out: Counter[str] | None = None
    ) -> "Recordings":
        """Return other answers of the same workers, with this provenance and these prices.

        Args:
            recordings: the recorded answers.
            left_out: number of recordings that were left out, by reason; `None` takes `self.left_out`.
        """
        less = self.left_out.copy() if left_out is None else left_out
        return Recordings(recordings, self.provenance, less, self.prices)
