"""`podium evals run`: compare arms on recorded answers."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

import anyio
import typer

from podium.cli.arguments import AsJson
from podium.cli.screen import Screen, reporting
from podium.config import find_config, load_config
from podium.config.source import why_unwritable
from podium.errors import ConfigError
from podium_evals.arms import Arm, GivenPlanner, SplitName
from podium_evals.recorded import Progress as Download, Recordings
from podium_evals.results.named_arms import ARMS, NEED_PROBES, PLANS, named_arms
from podium_evals.results.pools import POOLS, read_pool
from podium_evals.results.progress import answer_bar, cores
from podium_evals.results.report import Report, Setting, compare_arms, every_sample
from podium_evals.results.table import draw_report

RecordingName = Annotated[
    str, typer.Argument(metavar="RECORDING", help=f"A file of recorded answers, or {', '.join(POOLS)}.")
]
PoolName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="all, a named pool (mid, chat), or names of workers separated by commas."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        envvar="PODIUM_EVALS_DATA",
        help="Folder with the files of public recordings. Default: they are downloaded.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of a worker's recorded answers to a question that are used. Default: all, up to 3.",
    ),
]
SplitSeed = Annotated[int, typer.Option("--seed", help="Seed of the split and of the bundles.")]
Processes = Annotated[int | None, typer.Option(min=1, help="Processes. Default: one for each core, up to 4.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Also write the report as JSON.")]


def run(  # noqa: PLR0913 - one parameter for each argument and option
    recording: RecordingName,
    *,
    pool: PoolName = "all",
    split: Annotated[
        str, typer.Option(help="What is new to the arms: questions, kinds or workers.")
    ] = "questions",
    arms: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Arms separated by commas: {', '.join(ARMS)}, or {PLANS}FILE for recorded "
            f"plans. Default: all, and without --probes all but {', '.join(NEED_PROBES)}.",
        ),
    ] = None,
    probes: Annotated[
        int,
        typer.Option(
            min=0,
            help="Number of probes of each new kind: graded questions that arms may "
            "read. Only with --split kinds.",
        ),
    ] = 0,
    planner: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Also compare the planner of this podium.toml. Its prompt says which plans have "
            "recorded answers. May be repeated.",
        ),
    ] = None,
    conductor: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Like --planner, but for a trained conductor: the prompt does not mention recorded answers.",
        ),
    ] = None,
    questions: Annotated[
        int | None, typer.Option(min=2, help="Maximum number of questions that an arm is asked in a fold.")
    ] = None,
    bundles: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of bundles (queries of several questions), which are asked in place "
            "of the questions.",
        ),
    ] = None,
    seeds: Seeds = None,
    seed: SplitSeed = 0,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds of the split by kinds.")] = 5,
    processes: Processes = None,
    data: DataFolder = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Compare ways to answer with the best single worker.

    The ways, called arms, are asked the same questions.
    """
    with reporting() as screen:
        if split not in get_args(SplitName):
            raise ConfigError(f"--split {split!r}: write {', '.join(get_args(SplitName))}")
        recordings = _read(screen, recording, pool, data)
        names = [name for name in ARMS if probes or name not in NEED_PROBES]
        if arms is not None:
            names = [name.strip() for name in arms.split(",") if name.strip()]
        chosen = named_arms(names, recordings.workers)
        chosen += [_given(path, is_told=True) for path in planner or ()]
        chosen += [_given(path, is_told=False) for path in conductor or ()]
        setting = Setting(
            split=cast("SplitName", split),
            seeds=_seeds(recordings, seeds),
            split_seed=seed,
            folds=folds,
            questions=questions,
            probes=probes,
            bundles=bundles,
            processes=cores(processes),
        )
        report = _compared(screen, recordings, chosen, setting, recording, pool)
        save(out, report.as_json())
        if as_json:
            screen.result_json(report.as_json())
        else:
            draw_report(screen, report)


def _read(screen: Screen, recording: str, pool: str, data: Path | None) -> Recordings:
    def told(progress: Download) -> None:
        if screen.interactive:
            screen.note(f"podium: downloaded {progress.files:,} of {progress.of_files:,} files")

    return anyio.run(partial(read_pool, recording, pool, folder=data, on_progress=told))


def _given(path: Path, *, is_told: bool) -> Arm:
    config = load_config(find_config(path))
    return GivenPlanner(f"planner of {path.stem}", config.planner(), is_told=is_told)


def _seeds(recordings: Recordings, wanted: int | None) -> tuple[int, ...]:
    return every_sample(recordings) if wanted is None else tuple(range(wanted))


def _compared(
    screen: Screen, recordings: Recordings, arms: Sequence[Arm], setting: Setting, recording: str, pool: str
) -> Report:
    with answer_bar(screen, len(arms)) as on_share:
        compare = partial(compare_arms, recording=recording, pool=pool, on_share=on_share)
        return anyio.run(compare, recordings, arms, setting)


def save(path: Path | None, told: object) -> None:
    """Write a report as JSON, if there is a path.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path is None:
        return
    try:
        path.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"--out {path} cannot be written: {why_unwritable(error)}") from error
