"""Compare the two sides of a shadow's pairs, with confidence intervals."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields

from podium.errors import ConfigError
from podium_shadow.judge import Judge, Judged, Means, Scorer, means, score
from podium_shadow.pairs import MOST_PAIRS, Pair, Side, SqlPairs, Tally
from podium_shadow.statistics import Estimate, Share, quantile, share


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds from question to answer, over the pairs in which both sides have an answer and a time."""

    of: int
    primary_median: Estimate
    candidate_median: Estimate
    primary_p95: Estimate
    candidate_p95: Estimate
    ratio: Estimate
    """The median over pairs of the candidate's time divided by the primary's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The comparison of one shadow."""

    shadow: str
    pairs: int
    first: float | None
    """When the first pair was recorded, in seconds of Unix time; `None` if there are no pairs."""
    last: float | None
    requests: dict[str, int]
    """The number of requests for each field of `Tally`."""
    confidence: float
    seed: int
    primary_failed: Share
    candidate_failed: Share
    candidate_timeouts: Share
    equal: Share
    """SqlPairs with equal answers (`Pair.is_equal`), of the pairs in which both sides answered."""
    judged: Judged | None
    """`None` without a judge."""
    scores: Means | None
    """`None` without a scorer."""
    seconds: Latency
    calls: Means
    tokens: Means
    cost: Means
    """In USD."""


async def report(  # noqa: PLR0913 - each says what is compared, or how
    pairs: SqlPairs,
    *,
    shadow: str | None = None,
    since: float = 0.0,
    limit: int = MOST_PAIRS,
    judge: Judge | None = None,
    scorer: Scorer | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Report, ...]:
    """Return a comparison of the two sides of each recorded shadow.

    Args:
        pairs: the store of the pairs.
        shadow: the name of one shadow; `None` means all.
        since: the oldest time, in seconds of Unix time; counts are of whole hours.
        limit: maximum number of pairs; the latest are used.
        judge: compares answers that differ; `None` compares none.
        scorer: scores each answer separately; `None` scores none.
        confidence: the confidence of all intervals, between 0 and 1.
        seed: the seed of the bootstrap and of the judge's order.

    Raises:
        ConfigError: the confidence is not between 0 and 1.
        JournalError: the pairs cannot be read.
        WorkerFailed: the scorer raised, or returned no number.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence is {confidence!r}: it must be between 0 and 1, as 0.95")
    async with pairs:
        found = await pairs.pairs(shadow=shadow, since=since, limit=limit)
        tallies = await pairs.tallies(shadow=shadow, since=since)
    grouped: dict[str, list[Pair]] = defaultdict(list)
    for pair in found:
        grouped[pair.shadow].append(pair)
    return tuple(
        [
            await _report(
                name,
                grouped[name],
                [tally for tally in tallies if tally.shadow == name],
                _How(judge, scorer, confidence, seed),
            )
            for name in sorted({*grouped, *(tally.shadow for tally in tallies)})
        ]
    )


@dataclass(frozen=True, slots=True)
class _How:
    """The options of a report."""

    judge: Judge | None
    scorer: Scorer | None
    confidence: float
    seed: int


async def _report(name: str, pairs: Sequence[Pair], tallies: Sequence[Tally], how: _How) -> Report:
    confidence, seed = how.confidence, how.seed
    both = [pair for pair in pairs if pair.primary.status == pair.candidate.status == "ok"]

    def of_all(has: Callable[[Pair], bool]) -> Share:
        return share(sum(map(has, pairs)), len(pairs), confidence)

    def taken(value: Callable[[Side], float | None]) -> Means:
        return means(list(_known(pairs, value)), confidence, seed)

    return Report(
        shadow=name,
        pairs=len(pairs),
        first=pairs[0].at if pairs else None,
        last=pairs[-1].at if pairs else None,
        requests=_summed(tallies),
        confidence=confidence,
        seed=seed,
        primary_failed=of_all(lambda pair: pair.primary.status != "ok"),
        candidate_failed=of_all(lambda pair: pair.candidate.status == "failed"),
        candidate_timeouts=of_all(lambda pair: pair.candidate.status == "timeout"),
        equal=share(sum(pair.is_equal for pair in both), len(both), confidence),
        judged=None if how.judge is None else await how.judge.judge(both, confidence, seed),
        scores=None if how.scorer is None else await score(both, how.scorer, confidence, seed),
        seconds=_latency(both, confidence),
        calls=taken(lambda side: side.spent.calls),
        tokens=taken(lambda side: None if side.spent.usage is None else side.spent.usage.total_tokens),
        cost=taken(lambda side: side.spent.cost),
    )


def _latency(both: Sequence[Pair], confidence: float) -> Latency:
    known = list(_known(both, lambda side: side.seconds))
    first, second = [pair[0] for pair in known], [pair[1] for pair in known]
    ratios = [candidate / primary for primary, candidate in known if primary > 0]
    return Latency(
        of=len(known),
        primary_median=quantile(first, 0.5, confidence),
        candidate_median=quantile(second, 0.5, confidence),
        primary_p95=quantile(first, 0.95, confidence),
        candidate_p95=quantile(second, 0.95, confidence),
        ratio=quantile(ratios, 0.5, confidence),
    )


def _known(pairs: Iterable[Pair], value: Callable[[Side], float | None]) -> Iterable[tuple[float, float]]:
    """Yield the values of both sides for the pairs in which both are known."""
    for pair in pairs:
        primary, candidate = value(pair.primary), value(pair.candidate)
        if primary is not None and candidate is not None:
            yield primary, candidate


def _summed(tallies: Sequence[Tally]) -> dict[str, int]:
    counts = [field.name for field in fields(Tally) if field.type is int]
    return {name: sum(getattr(tally, name) for tally in tallies) for name in counts}
