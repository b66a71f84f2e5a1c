"""Draw a report as a table, for `podium evals shadow report`."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from podium.cli.arguments import local_time
from podium.cli.screen import Screen
from podium_shadow.comparison import Report
from podium_shadow.judge import Judged, Means
from podium_shadow.statistics import Estimate, Share

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
