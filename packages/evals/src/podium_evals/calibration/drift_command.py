"""`podium drift`: report workers whose recent answers do not fit their measured rates."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.table import Table
from rich.text import Text

from podium.cli import EXIT_CODES, AsJson, ConfigPath, Screen, reporting
from podium.config import find_config, find_journal, load_config
from podium.errors import ConfigError
from podium.workers import read_measured
from podium_evals.calibration.drift import ALPHA, Drift, find_drift
from podium_evals.calibration.graded_runs import RecentAnswers, read_scores, recent_answers

DRIFTED = 1
"""The exit code if a worker has drifted."""

drift = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXIT_CODES)


@drift.command("drift", epilog=EXIT_CODES)
def check(
    scores: Annotated[
        Path, typer.Argument(metavar="SCORES", help="JSON lines with `run` (an id) and `score` (0 to 1).")
    ],
    *,
    measured: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file of measured rates. Default: measured in [pool]."),
    ] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Report workers whose recent answers do not fit their measured rates."""
    with reporting() as screen:
        loaded = load_config(find_config(config))
        path = measured or loaded.measured_path
        if path is None:
            raise ConfigError(f"{loaded.path} names no file of rates: set [pool] measured, or use --measured")
        rates, given = read_measured(path), read_scores(scores)
        recent = anyio.run(recent_answers, find_journal(config), given, rates)
        found = find_drift(rates, recent.tallies)
        if as_json:
            screen.result_json({"pairs": [_json(each) for each in found], "left_out": dict(recent.left_out)})
        else:
            _draw(screen, found, recent)
        if any(each.has_drifted for each in found):
            raise typer.Exit(DRIFTED)


def _draw(screen: Screen, found: Sequence[Drift], recent: RecentAnswers) -> None:
    for reason, number in recent.left_out.most_common():
        screen.note(f"podium: {number} left out: {reason}")
    if not found:
        screen.result("There are no recent answers to questions of measured kinds.")
        return
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("worker", overflow="fold", min_width=12)
    table.add_column("kind", overflow="fold", min_width=12)
    for title in ("measured", "recent", "expected", "p"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in found:
        table.add_row(
            Text(screen.shown(each.worker)),
            Text(screen.shown(each.kind)),
            f"{each.measured.right:.4g} of {each.measured.answers}",
            f"{each.recent.right:.4g} of {each.recent.answers}",
            f"{each.low} to {each.high}",
            f"{each.p:.3f}",
        )
    screen.draw(table)
    drifted = [each for each in found if each.has_drifted]
    for each in drifted:
        better = each.recent.right > each.high
        screen.result(
            f"{each.worker} has become {'better' if better else 'worse'} on {each.kind}: "
            f"{each.recent.right:.4g} of {each.recent.answers} right, expected {each.low} to {each.high}."
        )
    if not drifted:
        screen.result("No worker has drifted.")
    screen.result(
        f"If no worker has changed, a check reports a worker with a probability of at most {ALPHA:.0%}."
    )


def _json(each: Drift) -> dict[str, object]:
    return asdict(each) | {
        "measured": each.measured.model_dump(mode="json"),
        "drifted": each.has_drifted,
    }
