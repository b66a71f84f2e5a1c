"""How episodes are drawn from a recording: questions and workers of each split, and the cards.

- Half of the questions of each kind are for training, as in `podium_evals.statistics.halves`; a part of them
  is for validation. Cards are measured on this half too. Held-out splits ask questions of the other half.
- Some kinds, workers and combinations of workers are in no episode of `train` and `validation`.
- A conductor that is trained on one fixed pool learns the numbers of its workers by heart. So each episode
  has its own workers, in an order of its own, and cards that tell what was measured and not who it is.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from hashlib import sha256
from itertools import combinations, islice
from math import comb
from random import Random

import numpy as np

from podium.errors import ConfigError
from podium.workers import Card, Kind, MeasuredRate, Price
from podium_evals.calibration import Tally, estimates, intervals, priors
from podium_evals.recorded import Question, Recordings
from podium_evals.statistics import halves
from podium_train.environments.environment import Split

_JITTER = 0.3
_LETTERS = "bcdfghjklmnpqrstvwxz"


def draw_pool(workers: Sequence[str], sizes: Sequence[int], random: Random) -> tuple[str, ...]:
    """Return some of the workers, in random order. Each size is as probable as the others.

    Raises:
        ConfigError: there are fewer workers than the drawn size.
    """
    size = random.choice(sizes)
    if size > len(workers):
        raise ConfigError(f"a pool of {size} cannot be drawn from {len(workers)} workers")
    return tuple(random.sample(list(workers), size))


def disguised(cards: Sequence[Card], random: Random) -> tuple[Card, ...]:
    """Return cards that do not tell which models they are.

    Each card gets a pseudonym and no description, and its price is changed by up to 30 % and rounded. What
    was measured stays.
    """
    names: list[str] = []
    while len(names) < len(cards):
        name = "model-" + "".join(random.choices(_LETTERS, k=3))
        if name not in names:
            names.append(name)
    return tuple(
        replace(card, name=name, description="A language model.", price=_jittered(card.price, random))
        for card, name in zip(cards, names, strict=True)
    )


def _jittered(price: Price | None, random: Random) -> Price | None:
    if price is None:
        return None
    factor = random.uniform(1 - _JITTER, 1 + _JITTER)
    return Price(input=_rounded(price.input * factor), output=_rounded(price.output * factor))


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def measured_rates(
    kind: Kind, *, prior: Sequence[float], right: Sequence[float], answers: int, day: date
) -> tuple[MeasuredRate, ...]:
    """Return the measured rate of each worker on a kind, by the estimate of `podium evals tune`."""
    before, found = np.asarray(prior, dtype=np.float64), np.asarray(right, dtype=np.float64)
    count = np.full(len(found), float(answers))
    low, high = intervals(before, found, count)
    columns = zip(estimates(before, found, count), low, high, found, strict=True)
    return tuple(
        MeasuredRate(
            kind=kind,
            rate=float(rate),
            low=float(least),
            high=float(most),
            right=float(scored),
            answers=answers,
            measured_on=day,
        )
        for rate, least, most, scored in columns
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSettings:
    """How episodes are drawn from recorded answers.

    Raises:
        ConfigError: a setting is invalid.
    """

    workers: tuple[str, ...] = ()
    """The workers of the recording that are used; none named takes all."""
    sizes: tuple[int, ...] = (3, 4)
    """Possible numbers of recorded workers in a pool."""
    probes: int = 3
    """Number of graded answers from which each rate on a card is measured; 0 shows no rates."""
    shown_kinds: int = 3
    """Number of kinds with a rate on the cards: those of the question, and others. At most as many as a
    prompt shows."""
    disguise: bool = True
    """Whether cards have pseudonyms and changed prices, so that a conductor cannot learn names."""
    held_out: float = 0.2
    """Share of the kinds, and of the combinations of workers, that are held out."""
    held_workers: int = 2
    """Number of workers that are held out."""
    split_seed: int = 0
    """Seed of what is held out. With the same seed, `podium evals run --split questions` asks no question
    that an episode of `train` has."""

    def __post_init__(self) -> None:
        self._check("probes", self.probes >= 0, "0 or more")
        self._check("shown_kinds", 1 <= self.shown_kinds <= 3, "1 to 3")
        self._check("held_out", 0 < self.held_out < 1, "between 0 and 1")
        self._check("held_workers", self.held_workers >= 0, "0 or more")
        self._check("sizes", bool(self.sizes) and min(self.sizes) >= 2, "sizes of 2 workers or more")

    def _check(self, name: str, is_valid: bool, allowed: str) -> None:  # noqa: FBT001 - a condition
        if not is_valid:
            raise ConfigError(f"{name} is {getattr(self, name)!r}: use {allowed}")


_VALIDATION = 0.15
_MOST_LISTED = 5000


class Partition:
    """The parts of a recording."""

    def __init__(self, recordings: Recordings, settings: RecordedSettings) -> None:
        seed, workers, most = settings.split_seed, recordings.workers, max(settings.sizes)
        known = len(workers) - settings.held_workers
        if known < most:
            held = settings.held_workers
            raise ConfigError(
                f"the recording has {len(workers)} workers, and needs {most + held}: {most} for the largest "
                f"pool (`sizes`), and {held} that the training does not see (`held_workers`). Record more "
                "workers, or write smaller numbers in `answers` of [environment]"
            )
        ordered = sorted(workers, key=lambda name: _drawn(seed, "worker", name))
        self.new_workers = frozenset(ordered[known:])
        """The workers that are held out."""
        self.known_workers = tuple(name for name in workers if name not in self.new_workers)
        """The workers of `train`."""
        kinds = sorted(recordings.kinds, key=lambda kind: _drawn(seed, "kind", kind))
        held = round(settings.held_out * len(kinds)) if len(kinds) > 1 else 0
        self.new_kinds = frozenset(kinds[:held])
        """The kinds that are held out."""
        first, second = halves(recordings.questions, seed=seed)
        self.measuring = _at(recordings.questions, first)
        """The half of the questions on which cards are measured."""
        self.questions = self._questions(_at(recordings.questions, second), seed)
        """The questions of each split that has any."""
        self._pools = _Pools(self.known_workers, settings)
        if not self.questions.get("train"):
            raise ConfigError("there is no question to train on: record more questions of each kind")

    def _questions(self, others: Sequence[Question], seed: int) -> Mapping[Split, tuple[Question, ...]]:
        old = [each for each in self.measuring if each.kind not in self.new_kinds]
        validation = [each for each in old if each.position(seed + 1) < _VALIDATION]
        kept = {each.key for each in validation}
        held = [each for each in others if each.kind not in self.new_kinds]
        found: dict[Split, Iterable[Question]] = {
            "train": (each for each in old if each.key not in kept),
            "validation": validation,
            "questions": held,
            "kinds": (each for each in others if each.kind in self.new_kinds),
            "workers": held,
            "mixes": held,
        }
        return {split: chosen for split, each in found.items() if (chosen := tuple(each))}

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits that have questions and workers."""
        lacking: set[Split] = set()
        if not self.new_workers:
            lacking.add("workers")
        if not self._pools.has_held:
            lacking.add("mixes")
        return tuple(split for split in self.questions if split not in lacking)

    def pool(self, split: Split, random: Random) -> tuple[str, ...]:
        """Draw the workers of an episode of a split."""
        if split != "workers":
            return self._pools.draw(random, held=split == "mixes")
        new = random.choice(sorted(self.new_workers))
        others = [*self.known_workers, *sorted(self.new_workers - {new})]
        pool = [new, *draw_pool(others, self._pools.sizes, random)[1:]]
        random.shuffle(pool)
        return tuple(pool)

    def is_held_mix(self, pool: Iterable[str]) -> bool:
        """Return whether a combination of known workers is held out."""
        return self._pools.is_held(frozenset(pool))


