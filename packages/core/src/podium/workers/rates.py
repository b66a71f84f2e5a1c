"""The measured rates of workers: their file, and the measured kind of a question."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from hashlib import sha256
from math import log, sqrt
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from podium.errors import ConfigError
from podium.plan_text.literals import words
from podium.workers.worker import Card, Kind, MeasuredRate, Worker

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RateEntry(_Table):
    """The measured rate of one worker on one kind."""

    identity: str
    """The digest of the worker's identity; see `identity_of`."""
    answers: Annotated[int, Field(ge=1)]
    """The number of graded answers."""
    right: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """The sum of their scores."""
    prior: Share
    """The expected rate of the worker before its first answer."""
    rate: Share
    """The estimate, from `prior` and the answers."""
    low: Share
    """The lower end of the 95 % interval of `rate`."""
    high: Share
    """The upper end of the 95 % interval of `rate`."""
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None
    """The cost of the answers, in USD; `None` if unknown."""


class KindEntry(_Table):
    """The measured rates of all workers on one kind."""

    measured_on: date
    """The day of the latest answer."""
    fingerprint: str
    """A digest of the questions and their right answers."""
    questions: tuple[str, ...]
    """The questions that the workers were asked."""
    rates: dict[str, RateEntry]
    """The rates, by the name of the worker."""


class MeasuredFile(_Table):
    """The content of a file of measured rates."""

    version: Literal[1] = 1
    """The version of the file format."""
    kinds: dict[str, KindEntry] = Field(default_factory=dict)
    """The kinds, by name."""


def read_measured(path: Path | str) -> MeasuredFile:
    """Read a file of measured rates, or raise `ConfigError`."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist: `podium evals tune` writes it") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    try:
        return MeasuredFile.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{where}: {first['msg']}" if where else first["msg"]
        raise ConfigError(
            f"{path} is not a file of measured rates: {told}: run `podium evals tune` again"
        ) from error


def write_measured(measured: MeasuredFile, path: Path | str) -> None:
    """Write a file of measured rates, or raise `ConfigError`; replace an existing file in one step."""
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(measured.model_dump_json(indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ConfigError(f"{path} cannot be written: {error}") from error


def identity_of(worker: Worker) -> str:
    """Return a digest of a worker's model, server and sampling; empty if it has no identity."""
    identity = worker.identity
    return "" if identity is None else sha256(identity.encode()).hexdigest()[:12]


def put_on_cards(measured: MeasuredFile, workers: Iterable[Worker]) -> None:
    """Put the rates on the cards of the workers; `ConfigError` if one of them was another when measured."""
    for worker in workers:
        name, identity = worker.card.name, identity_of(worker)
        entries = {kind: entry for kind, entry in measured.kinds.items() if name in entry.rates}
        if stale := [kind for kind, entry in entries.items() if entry.rates[name].identity != identity]:
            raise ConfigError(
                f"the worker {name!r} had another model, server or sampling when it was measured on "
                f"{', '.join(map(repr, stale))}: run `podium evals tune` again"
            )
        rates = tuple(_rate(Kind(kind, entry.questions), entry, name) for kind, entry in entries.items())
        worker.card = replace(worker.card, measured=rates)


def _rate(kind: Kind, entry: KindEntry, worker: str) -> MeasuredRate:
    found = entry.rates[worker]
    return MeasuredRate(
        kind=kind,
        rate=found.rate,
        low=found.low,
        high=found.high,
        right=found.right,
        answers=found.answers,
        measured_on=entry.measured_on,
    )


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
