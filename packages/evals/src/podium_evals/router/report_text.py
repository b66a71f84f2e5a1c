"""Prints the report of a router's training."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from podium.cli.screen import Screen
from podium_evals.results import rounding
from podium_evals.router.tiers import Tier
from podium_evals.router.training import TrainingReport
from podium_evals.statistics import Interval


def show_training(screen: Screen, report: TrainingReport) -> None:
    """Print a report to stdout."""
    found = " found by clustering" if report.kinds_are_found else ""
    half = "Workers, on the half of the questions that the measured router was not fitted on:"
    screen.result(f"{report.questions:,} questions of {report.kinds} kinds{found}; data {report.fingerprint}")
    screen.draw(Text(half), _table(screen, report))
    for line in (*_errors(report), *(gain.sentence for gain in report.gains), *_tier(report.tier)):
        screen.result(screen.shown(line))
    if all(gain.new == "questions" for gain in report.gains):
        screen.result("The gain on new kinds is unknown: there are too few kinds to leave some out.")


def _table(screen: Screen, report: TrainingReport) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("worker", overflow="fold")
    for title in ("score", "$/1000", "calibration error"):
        table.add_column(title, justify="right", no_wrap=True)
    for worker in report.workers:
        cells = (rounding.score(worker.score), rounding.per_thousand(worker.cost))
        table.add_row(Text(screen.shown(worker.name)), *cells, f"{worker.calibration_error:.3f}")
    return table


def _errors(report: TrainingReport) -> Iterator[str]:
    count = len(report.workers)
    before = sum(worker.calibration_error_before for worker in report.workers) / count
    after = sum(worker.calibration_error for worker in report.workers) / count
    yield f"Mean calibration error: {after:.3f} (before calibration {before:.3f})."
    if report.is_estimated:
        yield "Costs are estimated from texts. They are too low for models that reason."


def _tier(tier: Tier | None) -> Iterator[str]:
    if tier is None:
        return
    wanted = f"quality {tier.goal.value:g}" if tier.goal.of == "quality" else f"price ${tier.goal.value:g}"
    reached = tier.reached
    yield (
        f"Tier for {wanted}: a right answer is worth ${tier.chosen.worth:.4g}. On the other half it reaches "
        f"a score of {rounding.score(reached.quality.mean)} ({_ends(reached.quality, '.3f')}) at "
        f"${reached.cost.mean:.3g} a question ({_ends(reached.cost, '.2g')})."
    )
    is_missed = (
        reached.quality.mean < tier.goal.value
        if tier.goal.of == "quality"
        else reached.cost.mean > tier.goal.value
    )
    if is_missed:
        yield f"This misses the wanted {tier.goal.of}."


def _ends(interval: Interval, spelling: str) -> str:
    return f"{interval.low:{spelling}} to {interval.high:{spelling}}"