class _Pools:
    """Combinations of workers, some of which are held out."""

    def __init__(self, workers: Sequence[str], settings: RecordedSettings) -> None:
        self.sizes = settings.sizes
        self._workers, self._share, self._seed = workers, settings.held_out, settings.split_seed
        self._limits = {size: self._limit(size) for size in set(settings.sizes)}
        self.has_held = any(limit > 0 for limit in self._limits.values())

    def draw(self, random: Random, *, held: bool) -> tuple[str, ...]:
        while True:
            pool = draw_pool(self._workers, self.sizes, random)
            if self.is_held(frozenset(pool)) is held:
                return pool

    def is_held(self, pool: frozenset[str]) -> bool:
        return self._position(pool) < self._limits.get(len(pool), 0.0)

    def _position(self, pool: Iterable[str]) -> float:
        return _drawn(self._seed, "mix", "/".join(sorted(pool)))

    def _limit(self, size: int) -> float:
        """Return the position below which a combination is held out, so that some are and some are not."""
        count = comb(len(self._workers), size)
        if count > _MOST_LISTED:
            return self._share
        places = sorted(map(self._position, islice(combinations(self._workers, size), count)))
        held = min(count - 1, max(1, round(self._share * count)))
        return places[held] if held else 0.0


def _at(questions: Sequence[Question], places: Iterable[np.int64]) -> tuple[Question, ...]:
    return tuple(questions[int(place)] for place in places)


