"""Writes the curve of a router to a file: JSON, CSV or SVG, depending on the ending of the file name."""

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from io import StringIO
from pathlib import Path

from podium.config.source import why_unwritable
from podium.errors import ConfigError
from podium_evals.router.figure import check_figures, draw_curve
from podium_evals.router.training import TrainingReport

_ENDINGS = (".json", ".csv", ".svg")


def check_curve_files(paths: Sequence[Path]) -> None:
    """Check that all files can be written, before the work begins.

    Raises:
        ConfigError: a file name has another ending, a folder is missing, or matplotlib is not installed.
    """
    for path in paths:
        if path.suffix not in _ENDINGS:
            raise ConfigError(f"--curve {path}: the name must end in {', '.join(_ENDINGS)}")
        check_folder("--curve", path)
    if any(path.suffix == ".svg" for path in paths):
        check_figures()


def check_folder(option: str, path: Path) -> None:
    """Check that the folder of a file exists.

    Raises:
        ConfigError: the folder is missing, or the path is a folder.
    """
    if path.is_dir():
        raise ConfigError(f"{option} {path} is a folder: give the path of a file")
    if not path.parent.is_dir():
        raise ConfigError(f"{option} {path}: there is no folder {path.parent}")


def write_curve(report: TrainingReport, path: Path) -> None:
    """Write the curve of a report, and the points of the single workers.

    CSV has the columns `name` (empty for the router, else a worker), `worth`, `quality`, `quality_low`,
    `quality_high`, `cost`, `cost_low` and `cost_high`; costs are USD for one question.

    Raises:
        ConfigError: the report has no curve, or the file cannot be written.
    """
    if not report.curve:
        unknown = next(worker.name for worker in report.workers if worker.cost is None)
        raise ConfigError(f"there is no curve: the price of {unknown} is not known")
    try:
        if path.suffix == ".svg":
            draw_curve(report, path)
        else:
            path.write_text(_json(report) if path.suffix == ".json" else _csv(report), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--curve {path} cannot be written: {why_unwritable(error)}") from error


def _json(report: TrainingReport) -> str:
    workers = [
        {"name": worker.name, "quality": worker.score, "cost": worker.cost} for worker in report.workers
    ]
    told = {"curve": [asdict(point) for point in report.curve], "workers": workers}
    return json.dumps(told | {"is_estimated": report.is_estimated}, indent=2, ensure_ascii=False) + "\n"


def _csv(report: TrainingReport) -> str:
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    ends = [f"{what}{end}" for what in ("quality", "cost") for end in ("", "_low", "_high")]
    rows.writerow(["name", "worth", *ends])
    for point in report.curve:
        values = [value for each in (point.quality, point.cost) for value in (each.mean, each.low, each.high)]
        rows.writerow(["", point.worth, *values])
    for worker in report.workers:
        rows.writerow([worker.name, "", worker.score, "", "", worker.cost, "", ""])
    return text.getvalue()
