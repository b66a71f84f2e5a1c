"""`podium audit`: whether what is recorded is what was written, and a copy of it."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TextIO

import typer

from podium.cli.archive import family, find_run, look
from podium.cli.screen import NO_ANSWER, Screen
from podium.errors import ConfigError, QueryError
from podium.journal import Journal
from podium.journal.audit import audit, export, verify_lines
from podium.journal.chain import Break


def verify_journal(screen: Screen, journal: Journal, typed: str | None) -> None:
    """Verify one run with those nested in it, or all; leave with 1 unless each is as it was written.

    Raises:
        JournalError: there is no such run, or the journal cannot be read.
    """

    async def read() -> tuple[int, Sequence[Break]]:
        if typed is None:
            return len(await journal.runs(limit=None, nested=True)), await audit(journal)
        run_ids = await family(journal, (await find_run(journal, typed)).run_id)
        return len(run_ids), await audit(journal, run_ids)

    _tell(screen, *look(journal, read))


def verify_file(screen: Screen, path: Path) -> None:
    """Verify an export; leave with 1 unless each run in it is as it was written.

    Raises:
        JournalBroken: the file is no export, or a line of it was cut.
        QueryError: the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            found = [broken for _, _, broken in verify_lines(lines)]
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{path} cannot be read: {error}") from error
    _tell(screen, len(found), [broken for broken in found if broken is not None])


def export_runs(screen: Screen, journal: Journal, typed: Sequence[str], path: Path | None) -> None:
    """Write runs as JSON lines to a new file, or to stdout.

    Args:
        screen: where a person is told.
        journal: what holds them.
        typed: the runs; none means all.
        path: the file; `None` means stdout.

    Raises:
        ConfigError: the file cannot be written.
        JournalError: there is no such run, or the journal cannot be read.
    """

    async def write(file: TextIO) -> None:
        run_ids = [(await find_run(journal, each)).run_id for each in typed] or None
        async for line in export(journal, run_ids):
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


def _tell(screen: Screen, runs: int, breaks: Sequence[Break]) -> None:
    for broken in breaks:
        screen.result(f"✗ run {broken.run_id}, entry {broken.number}: {broken.reason}")
    if breaks:
        raise typer.Exit(NO_ANSWER)
    screen.note(f"podium: {runs} run{' is' if runs == 1 else 's are'} as written")
