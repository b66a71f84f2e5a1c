"""`podium audit`: verify recorded runs, anchor them, and export them."""

import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from podium import journal as journals
from podium.cli.arguments import ConfigPath, JournalPlace, Since, exclude, find_run, local_time, look, moment
from podium.cli.root import command_group
from podium.cli.screen import NO_ANSWER, Screen, counted, reporting
from podium.config.load import find_journal, find_shared_cache
from podium.config.source import why_unreadable, why_unwritable
from podium.errors import ConfigError, JournalBroken, QueryError
from podium.journal import RunRow, SqlJournal, verify_lines
from podium.journal.audit import Anchor, read_anchors, verify_each
from podium.journal.journal import Break
from podium.secrets import escaped
from podium.types.events import RunEnded, RunStopped

_TOLD_SECONDS = 10.0
"""How often the verification of all runs says how far it is."""

audit = command_group("audit")


@audit.callback()
def about() -> None:
    """Verify recorded runs, anchor and export them."""


@audit.command()
def verify(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN|FILE", help="A run, or an exported file. Default: all runs.")
    ] = None,
    *,
    anchor: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output of an earlier `podium audit anchor`; - for stdin."),
    ] = None,
    since: Since = None,
    until: Annotated[
        float | None,
        typer.Option(parser=moment, metavar="TIME", help="Verify only runs that began until this time."),
    ] = None,
    config: ConfigPath = None,
    journal: JournalPlace = None,
) -> None:
    """Verify that no record was changed after it was written."""
    with reporting() as screen:
        anchors = () if anchor is None else _read_anchors(anchor)
        if run is not None:
            exclude("a run or a file", {"--since": since, "--until": until})
        if run is not None and Path(run).is_file():
            exclude("a file", {"--journal": journal})
            _verify_file(screen, Path(run), anchors)
        else:
            record, cache = find_journal(config, journal), find_shared_cache(config, journal)
            found = partial(verify_each, record, anchors=anchors, cache=cache, since=since, until=until)
            _verify_journal(screen, record, run, found, until)


@audit.command()
def anchor(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run. Default: all runs.")] = None,
    *,
    config: ConfigPath = None,
    journal: JournalPlace = None,
) -> None:
    """Print the last hash of each run, as JSON lines.

    Keep them where nobody can change them, for `podium audit verify --anchor`.
    """
    with reporting() as screen:
        record = find_journal(config, journal)

        async def write() -> None:
            run_ids = None if run is None else [await _id_of(record, run)]
            async for each in journals.anchors_of(record, run_ids):
                screen.result_record(each.to_line())

        look(record, write)


@audit.command()
def export(
    run: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="The runs.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Export all runs.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="The new file. Default: stdout.")
    ] = None,
    config: ConfigPath = None,
    journal: JournalPlace = None,
) -> None:
    """Export runs as JSON lines, which `podium audit verify` can read."""
    with reporting() as screen:
        if every == bool(run):
            raise ConfigError("name the runs to export, or give --all")
        record = find_journal(config, journal)

        async def write(put: Callable[[str], object]) -> None:
            async for line in journals.export(
                record, [await _id_of(record, each) for each in run or ()] or None
            ):
                put(line)

        if out is None:
            look(record, partial(write, screen.result_record))
            return
        try:
            # Only the user may read it, like the file of the journal.
            with open(out, "x", encoding="utf-8", opener=partial(os.open, mode=0o600)) as file:
                look(record, partial(write, lambda line: file.write(escaped(line) + "\n")))
        except OSError as error:
            raise ConfigError(f"{out} cannot be written: {why_unwritable(error)}") from error
        screen.note(f"podium: wrote {out}")


async def _id_of(journal: SqlJournal, typed: str) -> str:
    return (await find_run(journal, typed)).run_id


def _verify_journal(
    screen: Screen,
    journal: SqlJournal,
    typed: str | None,
    verified: Callable[[Sequence[str] | None], AsyncIterator[tuple[RunRow | None, Sequence[Break]]]],
    until: float | None,
) -> None:
    """Verify a run with the runs nested in it, or all runs of a time; exit with 1 if a record was changed.

    The runs are verified newest first. From time to time, and if the command is interrupted, it tells the
    time down to which the runs are verified.
    """
    runs, changed, reached, told_at = 0, 0, until, monotonic()

    async def read() -> None:
        nonlocal runs, changed, reached, told_at
        run_ids = None if typed is None else [await _id_of(journal, typed)]
        async for row, breaks in verified(run_ids):
            _tell_breaks(screen, breaks)
            runs, changed = runs + (row is not None), changed + len(breaks)
            reached = reached if row is None else row.began
            if monotonic() - told_at >= _TOLD_SECONDS and reached is not None:
                told_at = monotonic()
                screen.note(f"podium: {counted(runs, 'run')} verified, back to {local_time(reached)}")

    try:
        look(journal, read)
    except KeyboardInterrupt as interrupt:
        if reached is not None and typed is None:
            place = datetime.fromtimestamp(ceil(reached)).astimezone().isoformat()
            interrupt.add_note(f"{counted(runs, 'run')} verified: verify the others with --until {place}")
        raise
    _conclude(screen, runs, is_changed=changed > 0)


def _verify_file(screen: Screen, path: Path, anchors: Sequence[Anchor]) -> None:
    """Verify an exported file; exit with 1 if a record in it was changed.

    A run without an end is reported too, because its last records may have been removed.
    """
    runs, breaks, unfinished = 0, list[Break](), 0
    try:
        with path.open(encoding="utf-8") as lines:
            for run_id, records, broken in verify_lines(lines, anchors=anchors):
                runs += bool(records)
                if broken is not None:
                    breaks.append(broken)
                elif not isinstance(records[-1].entry().event, RunEnded | RunStopped):
                    unfinished += 1
                    told = "unfinished when it was exported, or its last records were removed"
                    last = f"the hash of record {len(records) - 1} is {records[-1].hash}"
                    screen.result(f"? run {run_id}: {told}; {last}")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{path} cannot be read: {why_unreadable(error)}") from error
    if not runs:
        raise JournalBroken(f"{path} has no runs: it is not an export, or its records were removed")
    _tell_breaks(screen, breaks)
    _conclude(screen, runs, f", {unfinished} without an end" if unfinished else "", is_changed=bool(breaks))


def _read_anchors(path: Path) -> Sequence[Anchor]:
    """Read anchors from a file, or from stdin; `QueryError` if there are none, or there is something else."""
    try:
        with nullcontext(sys.stdin) if str(path) == "-" else path.open(encoding="utf-8") as lines:
            anchors = tuple(read_anchors(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{path} cannot be read: {why_unreadable(error)}") from error
    except JournalBroken as error:
        raise QueryError(f"{path}: {error}") from error
    if not anchors:
        raise QueryError(f"{path} has no anchors")
    return anchors


def _tell_breaks(screen: Screen, breaks: Sequence[Break]) -> None:
    for broken in breaks:
        screen.result(f"✗ {broken}")


def _conclude(screen: Screen, runs: int, besides: str = "", *, is_changed: bool) -> None:
    if is_changed:
        raise typer.Exit(NO_ANSWER)
    screen.note(f"podium: {counted(runs, 'run')} verified{besides}")
