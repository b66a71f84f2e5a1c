"""`podium shadow`: what a candidate did beside its primary, as a table or as JSON."""

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from time import time
from typing import Any

import anyio
from rich.table import Table
from rich.text import Text

from podium.cli.arguments import load, shared_cache_of
from podium.cli.run_lookup import when
from podium.cli.screen import Screen
from podium.errors import ConfigError
from podium.journal import Journal, SqlJournal
from podium_shadow import Report, SqlPairs, report
from podium_shadow.judge import Judge, Judged, Means, Scorer
from podium_shadow.statistics import Estimate, Share

_DROPPED = {
    "busy": "candidates were busy",
    "unfunded": "no budget left",
    "abandoned": "the primary gave no answer",
    "unread": "not readable",
    "cut_off": "cut off by a close",
    "unrecorded": "not recorded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """What is compared, and how, as it was typed."""

    name: str | None
    since: float | None
    """Seconds ago; `None` means ever."""
    limit: int
    judge: str | None
    judge_calls: int
    scorer: str | None
    confidence: float
    seed: int


def show_report(
    screen: Screen, journal: Journal, config: Path | None, compare: Compare, *, as_json: bool
) -> None:
    """Show what is known of each shadow.

    Raises:
        ConfigError: a worker, function or number that was named is none.
        JournalError: the pairs cannot be read.
        WorkerFailed: the scorer failed.
    """
    reports = anyio.run(
        partial(
            report,
            _pairs(journal),
            shadow=compare.name,
            since=0.0 if compare.since is None else time() - compare.since,
            limit=compare.limit,
            judge=None if compare.judge is None else _judge(config, compare.judge, compare.judge_calls),
            scorer=None if compare.scorer is None else _scorer(compare.scorer),
            confidence=compare.confidence,
            seed=compare.seed,
        )
    )
    if as_json:
        screen.result_json([asdict(each) for each in reports])
    elif not reports:
        screen.note(
            "podium: nothing is recorded of " + (f"shadow {compare.name!r}" if compare.name else "any shadow")
        )
    for each in () if as_json else reports:
        screen.draw(Text(screen.shown("\n".join(_head(each)))), _table(each), Text("\n".join(_foot(each))))


def prune_pairs(screen: Screen, journal: Journal, older_than: float) -> None:
    """Forget pairs that were recorded longer ago than this, in seconds."""
    forgot = anyio.run(_pairs(journal).prune, older_than)
    screen.note(f"podium: forgot {forgot} pair{'' if forgot == 1 else 's'}")


def _pairs(journal: Journal) -> SqlPairs:
    assert isinstance(journal, SqlJournal)
    return SqlPairs.beside(journal)


def _judge(config: Path | None, name: str, calls: int) -> Judge:
    loaded = load(config)
    if name not in loaded.worker_names:
        told = ", ".join(loaded.worker_names) or "none"
        raise ConfigError(f"--judge {name!r} is no worker of {loaded.path}: there are {told}")
    return Judge(loaded.worker(name), calls=calls, cache=shared_cache_of(config))


def _scorer(typed: str) -> Scorer:
    """Return the function that is named, looked for here first, as `python -m` does."""
    module, colon, name = typed.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"--scorer {typed!r}: write MODULE:FUNCTION, as in scoring:exactness")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"--scorer {typed!r} cannot be imported: {error}") from error
    finally:
        sys.path.remove(str(Path.cwd()))
    if not callable(found):
        raise ConfigError(f"--scorer {typed!r} is {type(found).__name__}: name a function")
    scorer: Scorer = found
    return scorer


def _head(of: Report) -> Iterator[str]:
    yield f"Shadow {of.shadow}: {of.pairs:,} pair{'' if of.pairs == 1 else 's'}" + (
        "" if of.first is None or of.last is None else f", {when(of.first)} to {when(of.last)}"
    )
    yield f"{of.requests['seen']:,} requests, {of.requests['sampled']:,} drawn" + "".join(
        f"; {of.requests[key]:,} dropped: {why}" for key, why in _DROPPED.items() if of.requests[key]
    )


def _table(of: Report) -> Table:
    percent = f"{of.confidence * 100:g} %"
    table = Table("", "primary", "candidate", f"candidate to primary ({percent})", "pairs")
    table.add_row("failed", _share(of.primary_failed), _share(of.candidate_failed), "", f"{of.pairs:,}")
    table.add_row("timed out", "", _share(of.candidate_timeouts), "", f"{of.pairs:,}")
    seconds = of.seconds
    medians = _estimate(seconds.primary_median), _estimate(seconds.candidate_median)
    table.add_row("median seconds", *medians, _estimate(seconds.ratio, "×"), f"{seconds.of:,}")
    table.add_row(
        "p95 seconds", _estimate(seconds.primary_p95), _estimate(seconds.candidate_p95), "", f"{seconds.of:,}"
    )
    for name, means, unit in (("calls", of.calls, ""), ("tokens", of.tokens, ""), ("cost", of.cost, "$")):
        table.add_row(name, *_means(means, unit))
    if of.scores is not None:
        table.add_row("score", *_means(of.scores, ""))
    return table


def _foot(of: Report) -> Iterator[str]:
    yield f"Equal answers: {_share(of.equal)} of {of.equal.of:,}"
    if of.judged is not None:
        yield _told(of.judged)
    yield (
        f"In brackets what {of.confidence * 100:g} % confidence allows: Wilson's interval of shares, "
        f"the exact one of medians and percentiles, a bootstrap over pairs (seed {of.seed}) of the rest."
    )


def _told(judged: Judged) -> str:
    cost = "cost unknown" if judged.cost is None else f"${judged.cost:.4f}"
    return (
        f"Judged by {judged.judge}: better {_share(judged.better)}, worse {_share(judged.worse)}, "
        f"as good {_share(judged.ties)} of {judged.better.of:,}; {judged.unjudged:,} without a verdict, "
        f"{judged.failed:,} of them since the judge gave none; {judged.calls:,} calls, "
        f"{judged.known:,} known, {cost}"
    )


def _means(means: Means, unit: str) -> tuple[str, str, str, str]:
    first, second = [
        "unknown" if value is None else f"{unit}{_number(value)}"
        for value in (means.primary, means.candidate)
    ]
    difference = _estimate(means.difference, f"by {unit}")
    return first, second, f"{_estimate(means.ratio, '×')}, {difference}" if means.of else "", f"{means.of:,}"


def _share(share: Share) -> str:
    value, low, high = share.share.value, share.share.low, share.share.high
    if value is None or low is None or high is None:
        return "unknown"
    return f"{value * 100:.1f} % ({low * 100:.1f} to {high * 100:.1f})"


def _estimate(estimate: Estimate, mark: str = "") -> str:
    if estimate.value is None:
        return "unknown"
    ends = ["?" if end is None else _number(end) for end in (estimate.low, estimate.high)]
    return f"{mark}{_number(estimate.value)} ({' to '.join(ends)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
