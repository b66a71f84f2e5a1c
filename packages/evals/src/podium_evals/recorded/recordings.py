"""Questions, workers' recorded answers to them, and prices. Questions of one content are one question."""

import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Self

from podium.config.source import why_unreadable
from podium.errors import ConfigError
from podium.usage import Usage
from podium.workers import Price
from podium_evals.errors import RecordingInvalid


def normalised(text: str) -> str:
    """Return the form of a text that is used to compare contents.

    Unicode is composed (NFC), and lines end with a line feed. Spaces at line ends and around the text are
    removed. Other spaces are kept, because they matter in grids.
    """
    lines = unicodedata.normalize("NFC", text).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


def content_key(text: str) -> str:
    """Return the key of a text: 32 hexadecimal digits that depend on the normalised text only."""
    return sha256(normalised(text).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def with_options(text: str, options: Sequence[object]) -> str:
    """Return the text of a multiple-choice question, with a line for each option and its letter.

    Raises:
        RecordingInvalid: there are more than 26 options.
    """
    if len(options) > len(ascii_uppercase):
        raise RecordingInvalid(f"the question {text[:80]!r} has {len(options)} options: there are 26 letters")
    letters = zip(ascii_uppercase, options, strict=False)
    listed = "\n".join(f"({letter}) {option}" for letter, option in letters)
    return f"{text.rstrip()}\n\nOptions:\n{listed}\n\nAnswer with the letter of the right option."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its right answer. Its text is all that a worker is shown."""

    id: str
    """The id of the question, unique in a recording, such as `reasoning_gym/easy/dice/7`."""
    kind: str
    """The kind of task. Questions of one kind are similar, so statistics treat kinds as clusters."""
    text: str
    """The whole text that a worker is shown."""
    level: str = ""
    """The difficulty if the source has levels: `easy` or `hard`; else empty."""
    expected: str | None = None
    """The right answer in the form of the source; `None` if the source does not have it."""
    split_key: str = ""
    """Questions with the same split key are in the same part of a split. Default: the content key."""
    key: str = field(init=False)
    """The content key. Questions are matched by this key, because ids differ between sources."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", content_key(self.text))
        if not self.split_key:
            object.__setattr__(self, "split_key", self.key)

    def position(self, seed: int) -> float:
        """Return a number from 0 up to 1, computed from the split key. It is the same in each process.

        Questions with a position below 0.5 are one half of a split.

        Args:
            seed: another seed gives other splits.
        """
        digest = sha256(f"{seed}/{self.split_key}".encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPrice:
    """A price that a source listed on a date."""

    worker: str
    """The name of the worker in its recording."""
    as_of: date
    """A day on which the source listed the price."""
    price: Price
    source: str
    """The provider that listed the price, and the provider's name for the model."""

    @property
    def told(self) -> str:
        """The source and the date on one line."""
        return f"{self.source}, price of {self.as_of.isoformat()}"


class PriceTable:
    """Prices by worker and date.

    Args:
        prices: in any order.
    """

    def __init__(self, prices: Iterable[DatedPrice]) -> None:
        self._prices = tuple(sorted(prices, key=lambda each: each.as_of))

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read a TOML file.

        Its entries `[[price]]` have `worker`, `as_of` (a date), `input`, `output` (USD per million tokens),
        `source`, and `cached_input` where it differs from `input`.

        Raises:
            ConfigError: there is no such file, an entry lacks a field, or a field is of another type.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {why_unreadable(error)}") from error
        try:
            return cls([_read_price(entry) for entry in tomllib.loads(text).get("price", [])])
        except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError) as error:
            told = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{path} is not a table of prices: {told}") from error

    def __iter__(self) -> Iterator[DatedPrice]:
        return iter(self._prices)

    def at(self, worker: str, on: date | None = None) -> DatedPrice | None:
        """Return the latest price of a worker that was listed on a day or earlier.

        Args:
            worker: the name of the worker in the recording.
            on: the day; `None` returns the latest price of all.

        Returns:
            `None` if no price is known. This is different from a price of 0.
        """
        of_worker = [each for each in self._prices if each.worker == worker]
        known = [each for each in of_worker if on is None or each.as_of <= on]
        return known[-1] if known else None


def _read_price(entry: dict[str, Any]) -> DatedPrice:
    as_of = entry["as_of"]
    if type(as_of) is not date:
        raise TypeError(f"as_of is {as_of!r}: write a date, as in 2026-11-10")
    price = Price(input=entry["input"], output=entry["output"], cached_input=entry.get("cached_input"))
    return DatedPrice(worker=str(entry["worker"]), as_of=as_of, price=price, source=str(entry["source"]))


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
