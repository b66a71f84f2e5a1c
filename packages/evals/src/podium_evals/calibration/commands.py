"""`podium evals calibrate`: measure each worker's rate of right answers on a kind of questions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import anyio
import typer

from podium.budget import Limits
from podium.cli.arguments import AsJson, ConfigPath
from podium.cli.screen import Screen, counted, reporting
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium.workers import Worker
from podium.workers.rates import MeasuredFile, read_measured, write_measured
from podium_evals.calibration.calibrate import Calibration, Calibrator
from podium_evals.calibration.table import calibration_json, draw_calibration
from podium_evals.grading import GRADERS, find_grader
from podium_evals.recording import QuestionRow, read_questions
from podium_evals.recording.limit_text import in_options

PARTIAL = 3
"""The exit code if answers are missing."""
MEASURED = "measured.json"
"""Default name of the file of rates, in the folder of the config."""


def calibrate(  # noqa: PLR0913 - one parameter for each argument and option
    questions: Annotated[
        Path, typer.Argument(metavar="QUESTIONS", help="JSON lines with `question` and `answer`.")
    ],
    *,
    kind: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The kind of all questions. Default: each question's field `kind`, else the name of "
            "the file.",
        ),
    ] = None,
    grader: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=f"Score answers: {', '.join(GRADERS)}, or your own MODULE:FUNCTION."
        ),
    ] = "exact",
    budget: Annotated[float | None, typer.Option(min=0, help="Maximum cost of this command, in USD.")] = None,
    calls: Annotated[int | None, typer.Option(min=1, help="Maximum calls of this command.")] = None,
    worker: Annotated[
        list[str] | None,
        typer.Option(
            "--worker",
            metavar="NAME",
            help="A worker to ask; may be repeated. Default: all workers except tools.",
        ),
    ] = None,
    ask_all: Annotated[
        bool,
        typer.Option("--all", help="Ask every worker every question, not only workers that may be the best."),
    ] = False,
    at_once: Annotated[int, typer.Option(min=1, help="Maximum calls at the same time.")] = 8,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"The file of rates. Default: measured in [pool], else {MEASURED} beside the config.",
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file of recorded answers, which are not asked again. Default: .answers.jsonl "
            "beside the rates.",
        ),
    ] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Measure each worker's share of right answers.

    The workers are asked a few questions of each kind.
    """
    with reporting() as screen:
        loaded = load_config(find_config(config))
        path = out or loaded.measured_path or loaded.path.parent / MEASURED
        rows, scoring = _rows(questions, kind), find_grader(grader)
        known = read_measured(path) if path.exists() else MeasuredFile()
        workers = _workers(screen, loaded, worker)
        most = len(rows) * len(workers) * 3 if calls is None else calls
        calibrator = Calibrator(
            workers,
            scoring,
            known=known,
            limits=Limits(calls=most, cost=budget, attempt_seconds=loaded.limits.attempt_seconds),
            ask_all=ask_all,
            at_once=at_once,
            on_turn=lambda number, of, count: screen.note(
                f"podium: question {number} of {of}: {counted(count, 'call')}"
            ),
        )
        recorded = answers or path.with_suffix(".answers.jsonl")
        try:
            found = anyio.run(calibrator.measure, rows, recorded)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note("repeat the command to ask for the missing answers")
            raise
        write_measured(found.measured, path)
        if as_json:
            screen.result_json(calibration_json(found))
        else:
            draw_calibration(screen, found)
            _tell(screen, found, path, loaded)
        if found.summary.failed or found.summary.stopped:
            raise typer.Exit(PARTIAL)


def _rows(path: Path, kind: str | None) -> list[QuestionRow]:
    rows = read_questions(path)
    if not rows:
        raise ConfigError(f"{path} has no questions")
    if kind is not None:
        if not kind.strip() or not kind.isprintable():
            raise ConfigError(f"--kind {kind!r}: use printable characters")
        rows = [replace(row, question=replace(row.question, kind=kind)) for row in rows]
    return list(rows)


def _workers(screen: Screen, config: Config, names: Sequence[str] | None) -> list[Worker]:
    if unknown := sorted(set(names or ()) - set(config.worker_names)):
        told = ", ".join(config.worker_names) or "none"
        raise ConfigError(f"--worker {unknown[0]!r} is not a worker of {config.path}: the workers are {told}")
    if names:
        return [config.worker(name) for name in dict.fromkeys(names)]
    single = [name for name in config.worker_names if not config.has_mcp_server(name)]
    found = [worker for worker in map(config.worker, single) if worker.reads_prose]
    asked = {worker.card.name for worker in found}
    if left_out := [name for name in config.worker_names if name not in asked]:
        screen.note(f"podium: not asked, because they are tools: {', '.join(left_out)}")
    if not found:
        raise ConfigError(f"{config.path} has no worker that answers questions")
    return found


def _tell(screen: Screen, found: Calibration, path: Path, config: Config) -> None:
    for worker, kind in found.stale:
        screen.note(
            f"podium: left out: the rate of {worker!r} on {kind!r}, because the worker's model, server or "
            "sampling has changed"
        )
    summary = found.summary
    cost = "an unknown cost" if summary.spent.cost is None else f"${summary.spent.cost:.4f}"
    screen.note(
        f"podium: {counted(summary.spent.calls, 'call')} at {cost}; {found.reused} answers were recorded "
        f"before; the rates are in {path}"
    )
    for reason, number in summary.failed.most_common():
        screen.note(f"podium: {number} failed: {reason}")
    if summary.stopped:
        told = in_options(summary.stopped, {"cost": "--budget", "calls": "--calls"})
        screen.note(f"podium: stopped: {told}")
    if summary.failed or summary.stopped:
        screen.note("podium: repeat the command to ask for the missing answers")
    if config.measured_path is None:
        name = path.name if path.parent == config.path.parent else str(path)
        screen.note(f'podium: to use the rates, write measured = "{name}" under [pool] in {config.path}')
