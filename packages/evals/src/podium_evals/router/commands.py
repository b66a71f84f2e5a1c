"""`podium train`: train planners on recorded answers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.status import Status

from podium.cli.arguments import AsJson
from podium.cli.screen import Screen, reporting
from podium.config import find_config, load_config
from podium.config.source import why_unwritable
from podium.errors import ConfigError
from podium_evals.recorded import Recordings
from podium_evals.results.pools import POOLS, named_workers, read_recording
from podium_evals.router.curve import Goal
from podium_evals.router.curve_files import check_curve_files, check_folder, write_curve
from podium_evals.router.graded_answers import graded_answers, joined
from podium_evals.router.report_text import show_training
from podium_evals.router.router import Router
from podium_evals.router.score_table import Prices
from podium_evals.router.training import OnPart, train_router


def router(  # noqa: PLR0913 - one parameter for each argument and option
    recording: Annotated[
        list[str],
        typer.Argument(metavar="RECORDING...", help=f"Files of recorded answers, or {', '.join(POOLS)}."),
    ],
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file of the router; an existing file is replaced."
        ),
    ],
    pool: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="all (default), a named pool, or names of workers separated by commas."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Train for the workers of this podium.toml, at its prices."),
    ] = None,
    quality: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Of all tiers (pairs of quality and cost), store the cheapest with this mean score.",
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Of all tiers, store the best with at most this mean cost of a question, in USD.",
        ),
    ] = None,
    curve: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Write the curve of quality over cost, as .json, .csv or .svg. May be repeated.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of splits and folds.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar="PODIUM_EVALS_DATA",
            help="Folder with the packed files of public recordings. Default: they are downloaded.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a router on graded answers.

    It is measured on other questions.
    """
    with reporting() as screen:
        goal = _goal(quality, price)
        check_curve_files(curve or ())
        check_folder("--output", output)
        if pool is not None and config is not None:
            raise ConfigError("--pool and --config both choose the workers: use only one of them")
        prices = None if config is None else _prices(config)
        found = _read(screen, recording, pool, prices, data)
        with _parts(screen) as on_part:
            training = train_router(found, prices=prices, goal=goal, seed=seed, on_part=on_part)
        _save(training.router, output)
        for path in curve or ():
            write_curve(training.report, path)
        if as_json:
            screen.result_json(training.report.as_json() | {"router": str(output)})
        else:
            show_training(screen, training.report)
            screen.note(f"podium: wrote {output}")


def _goal(quality: float | None, price: float | None) -> Goal | None:
    if quality is not None and price is not None:
        raise ConfigError("--quality and --price both choose a tier: use only one of them")
    if quality is not None:
        return Goal("quality", quality)
    return None if price is None else Goal("price", price)


def _prices(path: Path) -> Prices:
    """Return the prices of the chat workers of a config."""
    config = load_config(find_config(path))
    return {name: config.worker(name).card.price for name in config.chat_names}


def _read(
    screen: Screen, names: Sequence[str], pool: str | None, prices: Prices | None, data: Path | None
) -> Recordings:
    everything = joined([anyio.run(partial(read_recording, name, folder=data)) for name in names])
    if prices is None:
        workers = named_workers(names[0], pool or "all") or everything.workers
    else:
        workers = tuple(name for name in prices if name in everything.workers)
        if len(workers) < 2:
            raise ConfigError(
                f"the config has {', '.join(prices) or 'no chat workers'}, and the recording "
                f"{', '.join(everything.workers)}: a router needs two workers that are in both"
            )
        if missing := [name for name in prices if name not in workers]:
            screen.note(f"podium: without recorded answers, and therefore never chosen: {', '.join(missing)}")
    found = graded_answers(everything, workers)
    if less := len(everything) - len(found):
        screen.note(
            f"podium: {less:,} questions are left out, because some workers have no graded answer to them"
        )
    for reason, number in found.left_out.items():
        screen.note(f"podium: {number:,} answers are left out: {reason}")
    return found


@contextmanager
def _parts(screen: Screen) -> Iterator[OnPart]:
    """Yield a callback for the name of the current part of the work. A terminal shows it on stderr."""
    console = screen.console(stderr=True)
    if not console.is_terminal:
        yield lambda _part: None
        return
    with Status("reading", console=console) as status:
        yield lambda part: status.update(f"fitting: {part}")


def _save(router: Router, path: Path) -> None:
    try:
        router.save(path)
    except OSError as error:
        raise ConfigError(f"--output {path} cannot be written: {why_unwritable(error)}") from error
