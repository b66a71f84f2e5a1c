"""Prints the gain of probes as a table of 80 columns."""

from rich.table import Table
from rich.text import Text

from podium.cli.screen import Screen
from podium_evals.calibration.probe_curve import ProbeCurve
from podium_evals.results import rounding


def draw_probes(screen: Screen, curve: ProbeCurve, about: str) -> None:
    """Print the gain of probes to stdout."""
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("questions", "asked", "calls", "score", "gain", "95 %", "lost", "95 %"):
        table.add_column(title, justify="left" if title == "asked" else "right", no_wrap=True)
    for point in curve.points:
        lost = point.asked == "likely"
        table.add_row(
            str(point.probes),
            point.asked,
            rounding.count(point.calls),
            rounding.score(point.score.mean),
            rounding.gain(point.gain.mean),
            rounding.interval(point.gain),
            rounding.gain(point.lost.mean) if lost else "",
            rounding.interval(point.lost) if lost else "",
        )
    head = (
        f"{about}: {len(curve.workers)} workers, {curve.questions:,} questions of {curve.kinds} kinds\n"
        f"Best single, chosen on the other kinds: {rounding.score(curve.best_single.mean)}"
    )
    foot = (
        "Each kind is left out in turn. questions: graded questions of the new kind. asked: all "
        "workers, or only likely best workers. calls: for a kind. gain: over the "
        "best single. lost: compared with asking all. Scores are about the kind's "
        f"other questions, means of {curve.draws} draws. Intervals are about other kinds."
    )
    screen.draw(Text(screen.shown(head)), table, Text(screen.shown(foot)))
