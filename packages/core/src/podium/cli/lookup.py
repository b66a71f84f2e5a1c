"""Opens the journal, and finds recorded runs by the beginning of their ids."""

import re
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

import anyio

from podium.cli.screen import Screen
from podium.errors import JournalError, RunUnknown
from podium.journal import Journal, RunRow, SqlJournal

T = TypeVar("T")

SHORT = 12
"""Length of the shown part of a generated id, in characters; commands accept it in place of the whole id."""
_QUIET_SECONDS = 1.0
"""Seconds after which a command says that it waits."""
_GENERATED = re.compile("[0-9a-f]{32}")


def short_id(run_id: str, length: int = SHORT) -> str:
    """Return the beginning of a generated id, and an id of the user's whole: its beginning may be common."""
    return run_id[:length] if _GENERATED.fullmatch(run_id) else run_id


def look(journal: Journal, read: Callable[[], Awaitable[T]]) -> T:
    """Open the journal, call `read`, and return its value."""

    async def reading() -> T:
        async with journal:
            return await read()

    return anyio.run(reading)


def check_journal(screen: Screen, journal: SqlJournal) -> None:
    """Check that the journal works, and say so if the command will wait for it.

    Raises:
        JournalError: the journal cannot be used.
    """
    waits = f"podium: waiting for the journal in {journal.url}"

    async def probing() -> None:
        late = get_running_loop().call_later(_QUIET_SECONDS, screen.note, waits)
        try:
            await journal.probe()
        except JournalError as error:
            if not error.is_busy:
                raise
            screen.note(f"{waits}: {error}")
        finally:
            late.cancel()

    anyio.run(probing)


async def find_run(journal: Journal, typed: str) -> RunRow:
    """Return the one run whose id begins with `typed`.

    Raises:
        RunUnknown: no run or more than one run matches.
    """
    rows = await journal.runs(limit=3, nested=True, prefix=typed) if typed else ()
    exact = [row for row in rows if row.run_id == typed]
    if len(rows) > 1 and not exact:
        told = ", ".join(row.run_id for row in rows)
        raise RunUnknown(f"more than one run begins with {typed!r} ({told}, …): type more of its id")
    if not rows:
        raise RunUnknown(f"no run begins with {typed!r}: see `podium runs`")
    return (exact or rows)[0]


def local_time(at: float) -> str:
    """Format a Unix time, in seconds, as date and time in the local time zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
