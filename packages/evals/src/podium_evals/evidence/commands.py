"""`podium evals evidence`: measure all parts of the page of results, and write the page."""

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated

import anyio
import typer
from platformdirs import user_cache_path

from podium.cli.screen import Screen, reporting
from podium.config.source import why_unwritable
from podium.errors import ConfigError
from podium_evals.evidence.kept import KeptAnswers
from podium_evals.evidence.measuring import PARTS, Measured, measure
from podium_evals.evidence.page import write_page
from podium_evals.evidence.picture import check_figures
from podium_evals.recorded import Recordings
from podium_evals.results.pools import read_pool
from podium_evals.results.progress import answer_bar, cores


def evidence(
    *,
    data: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            envvar="PODIUM_EVALS_DATA",
            help="Folder with the public recordings that `podium evals record fetch` wrote.",
        ),
    ] = Path("data"),
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The page. Its picture is written into the folder `images` beside it, and all figures into "
            "evidence-figures.csv.",
        ),
    ] = Path("evidence-results.md"),
    kept: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder that keeps answers for the next time. Default: the user's cache folder.",
        ),
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes. Default: one for each core, up to 4.")
    ] = None,
) -> None:
    """Write the page of results on public recordings.

    The answers of arms are kept. After a stop, repeat the command to continue.
    """
    with reporting() as screen:
        check_figures()
        folder = kept or user_cache_path("podium", appauthor=False) / "evidence"
        for path in (folder, out.parent):  # before minutes are spent
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigError(f"the folder {path} cannot be created: {error}") from error
        measured = anyio.run(_measure_all, screen, data, KeptAnswers(folder), cores(processes))
        try:
            write_page(measured, out, "make evidence")
        except OSError as error:
            raise ConfigError(f"--out {out} cannot be written: {why_unwritable(error)}") from error
        screen.note(f"podium: wrote {out}, its picture, and its figures")


async def _measure_all(screen: Screen, data: Path, kept: KeptAnswers, processes: int) -> list[Measured]:
    read = dict[tuple[str, str], Recordings]()
    for part in PARTS:  # all files are read before minutes are spent
        if (part.recording, part.pool) not in read:
            read[part.recording, part.pool] = await read_pool(part.recording, part.pool, folder=data)
    measured = []
    for number, part in enumerate(PARTS, 1):
        started = perf_counter()
        recordings = read[part.recording, part.pool]
        found = await measure(part, recordings, kept, processes=processes, told=partial(answer_bar, screen))
        measured.append(found)
        seconds = perf_counter() - started
        screen.note(f"podium: {number} of {len(PARTS)}: {part.name}: {seconds:.0f} s")
    kept.forget_others()
    return measured
