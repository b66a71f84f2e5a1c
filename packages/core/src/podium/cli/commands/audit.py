"""`podium audit`: verify recorded runs, and export them."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from podium import journal as journals
from podium.cli.arguments import ConfigPath
from podium.cli.run_lookup import family, find_run, look
from podium.cli.screen import EXIT_CODES, NO_ANSWER, Screen, reporting
from podium.config import find_journal
from podium.errors import ConfigError, JournalBroken, QueryError
from podium.journal import Break, Journal, Record, read_lines, verify_runs
from podium.types.events import RunEnded, RunStopped

audit = typer.Typer(add_completion=False, rich_markup_mode=None, epilog=EXIT_CODES)


@audit.callback()
def about() -> None:
    """Verify recorded runs, or export them."""


@audit.command(epilog=EXIT_CODES)
def verify(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN|FILE", help="A run, or an exported file; else all runs.")
    ] = None,
    *,
    config: ConfigPath = None,
) -> None:
    """Verify that the records are as they were written."""
    with reporting() as screen:
        if run is not None and Path(run).is_file():
            _verify_file(screen, Path(run))
        else:
            _verify_journal(screen, find_journal(config), run)


@audit.command(epilog=EXIT_CODES)
def export(
    run: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="The runs.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Export all runs.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The new file; else stdout.")
    ] = None,
    config: ConfigPath = None,
) -> None:
    """Copy runs as JSON lines, which `verify` takes."""
    with reporting() as screen:
        if every == bool(run):
            raise ConfigError("name the runs to export, or give --all")
        _export(screen, find_journal(config), run or (), out)


def _verify_journal(screen: Screen, journal: Journal, typed: str | None) -> None:
    """Verify one run with those nested in it, or all; exit with 1 unless each is as it was written.

    Raises:
        JournalError: there is no such run, or the journal cannot be read.
    """

    async def read() -> tuple[int, Sequence[Break]]:
        if typed is None:
            return len(await journal.runs(limit=None, nested=True)), await verify_runs(journal)
        run_ids = await family(journal, (await find_run(journal, typed)).run_id)
        return len(run_ids), await verify_runs(journal, run_ids)

    _tell(screen, *look(journal, read))


def _verify_file(screen: Screen, path: Path) -> None:
    """Verify an export; exit with 1 unless each run in it is as it was written.

    A run without an end is reported too: if it had one, its last records were cut off.

    Raises:
        JournalBroken: the file is no export, a line of it was cut, or it holds no run.
        QueryError: the file cannot be read.
    """
    runs, breaks, unfinished = 0, list[Break](), 0
    try:
        with path.open(encoding="utf-8") as lines:
            for runs, records in enumerate(read_lines(lines), 1):  # noqa: B007 - counts them
                if broken := journals.verify(records):
                    breaks.append(broken)
                elif not isinstance(records[-1].entry().event, RunEnded | RunStopped):
                    unfinished += 1
                    screen.result(_unfinished(records))
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{path} cannot be read: {error}") from error
    if not runs:
        raise JournalBroken(f"{path} holds no run: it is no export, or what it held was taken out")
    _tell(screen, runs, breaks, f", {unfinished} without an end" if unfinished else "")


def _export(screen: Screen, journal: Journal, typed: Sequence[str], path: Path | None) -> None:
    """Write runs as JSON lines to a new file, or to stdout.

    Args:
        screen: where the new file is reported.
        journal: the journal of the runs.
        typed: the runs, as typed; none means all.
        path: the file; `None` means stdout.

    Raises:
        ConfigError: the file cannot be written.
        JournalError: there is no such run, or the journal cannot be read.
    """

    async def write(file: TextIO) -> None:
        run_ids = [(await find_run(journal, each)).run_id for each in typed] or None
        async for line in journals.export(journal, run_ids):
            file.write(line if line.endswith("\n") else line + "\n")

    try:
        with nullcontext(sys.stdout) if path is None else path.open("x", encoding="utf-8") as file:
            look(journal, partial(write, file))
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already: name another") from error
    except OSError as error:
        raise ConfigError(f"the export cannot be written: {error}") from error
    if path is not None:
        screen.note(f"podium: wrote {path}")


def _unfinished(records: Sequence[Record]) -> str:
    told = "unfinished when it was exported, or its end was cut off"
    return f"? run {records[0].run_id}: {told}; the hash of record {len(records) - 1} is {records[-1].hash}"


def _tell(screen: Screen, runs: int, breaks: Sequence[Break], besides: str = "") -> None:
    for broken in breaks:
        screen.result(f"✗ run {broken.run_id}, entry {broken.number}: {broken.reason}")
    if breaks:
        raise typer.Exit(NO_ANSWER)
    screen.note(f"podium: {runs} run{' is' if runs == 1 else 's are'} as written{besides}")
