"""What of a recording belongs to which split: questions, kinds, workers, combinations of workers.

- Half of the questions of each kind are for training, as in `podium_evals.statistics.halves`; a part of them
  is for validation. Cards are measured on this half too. Held-out splits ask questions of the other half.
- Some kinds, workers and combinations of workers are in no episode of `train` and `validation`.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations, islice
from math import comb
from random import Random

import numpy as np

from podium.errors import ConfigError
from podium_evals.recorded import Question, Recordings
from podium_evals.statistics import halves
from podium_train.environments.environment import Split
from podium_train.environments.recorded.settings import RecordedSettings
from podium_train.pools import PoolDraw

_VALIDATION = 0.15
_MOST_LISTED = 5000


class Partition:
    """The parts of a recording.

    Args:
        recordings: recorded answers; each worker has answered each question.
        settings: what is held out.

    Raises:
        ConfigError: there are too few workers or questions.
    """

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
        pool = [new, *self._pools.sizes.draw(others, random)[1:]]
        random.shuffle(pool)
        return tuple(pool)

    def is_held_mix(self, pool: Iterable[str]) -> bool:
        """Return whether a combination of known workers is held out."""
        return self._pools.is_held(frozenset(pool))


class _Pools:
    """Combinations of workers, some of which are held out."""

    def __init__(self, workers: Sequence[str], settings: RecordedSettings) -> None:
        self.sizes = PoolDraw(sizes=settings.sizes)
        self._workers, self._share, self._seed = workers, settings.held_out, settings.split_seed
        self._limits = {size: self._limit(size) for size in set(settings.sizes)}
        self.has_held = any(limit > 0 for limit in self._limits.values())

    def draw(self, random: Random, *, held: bool) -> tuple[str, ...]:
        while True:
            pool = self.sizes.draw(self._workers, random)
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
