"""`podium audit costs`: report tokens, cost, latency and failures in exports and journals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from podium.cli.arguments import AsJson, ConfigPath
from podium.cli.screen import Screen, reporting
from podium.config.load import find_journal
from podium.errors import ConfigError
from podium.journal import Journal
from podium_evals.audit.auditing import TURNS, audit
from podium_evals.audit.formats.readers import FORMATS
from podium_evals.audit.markdown_page import markdown_page
from podium_evals.audit.prices import Prices
from podium_evals.audit.report import Report
from podium_evals.audit.sources import source_of
from podium_evals.audit.table import draw_report
from podium_evals.audit.written import check_target, write
from podium_evals.recorded.prices import PriceTable

PARTIAL = 3
"""The exit code if some rows could not be read and are missing in the report."""


def costs(  # noqa: PLR0913 - one parameter for each argument and option
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Exports (JSON, JSON lines, also with gzip), journals (SQLite files), or URLs of journals. "
            "Default: the journal of the config.",
        ),
    ] = None,
    *,
    file_format: Annotated[
        str, typer.Option("--format", metavar="NAME", help=f"One of {', '.join(FORMATS)}.")
    ] = "auto",
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as Markdown.")
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own prices (TOML). They replace the prices of genai-prices."),
    ] = None,
    turns: Annotated[
        int, typer.Option(min=1, help="Limit of turns: an agent with more turns is reported as a loop.")
    ] = TURNS,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Report what model calls cost, and failures.

    The report has tokens, cost, latency, failures and loops of the calls in traces, logs and journals.
    """
    with reporting() as screen:
        if file_format not in FORMATS:
            raise ConfigError(f"--format {file_format!r}: write {', '.join(FORMATS)}")
        sources = _sources(files or [], file_format, config)
        paths = [source for source in sources if isinstance(source, Path)]
        if markdown is not None:
            check_target(markdown, [Path(file) for file in files or ()])
        table = None if prices is None else PriceTable.read(prices)
        with _bar(screen, paths) as on_bytes:
            made = audit(
                sources, file_format=file_format, prices=Prices(table), turns=turns, on_bytes=on_bytes
            )
        _tell(screen, made, markdown, as_json=as_json)


def _sources(files: list[str], file_format: str, config: Path | None) -> list[Path | Journal]:
    if not files:
        if file_format not in ("auto", "journal"):
            raise ConfigError(f"--format {file_format} needs a file: give the path of an export")
        return [find_journal(config)]
    if twice := next((file for file in files if files.count(file) > 1), None):
        raise ConfigError(f"{twice} is named twice")
    return [source_of(file, file_format) for file in files]


@contextmanager
def _bar(screen: Screen, paths: list[Path]) -> Iterator[Callable[[Path, int], object]]:
    """Yield a callback for the number of bytes read. It draws a progress bar if stderr is a terminal."""
    console = screen.console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        sizes = {path: path.stat().st_size for path in paths if path.is_file()}
        task = bar.add_task("reading", total=sum(sizes.values()) or None)
        read: dict[Path, int] = {}

        def told(path: Path, number: int) -> None:
            if not bar.disable:
                read[path] = number
                bar.update(task, completed=sum(read.values()))

        yield told


def _tell(screen: Screen, made: Report, markdown: Path | None, *, as_json: bool) -> None:
    if markdown is not None:
        write(markdown, markdown_page(made))
        screen.note(f"podium: wrote {markdown}")
    if as_json:
        screen.result_json(made.as_json())
    else:
        draw_report(screen, made)
    if made.bad_rows:
        for source in made.sources:
            for problem in source.problems:
                screen.note(f"podium: {source.name}, {problem}")
        screen.note(f"podium: unreadable rows, which are missing in the report: {made.bad_rows:,}")
        raise typer.Exit(PARTIAL)
