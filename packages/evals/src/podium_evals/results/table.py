"""Prints a comparison of arms as a table of 80 columns."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from podium.cli.screen import Screen
from podium_evals.arms import ROUTING_ORACLE, ArmResult
from podium_evals.results import rounding
from podium_evals.results.report import Report

_NEW = {
    "questions": "other questions of the same kinds; arms are fitted on the other half of each kind",
    "kinds": "other kinds; the kinds that arms are asked are not the kinds they are fitted on",
    "workers": "other questions; one worker at a time is missing when arms are fitted",
}


def draw_report(screen: Screen, report: Report) -> None:
    """Print a report to stdout."""
    head, foot = "\n".join(_head(report)), "\n".join(_foot(report))
    screen.draw(Text(screen.shown(head)), _table(screen, report), Text(screen.shown(foot)))


def _head(report: Report) -> Iterator[str]:
    asked, setting = report.arms[0].questions, report.setting
    what = "bundles" if setting.bundles is not None else "questions"
    yield f"{report.recording}, pool {report.pool}: {len(report.workers)} workers, {asked:,} {what} asked"
    yield f"Intervals are about {_NEW[setting.split]}."


def _table(screen: Screen, report: Report) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("arm", overflow="fold", min_width=14)
    for title in ("score", "gain", "alone", "together", "calls", "empty", "$/1000", "s"):
        table.add_column(title, justify="right", no_wrap=True)
    for arm in report.arms:
        table.add_row(Text(screen.shown(arm.name + ("" if arm.achievable else " *"))), *_cells(arm))
    return table


def _cells(arm: ArmResult) -> Iterator[str]:
    yield rounding.score(None if arm.score is None else arm.score.mean)
    if arm.difference is None:
        yield from (rounding.UNKNOWN, "", "")
    else:
        yield rounding.gain(arm.difference.alone.mean)
        yield rounding.interval(arm.difference.alone)
        yield rounding.interval(arm.difference.together)
    yield rounding.count(arm.calls)
    yield rounding.percent(arm.empty)
    yield rounding.per_thousand(arm.cost)
    yield rounding.seconds(arm.latency_s)


def _foot(report: Report) -> Iterator[str]:
    best = [each.name for each in report.workers if each.best_in]
    yield (
        f"gain: above {report.base} ({', '.join(best)}), with 95 % intervals, alone and for all arms "
        "together. Scores and gains are rounded down, intervals outwards, other figures up."
    )
    yield from _about_marked(report)
    if report.setting.bundles is not None:
        yield "Single workers are asked each part of a bundle in a separate call. This favours them."
    if report.is_estimated:
        yield "The tokens of some answers were not recorded, so their costs are not known."
    yield "empty: answers without text, or that the source could not read, in per cent."
    dates = sorted({each.price_source[-10:] for each in report.workers if each.price_source})
    if dates:
        yield f"Prices of {dates[0]}." if len(dates) == 1 else f"Prices of {dates[0]} to {dates[-1]}."
    for arm in report.arms:
        if arm.unfit:
            yield f"{arm.name} was not asked: {arm.unfit}"
        elif arm.recorded < arm.questions:
            missing = arm.questions - arm.recorded
            yield (
                f"{arm.name}: {missing:,} of {arm.questions:,} are not recorded, the first because "
                f"{arm.unrecorded}"
            )
            if arm.base_score is not None:
                told = rounding.score(arm.base_score)
                yield f"On the other {arm.recorded:,}, the {report.base} has {told}."
    if report.provenance is not None:
        yield f"Answers: {report.provenance.source} ({report.provenance.licence or 'no licence stated'})"


def _about_marked(report: Report) -> Iterator[str]:
    if not all(arm.achievable for arm in report.arms):
        yield "* This arm reads the right answers: it is not a result."
    if any(arm.name == ROUTING_ORACLE for arm in report.arms):
        yield (
            f"The {ROUTING_ORACLE} is an estimate and no bound: the other samples of a question choose its "
            "worker, so an arm can be above it."
        )
