"""`podium evals questions`: write questions of a benchmark or of Reasoning Gym to a file."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from podium.cli.screen import Screen, reporting
from podium.errors import ConfigError
from podium_evals.recorded.reasoning_gym import KINDS
from podium_evals.tasks.benchmarks import TASKS
from podium_evals.tasks.gym_questions import gym_rows
from podium_evals.tasks.loading import load_task
from podium_evals.tasks.questions_file import draw_rows, write_questions
from podium_evals.tasks.task import Task

GYM = "reasoning-gym"
OF_EACH_KIND = 10
"""Default number of questions of each kind of Reasoning Gym."""


def questions(  # noqa: PLR0913 - one parameter for each argument and option
    task: Annotated[str, typer.Argument(metavar="TASK", help=f"{GYM}, {', '.join(TASKS)}.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The new file.")],
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of questions: drawn from the task (default: all), or made for each kind of "
            "{GYM} (default: {OF_EACH_KIND}).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed: another seed gives other questions.")] = 0,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"A kind of {GYM}; may be repeated. Default: all kinds."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=JSON", help=f"A setting for the kinds of {GYM}; may be repeated."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            help="Your own copy of the task's rows, JSON lines or CSV. Default: the rows are downloaded."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of downloads. Default: the user's cache folder.")
    ] = None,
) -> None:
    """Write questions of a benchmark to a file.

    Or make new questions of Reasoning Gym. `podium evals record ask` reads the file.
    """
    with reporting() as screen:
        if out.exists():
            raise ConfigError(f"{out} already exists: choose another file")
        if task == GYM:
            if file is not None:
                raise ConfigError(f"--file has no effect for {GYM}, which makes its questions")
            rows = _of_gym(screen, kind, count or OF_EACH_KIND, seed, setting or ())
        elif task not in TASKS:
            raise ConfigError(f"there is no task {task!r}: the tasks are {GYM}, {', '.join(TASKS)}")
        elif kind or setting:
            raise ConfigError(f"--kind and --setting are for {GYM} only")
        else:
            rows = draw_rows(_of_task(screen, TASKS[task], file, folder), count, seed)
        write_questions(rows, out)
        grader = rows[0]["grader"]
        needs = " (`evals record ask` needs --run-code for it)" if grader == "code" else ""
        screen.note(f"podium: wrote {len(rows):,} questions to {out}; their grader is {grader}{needs}")


def _of_gym(
    screen: Screen, kinds: list[str] | None, count: int, seed: int, settings: "tuple[()] | list[str]"
) -> list[Mapping[str, Any]]:
    given = dict(_setting(each) for each in settings)
    found = list[Mapping[str, Any]]()
    for kind in sorted(KINDS) if kinds is None else dict.fromkeys(kinds):
        try:
            found += gym_rows(kind, count, seed=seed, **given)
        except ConfigError as error:
            if kinds is not None or "rejects the right answer" not in str(error):
                raise
            screen.note(f"podium: left out: {error}")
    return found


def _setting(told: str) -> tuple[str, Any]:
    name, equals, value = told.partition("=")
    try:
        if equals and name.isidentifier():
            return name, json.loads(value)
    except ValueError:
        pass
    raise ConfigError(f"--setting {told!r}: write NAME=JSON, as in min_animals=3")


def _of_task(
    screen: Screen, task: Task, file: Path | None, folder: Path | None
) -> tuple[Mapping[str, Any], ...]:
    about = task.provenance
    screen.note(f"podium: {task.name} of {about.source}")
    screen.note(f"podium: licence {about.licence or 'as its page says'}. Cite: {about.citation}")
    told = partial(_show_progress, screen)
    loaded = anyio.run(partial(load_task, task, file=file, folder=folder, on_progress=told))
    if loaded.provenance.revision and file is None:
        screen.note(f"podium: commit {loaded.provenance.revision}")
    for path, digest in loaded.files.items():
        screen.note(f"podium: {path} has the SHA-256 {digest}")
    for reason, number in loaded.left_out.items():
        screen.note(f"podium: {number:,} left out: {reason}")
    return loaded.rows


def _show_progress(screen: Screen, told: str) -> None:
    if screen.interactive:
        screen.note(f"podium: {told}")
