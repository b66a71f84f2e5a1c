"""Measures how much probes (a few graded questions of a new kind) gain, by their number.

Each kind of a recording is the new kind in turn. The scores of workers on the other kinds are the prior. Some
questions of the new kind are drawn as probes. Workers answer the probes, and the worker with the best rate
answers the other questions of the kind. This is repeated for several draws of the probes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from podium_evals.calibration.allocation import asked_next
from podium_evals.calibration.rates import Floats, estimates
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Recordings
from podium_evals.statistics import Interval, Resampling, interval_of_mean

Asked = Literal["all", "likely"]
"""Which workers are asked the probes: all workers, or only workers that are still likely to be the best."""
COUNTS = (1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePoint:
    """The gain of a number of probes. Intervals are about other kinds."""

    probes: int
    """The number of probes of a kind."""
    asked: Asked
    calls: float
    """The mean number of calls for a kind."""
    score: Interval
    """The mean score on the other questions of the kind."""
    gain: Interval
    """The difference to the best single worker, on the same questions."""
    lost: Interval
    """The difference to asking all workers the probes, on the same questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCurve:
    """The gain of probes, by their number."""

    kinds: int
    questions: int
    workers: tuple[str, ...]
    draws: int
    best_single: Interval
    """The score without probes: the worker that is best on the other kinds answers."""
    points: tuple[ProbePoint, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the curve as JSON values, unrounded."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _KindTable:
    """The scores of a kind as arrays."""

    samples: Sequence[Floats]
    """The scores of single samples: a list of arrays of shape (questions, workers)."""
    means: Floats
    """The mean of all samples, shape (questions, workers)."""
    prior: Floats
    """The expected rate of each worker."""


def probe_curve(
    recordings: Recordings, *, counts: Sequence[int] = COUNTS, draws: int = 40, seed: int = 0
) -> ProbeCurve:
    """Measure the gain of probes over the best single worker.

    Args:
        recordings: graded answers. Each worker has answered each question.
        counts: the numbers of probes. Kinds without more questions than the highest are left out.
        draws: the number of draws of the probes of each kind.
        seed: the seed of the draws.

    Raises:
        ArmUnfit: fewer than two kinds have enough questions, or there are fewer than two workers.
    """
    most = max(counts)
    tables = list(_tables(recordings, most))
    if len(tables) < 2 or len(recordings.workers) < 2:
        told = f"{len(tables)} kinds with more than {most} questions, {len(recordings.workers)} workers"
        raise ArmUnfit(f"probes need two kinds and two workers: there are {told}")
    random = np.random.default_rng(seed)
    found = [_of_kind(table, counts, draws, random) for table in tables]
    clusters = [str(number) for number, table in enumerate(tables) for _ in table.means]
    resampling = Resampling(clusters, unit="kind")
    single = np.concatenate([table.means[:, table.prior.argmax()] for table in tables])
    points: list[ProbePoint] = []
    for at, count in enumerate(counts):
        scores = [np.concatenate([each.scores[way][at] for each in found]) for way in range(2)]
        for way, asked in enumerate(("all", "likely")):
            points.append(
                ProbePoint(
                    probes=count,
                    asked=asked,  # type: ignore[arg-type]
                    calls=float(np.mean([each.calls[way][at] for each in found])),
                    score=interval_of_mean(scores[way].tolist(), resampling),
                    gain=interval_of_mean((scores[way] - single).tolist(), resampling),
                    lost=interval_of_mean((scores[way] - scores[0]).tolist(), resampling),
                )
            )
    return ProbeCurve(
        kinds=len(tables),
        questions=len(clusters),
        workers=recordings.workers,
        draws=draws,
        best_single=interval_of_mean(single.tolist(), resampling),
        points=tuple(points),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    scores: NDArray[np.float64]
    """Shape (2 ways, counts, questions): the mean over the draws in which the question was no probe."""
    calls: NDArray[np.float64]
    """Shape (2 ways, counts)."""


def _of_kind(table: _KindTable, counts: Sequence[int], draws: int, random: np.random.Generator) -> _Found:
    questions = len(table.means)
    sums, times = (np.zeros((2, len(counts), questions)) for _ in range(2))
    calls = np.zeros((2, len(counts)))
    for draw in range(draws):
        order = random.permutation(questions)
        answers = table.samples[draw % len(table.samples)][order]
        for way, choices in enumerate((_ask_all, _ask_likely)):
            for at, (worker, made) in enumerate(choices(answers, table.prior, counts)):
                rest = order[counts[at] :]
                sums[way, at, rest] += table.means[rest, worker]
                times[way, at, rest] += 1
                calls[way, at] += made / draws
    # A question that was a probe in all draws gets the mean score of the other questions.
    fallback = sums.sum(axis=2, keepdims=True) / times.sum(axis=2, keepdims=True)
    scores = np.where(times > 0, sums / np.maximum(times, 1), fallback)
    return _Found(scores, calls)


def _ask_all(answers: Floats, prior: Floats, counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the chosen worker and the number of calls, for each number of probes."""
    for count in counts:
        asked = np.full(len(prior), float(count))
        yield int(estimates(prior, answers[:count].sum(axis=0), asked).argmax()), count * len(prior)


def _ask_likely(answers: Floats, prior: Floats, counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the same if only likely workers are asked."""
    right, asked = np.zeros(len(prior)), np.zeros(len(prior))
    for turn in range(max(counts)):
        is_asked = asked_next(prior, right, asked)
        right, asked = right + np.where(is_asked, answers[turn], 0.0), asked + is_asked
        if turn + 1 in counts:
            yield int(estimates(prior, right, asked).argmax()), int(asked.sum())


def _tables(recordings: Recordings, most: int) -> Iterator[_KindTable]:
    """Yield the tables of the kinds that have more than `most` questions."""
    workers = recordings.workers
    of_kind: dict[str, list[list[tuple[float, ...]]]] = {}
    for question in recordings.questions:
        row = [
            tuple(sample.score or 0.0 for sample in recordings.samples(question, worker))
            for worker in workers
        ]
        of_kind.setdefault(question.kind, []).append(row)
    means = {
        kind: np.asarray([[float(np.mean(samples)) for samples in row] for row in rows])
        for kind, rows in of_kind.items()
    }
    total, count = sum(each.sum(axis=0) for each in means.values()), sum(map(len, means.values()))
    for kind, rows in sorted(of_kind.items()):
        if len(rows) <= most:
            continue
        of_samples = range(max(len(samples) for row in rows for samples in row))
        yield _KindTable(
            samples=[
                np.asarray([[samples[number % len(samples)] for samples in row] for row in rows])
                for number in of_samples
            ],
            means=means[kind],
            prior=(total - means[kind].sum(axis=0) + 1) / (count - len(rows) + 2),
        )
