"""`podium evals shadow`: compare candidates with the production system, and delete recorded pairs."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from time import time
from typing import Annotated, Any

import anyio
import typer
from rich.table import Table
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath, age, local_time, span
from podium.cli.root import command_group
from podium.cli.screen import Screen, reporting
from podium.config import find_config, load_config
from podium.config.load import find_journal, find_shared_cache
from podium.errors import ConfigError
from podium.journal import SqlJournal
from podium_shadow.judge import Judge, Judged, Means, Scorer
from podium_shadow.pairs import SqlPairs
from podium_shadow.report import Report, report as compare
from podium_shadow.statistics import Estimate, Share

shadow = command_group("shadow")


@shadow.callback()
def about() -> None:
    """Compare candidates with the production system."""


@shadow.command()
def report(  # noqa: PLR0913 - one parameter for each argument and option
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The name of the shadow; default all.")
    ] = None,
    *,
    since: Annotated[
        float | None,
        typer.Option(parser=span, metavar="SPAN", help="Only pairs of the last 12h, 30d, 8w."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of pairs; the latest are used.")] = 10_000,
    judge: Annotated[
        str | None,
        typer.Option(metavar="WORKER", help="A worker of the config that judges answers that differ."),
    ] = None,
    judge_calls: Annotated[int, typer.Option(min=1, help="Maximum number of calls of the judge.")] = 100,
    scorer: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Score each answer: a function of question and answer."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.")] = 0,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Compare a candidate's answers, latency, calls, tokens and cost with the primary's."""
    with reporting() as screen:
        reports = anyio.run(
            partial(
                compare,
                _pairs(config),
                shadow=name,
                since=0.0 if since is None else time() - since,
                limit=limit,
                judge=None if judge is None else _judge(config, judge, judge_calls),
                scorer=None if scorer is None else _scorer(scorer),
                confidence=confidence,
                seed=seed,
            )
        )
        if as_json:
            screen.result_json([asdict(each) for each in reports])
            return
        if not reports:
            of = f"shadow {name!r}" if name else "any shadow"
            screen.note(f"podium: there are no pairs of {of}")
        for each in reports:
            draw_report(screen, each)


@shadow.command()
def prune(
    *,
    older_than: Annotated[float, typer.Option(parser=age, metavar="AGE", help="Minimum age: 12h, 30d, 8w.")],
    config: ConfigPath = None,
) -> None:
    """Delete the pairs that are older than a time span."""
    with reporting() as screen:
        forgot = anyio.run(_pairs(config).prune, older_than)
        screen.note(f"podium: forgot {forgot} pair{'' if forgot == 1 else 's'}")


def _pairs(config: Path | None) -> SqlPairs:
    journal = find_journal(config)
    assert isinstance(journal, SqlJournal)  # the config creates only this class
    return SqlPairs.beside(journal)


def _judge(config: Path | None, name: str, calls: int) -> Judge:
    loaded = load_config(find_config(config))
    if name not in loaded.worker_names:
        told = ", ".join(loaded.worker_names) or "none"
        raise ConfigError(f"--judge {name!r} is not a worker of {loaded.path}: its workers are {told}")
    return Judge(loaded.worker(name), calls=calls, cache=find_shared_cache(config))


def _scorer(typed: str) -> Scorer:
    """Return the function `MODULE:FUNCTION`, searching the current folder first, like `python -m`."""
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
        raise ConfigError(f"--scorer {typed!r} is {type(found).__name__}: it must be a function")
    scorer: Scorer = found
    return scorer


_DROPPED = {
    "busy": "candidates were busy",
    "unfunded": "no budget left",
    "abandoned": "no answer of the primary",
    "unread": "not readable",
    "cut_off": "cut off by a close",
    "unrecorded": "not recorded",
}


def draw_report(screen: Screen, report: Report) -> None:
    """Draw a report on stdout."""
    head, foot = screen.shown("\n".join(_head(report))), "\n".join(_foot(report))
    screen.draw(Text(head), _table(report), Text(foot))


def _head(of: Report) -> Iterator[str]:
    yield f"Shadow {of.shadow}: {of.pairs:,} pair{'' if of.pairs == 1 else 's'}" + (
        "" if of.first is None or of.last is None else f", {local_time(of.first)} to {local_time(of.last)}"
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
        f"In brackets: {of.confidence * 100:g} % confidence intervals. Shares: Wilson's interval; "
        f"medians and percentiles: exact; other values: bootstrap over pairs (seed {of.seed})."
    )


def _told(judged: Judged) -> str:
    cost = "cost unknown" if judged.cost is None else f"${judged.cost:.4f}"
    return (
        f"Judged by {judged.judge}: better {_share(judged.better)}, worse {_share(judged.worse)}, "
        f"equal {_share(judged.ties)} of {judged.better.of:,}; {judged.unjudged:,} without a verdict, "
        f"{judged.failed:,} of them because the judge returned none; {judged.calls:,} calls, "
        f"{judged.known:,} from the cache, {cost}"
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