def _drawn(seed: int, *about: str) -> float:
    digest = sha256("/".join((str(seed), *about)).encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


_FIRST_DAY = date(2026, 1, 1)


class CardWriter:
    """Writes cards.

    Rates are measured for each episode on other drawn questions of the kind. So they are as noisy as the
    rates of `podium evals tune` with as many questions.
    """

    def __init__(
        self,
        recordings: Recordings,
        measuring: Sequence[Question],
        cards: Mapping[str, Card],
        settings: RecordedSettings,
    ) -> None:
        self._recordings = recordings
        self._cards = cards
        self._settings = settings
        self._questions = defaultdict[str, list[Question]](list)
        for question in measuring:
            self._questions[question.kind].append(question)
        tallies = {
            kind: {name: self._tally(each, name) for name in recordings.workers}
            for kind, each in self._questions.items()
        }
        self._priors = {
            kind: dict(zip(recordings.workers, priors(recordings.workers, kind, tallies), strict=True))
            for kind in self._questions
        }

    def write(self, workers: Sequence[str], asked: Question, random: Random) -> tuple[Card, ...]:
        """Return the cards of some workers for an episode."""
        cards = tuple(self._cards[name] for name in workers)
        if self._settings.disguise:
            cards = disguised(cards, random)
        if not self._settings.probes:
            return cards
        day = _FIRST_DAY + timedelta(days=random.randrange(365))
        columns = [self._measured(kind, workers, asked, day, random) for kind in self._kinds(asked, random)]
        measured = zip(*columns, strict=True) if columns else [()] * len(cards)
        return tuple(
            replace(card, measured=tuple(rates)) for card, rates in zip(cards, measured, strict=True)
        )

    def _kinds(self, asked: Question, random: Random) -> list[str]:
        """Return the kinds that are shown: the kind of the question, and others, in random order.

        A kind is left out if there is no question on which it can be measured.
        """
        free = [kind for kind in self._questions if self._free(kind, asked)]
        others = [kind for kind in free if kind != asked.kind]
        found = [asked.kind] if asked.kind in free else []
        found += random.sample(others, min(self._settings.shown_kinds - 1, len(others)))
        random.shuffle(found)
        return found

    def _free(self, kind: str, asked: Question) -> list[Question]:
        return [question for question in self._questions[kind] if question.key != asked.key]

    def _measured(
        self, name: str, workers: Sequence[str], asked: Question, day: date, random: Random
    ) -> tuple[MeasuredRate, ...]:
        free = self._free(name, asked)
        drawn = random.sample(free, min(self._settings.probes, len(free)))
        right = [0.0] * len(workers)
        for question in drawn:
            turn = random.randrange(60)
            for place, worker in enumerate(workers):
                samples = self._recordings.samples(question, worker)
                right[place] += samples[turn % len(samples)].score or 0.0
        prior = [self._priors[name][worker] for worker in workers]
        kind = Kind(name, tuple(question.text for question in drawn))
        return measured_rates(kind, prior=prior, right=right, answers=len(drawn), day=day)

    def _tally(self, questions: Iterable[Question], worker: str) -> Tally:
        scores = [
            sample.score or 0.0
            for question in questions
            for sample in self._recordings.samples(question, worker)[:1]
        ]
        return Tally(sum(scores), len(scores))
