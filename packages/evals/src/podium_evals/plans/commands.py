"""`podium evals record plans`: ask the planner of a config for plans, and keep them."""

from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

import anyio
import typer

from podium.budget import Limits
from podium.cli.arguments import AsJson, ConfigPath
from podium.cli.screen import Screen, reporting
from podium.config import Config, find_config, load_config
from podium.errors import ConfigError
from podium_evals.arms import Fold, SplitName
from podium_evals.plans.plan_file import PlanFile
from podium_evals.plans.plan_recorder import PlanRecorder, PlanSummary, plans_about
from podium_evals.recording.limit_text import in_options
from podium_evals.results.pools import POOLS, read_pool

PARTIAL = 3
"""The exit code if plans are missing."""


def record_plans(  # noqa: PLR0913 - one parameter for each argument and option
    recording: Annotated[
        str, typer.Argument(metavar="RECORDING", help=f"A file of recorded answers, or {', '.join(POOLS)}.")
    ],
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The file of plans; new plans are appended.")
    ],
    pool: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="all, a named pool (mid, chat), or names of workers separated by commas."
        ),
    ] = "all",
    trained: Annotated[
        bool,
        typer.Option(
            "--trained",
            help="For a conductor that was trained on recordings: the prompt does not say which plans "
            "have recorded answers.",
        ),
    ] = False,
    split: Annotated[
        str,
        typer.Option(help="The split, as in `podium evals run`; the same split gives the same questions."),
    ] = "questions",
    questions: Annotated[int | None, typer.Option(min=2, help="Maximum number of questions.")] = None,
    bundles: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of bundles (queries of several questions), which are planned in "
            "place of the questions.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the split and of the bundles.")] = 0,
    cost: Annotated[float | None, typer.Option(min=0, help="Maximum cost of this command, in USD.")] = None,
    calls: Annotated[int | None, typer.Option(min=1, help="Maximum calls of this command.")] = None,
    at_once: Annotated[int, typer.Option(min=1, help="Maximum plans at the same time.")] = 8,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar="PODIUM_EVALS_DATA",
            help="Folder with the files of public recordings. Default: they are downloaded.",
        ),
    ] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Ask the planner of the config to plan recorded questions, and keep the plans.

    `podium evals run RECORDING --arms planner:FILE` scores them, with the same --pool, --split, --questions,
    --bundles and --seed.
    """
    # scipy and scikit-learn are slow to import
    from podium_evals.results.comparison import Setting, asked_folds  # noqa: PLC0415

    with reporting() as screen:
        if split not in get_args(SplitName):
            raise ConfigError(f"--split {split!r}: write {', '.join(get_args(SplitName))}")
        loaded = load_config(find_config(config))
        planner = loaded.planner()
        recordings = anyio.run(partial(read_pool, recording, pool, folder=data))
        setting = Setting(
            split=cast("SplitName", split), split_seed=seed, questions=questions, bundles=bundles
        )
        folds = asked_folds(recordings, setting)
        asked = sum(len(fold.asked) for fold in folds)
        about = plans_about(
            planner,
            folds[0],
            is_told=not trained,
            source=f"{recording}, pool {pool}, split {split}, seed {seed}"
            + ("" if bundles is None else f", {bundles} bundles"),
        )
        limits = _limits(loaded, calls, cost, asked)

        async def go() -> PlanSummary:
            with PlanFile(out, about) as file:
                recorder = PlanRecorder(file, planner, limits=limits, is_told=not trained, at_once=at_once)
                return await recorder.record(_first_of_each(folds))

        _tell(screen, anyio.run(go), out, as_json=as_json)


def _limits(config: Config, calls: int | None, cost: float | None, asked: int) -> Limits:
    own = config.limits
    return Limits(
        calls=2 * 3 * asked if calls is None else calls,  # a plan and its repair, each with its retries
        cost=cost,
        plan_steps=own.plan_steps,
        planner_seconds=own.planner_seconds,
        answer_tokens=own.answer_tokens,
    )


def _first_of_each(folds: list[Fold]) -> list[Fold]:
    """Return the folds, without those that ask the same questions as an earlier fold."""
    found: dict[tuple[str, ...], Fold] = {}
    for fold in folds:
        found.setdefault(tuple(query.id for query in fold.asked), fold)
    return list(found.values())


def _tell(screen: Screen, summary: PlanSummary, out: Path, *, as_json: bool) -> None:
    spent, new = summary.spent, summary.recorded
    if as_json:
        screen.result_json(
            {
                "recorded": new,
                "unusable": summary.unusable,
                "answerable": summary.answerable,
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
            f"podium: recorded {new} plans in {out}, with {spent.calls} calls at {cost}; "
            f"{summary.already} were recorded before"
        )
        if new:
            screen.note(
                f"podium: of these {new}, {summary.answerable} have recorded answers, and "
                f"{summary.unusable} are not usable plans"
            )
        for code, number in summary.failed.most_common():
            screen.note(f"podium: {number} failed: {code}")
        if summary.stopped:
            told = in_options(summary.stopped, {"cost": "--cost", "calls": "--calls"})
            screen.note(f"podium: {summary.left} plans were not asked for: {told}")
        if summary.failed or summary.left:
            screen.note("podium: repeat the command to ask for the missing plans")
    if summary.failed or summary.left:
        raise typer.Exit(PARTIAL)
