"""`podium evals record`: record answers to questions, or runs of plans."""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from podium.budget import Limits
from podium.cli.arguments import AsJson, ConfigPath, find_plan
from podium.cli.root import command_group
from podium.cli.screen import Screen, counted, reporting
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium.types import Plan
from podium.workers import Worker
from podium_evals.grading import GRADERS, choose_graders
from podium_evals.recording import (
    Cassette,
    GrowingFile,
    QuestionRow,
    Recorder,
    Summary,
    plan_table,
    read_questions,
    run_plans,
    told_row,
)
from podium_evals.recording.recorder import in_options

PARTIAL = 3
"""The exit code if answers are missing."""

Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The recording; answers are appended.")]
GraderName = Annotated[
    str | None,
    typer.Option(
        "--grader",
        metavar="NAME",
        help=f"Score answers: {', '.join(GRADERS)}, code, none, or your own MODULE:FUNCTION. Default: "
        f"each question's field `grader`.",
    ),
]
RunCode = Annotated[
    str | None,
    typer.Option(
        metavar="PYTHON",
        help="Python interpreter for the grader `code`, which runs the code in answers. Code that "
        "models write can do harm.",
    ),
]

record = command_group("record")


@record.callback()
def about() -> None:
    """Record answers of models."""


@record.command()
def ask(  # noqa: PLR0913 - one parameter for each argument and option
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="JSON lines with `question`.")],
    *,
    out: Out,
    worker: Annotated[
        list[str] | None,
        typer.Option(
            "--worker", metavar="NAME", help="A worker to ask; may be repeated. Default: all workers."
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, help="Number of answers of each worker to each question.")
    ] = 1,
    cost: Annotated[float | None, typer.Option(min=0, help="Maximum cost of this command, in USD.")] = None,
    calls: Annotated[int | None, typer.Option(min=1, help="Maximum calls of this command.")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Maximum calls at the same time.")] = 8,
    grader: GraderName = None,
    run_code: RunCode = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only forecast cost and duration.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Ask the workers of a config the questions of a file, and record the missing answers."""
    with reporting() as screen:
        rows = read_questions(questions)
        scoring = choose_graders(rows, grader, run_code)
        loaded = load_config(find_config(config))
        workers = _workers(loaded, worker)
        most = len(rows) * len(workers) * samples * 3 if calls is None else calls
        limits = Limits(calls=most, cost=cost, attempt_seconds=loaded.limits.attempt_seconds)

        summary = record_answers(
            screen,
            out,
            rows,
            workers,
            limits=limits,
            samples=samples,
            at_once=at_once,
            grader=scoring,
            dry_run=dry_run,
        )
        if summary is not None:
            _tell(screen, summary, out, as_json=as_json)


def record_answers(
    screen: Screen,
    out: Path,
    rows: Sequence[QuestionRow],
    workers: Sequence[Worker],
    *,
    dry_run: bool = False,
    **settings: Any,
) -> Summary | None:
    """Tell the forecast, and ask for the missing answers; `settings` are those of `Recorder`."""
    file, makes_none = GrowingFile(out), dry_run and not out.exists()

    async def go() -> Summary | None:
        with nullcontext() if makes_none else file:
            recorder = Recorder(file, workers, **settings)
            screen.note(f"podium: {recorder.forecast(rows)}")
            return None if dry_run else await recorder.record(rows)

    try:
        return anyio.run(go)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"the answers so far are in {out}; repeat the command to ask for the others")
        raise


@record.command()
def run(  # noqa: PLR0913 - one parameter for each argument and option
    questions: Annotated[Path, typer.Argument(metavar="QUESTIONS", help="JSON lines with `question`.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The cassette; answers are appended.")],
    plan: Annotated[
        list[str] | None,
        typer.Option(
            "--plan",
            metavar="NAME|FILE",
            help="A plan of [plans], or of a file; may be repeated. Default: the planner's.",
        ),
    ] = None,
    replay: Annotated[bool, typer.Option("--replay", help="Call no worker: read the cassette.")] = False,
    at_once: Annotated[int, typer.Option(min=1, help="Maximum runs at the same time.")] = 8,
    grader: GraderName = None,
    run_code: RunCode = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Run the conductor of the config on questions, record each call of its runs, and score the answers.

    What is recorded is not asked again. The limits of the config hold for each run. With several plans, the
    gain of each over the first is shown, with joint 95 % intervals over questions.
    """
    with reporting() as screen:
        rows = read_questions(questions)
        scoring = choose_graders(rows, grader, run_code)
        conductor = load_config(find_config(config)).conductor(journaled=False)
        given: dict[str, Plan | None] = {name: find_plan(conductor, name, ()) for name in plan or ()}
        plans = given or {"planner": None}
        with Cassette(out, mode="replay" if replay else "record") as cassette:
            try:
                found = anyio.run(
                    partial(run_plans, conductor, plans, rows, cassette, grader=scoring, at_once=at_once)
                )
            except KeyboardInterrupt as interrupt:
                interrupt.add_note(
                    f"the answers so far are in {out}; repeat the command to ask for the others"
                )
                raise
        screen.note(
            f"podium: {out}: {counted(cassette.recorded, 'call')} recorded, {cassette.replayed} replayed"
        )
        table = plan_table(found)
        if as_json:
            screen.result_json({"recorded": cassette.recorded, "replayed": cassette.replayed, "plans": table})
        else:
            for row in table:
                screen.result(told_row(row))
        if any(each.failed for each in found.values()):
            raise typer.Exit(PARTIAL)


def _workers(config: Config, names: list[str] | None) -> list[Worker]:
    if unknown := sorted(set(names or ()) - set(config.worker_names)):
        told = ", ".join(config.worker_names) or "none"
        raise ConfigError(f"--worker {unknown[0]!r} is not a worker of {config.path}: the workers are {told}")
    return [config.worker(name) for name in dict.fromkeys(names or config.worker_names)]


def _tell(screen: Screen, summary: Summary, out: Path, *, as_json: bool) -> None:
    spent = summary.spent
    if as_json:
        screen.result_json(
            {
                "recorded": summary.recorded,
                "already": summary.already,
                "failed": dict(summary.failed),
                "left": summary.left,
                "stopped": summary.stopped,
                "calls": spent.calls,
                "cost": spent.cost,
            }
        )
    else:
        cost = "an unknown cost" if spent.cost is None else f"${spent.cost:.4f}"
        screen.note(
            f"podium: recorded {counted(summary.recorded, 'answer')} in {out}, "
            f"with {counted(spent.calls, 'call')} at {cost}; "
            f"{summary.already} were recorded before"
        )
        for reason, number in summary.failed.most_common():
            screen.note(f"podium: {number} failed: {reason}")
        if summary.stopped:
            told = in_options(summary.stopped, {"cost": "--cost", "calls": "--calls"})
            screen.note(f"podium: {summary.left} answers were not asked for: {told}")
    if summary.failed or summary.left:
        if not as_json:
            screen.note("podium: repeat the command to ask for the missing answers")
        raise typer.Exit(PARTIAL)
