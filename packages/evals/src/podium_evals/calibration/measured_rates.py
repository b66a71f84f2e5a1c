"""Makes the contents of a file of measured rates from graded answers."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256

import numpy as np

from podium.workers import Worker
from podium.workers.rates import KindEntry, MeasuredFile, RateEntry, identity_of
from podium_evals.calibration.rates import Tallies, Tally, estimates, intervals, priors
from podium_evals.recorded import Sample
from podium_evals.recording import QuestionRow


def tallies_of(measured: MeasuredFile) -> dict[str, Mapping[str, Tally]]:
    """Return the tallies of answers in a file of rates."""
    return {
        kind: {name: Tally(rate.right, rate.answers) for name, rate in entry.rates.items()}
        for kind, entry in measured.kinds.items()
    }


def still_valid(
    measured: MeasuredFile, identities: Mapping[str, str]
) -> tuple[MeasuredFile, tuple[tuple[str, str], ...]]:
    """Remove the rates of workers that have changed. Return the other rates, and what was removed.

    Args:
        measured: the file.
        identities: the current digests of the workers; rates of workers that are not listed stay.
    """
    stale = tuple(
        (name, kind)
        for kind, entry in measured.kinds.items()
        for name, rate in entry.rates.items()
        if identities.get(name, rate.identity) != rate.identity
    )
    kinds: dict[str, KindEntry] = {}
    for kind, entry in measured.kinds.items():
        kept = {name: rate for name, rate in entry.rates.items() if (name, kind) not in stale}
        if kept:
            kinds[kind] = entry.model_copy(update={"rates": kept})
    return MeasuredFile(kinds=kinds), stale


def kind_entry(
    rows: Sequence[QuestionRow], samples: Mapping[Worker, Sequence[Sample]], tallies: Mapping[str, Tally]
) -> KindEntry | None:
    """Return the answers on a kind as an entry without rates (see `with_rates`); `None` without answers.

    Args:
        rows: the questions.
        samples: the answers of each worker.
        tallies: their grades.
    """
    if not tallies:
        return None
    days = {sample.asked_on for each in samples.values() for sample in each if sample.asked_on is not None}
    rates = {
        worker.card.name: RateEntry(
            identity=identity_of(worker),
            answers=tallies[worker.card.name].answers,
            right=tallies[worker.card.name].right,
            prior=0.0,
            rate=0.0,
            low=0.0,
            high=0.0,
            cost=_cost(worker, given),
        )
        for worker, given in samples.items()
        if given
    }
    return KindEntry(
        measured_on=max(days, default=datetime.now(UTC).date()),
        fingerprint=_fingerprint(rows),
        questions=tuple(row.question.text for row in rows),
        rates=rates,
    )


def with_rates(measured: MeasuredFile) -> MeasuredFile:
    """Compute the priors, rates and intervals of a file from its answers."""
    tallies = tallies_of(measured)
    kinds = {kind: _estimated(entry, kind, tallies) for kind, entry in measured.kinds.items()}
    return MeasuredFile(kinds=kinds)


def _estimated(entry: KindEntry, kind: str, tallies: Tallies) -> KindEntry:
    names = list(entry.rates)
    prior = priors(names, kind, tallies)
    right = np.asarray([entry.rates[name].right for name in names])
    answers = np.asarray([entry.rates[name].answers for name in names], dtype=np.float64)
    computed = (prior, estimates(prior, right, answers), *intervals(prior, right, answers))
    rates = {
        name: entry.rates[name].model_copy(
            update=dict(zip(("prior", "rate", "low", "high"), map(_rounded, values), strict=True))
        )
        for name, *values in zip(names, *computed, strict=True)
    }
    return entry.model_copy(update={"rates": rates})


def _rounded(value: float) -> float:
    return round(float(value), 6)


def _cost(worker: Worker, samples: Sequence[Sample]) -> float | None:
    if not worker.uses_tokens:
        return 0.0
    price = worker.card.price
    if price is None or any(sample.usage is None for sample in samples):
        return None
    return round(sum(price.cost(sample.usage) for sample in samples if sample.usage is not None), 9)


def _fingerprint(rows: Sequence[QuestionRow]) -> str:
    told = sorted(f"{row.question.key} {row.row.get('answer')}" for row in rows)
    return sha256("\n".join(told).encode("utf-8", "surrogatepass")).hexdigest()[:16]
