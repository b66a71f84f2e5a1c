"""`podium runs` and `podium cache`: which runs are recorded, and forgetting them and kept answers."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import anyio
from rich.table import Column, Table
from rich.text import Text

from podium.cli.run_lookup import SHORT, find_run, look, when
from podium.cli.screen import Screen
from podium.journal import Journal, RunRow, SqlCache


def list_runs(screen: Screen, journal: Journal, *, limit: int, nested: bool, as_json: bool) -> None:
    """Show the latest runs, the newest first."""
    rows = look(journal, partial(journal.runs, limit=limit, nested=nested))
    if as_json:
        screen.result_json([asdict(row) | {"seconds": _seconds(row)} for row in rows])
    elif rows:
        screen.draw(_table(screen, rows))
    else:
        screen.note("podium: no runs are recorded here yet")


def delete_run(screen: Screen, journal: Journal, typed: str) -> None:
    """Forget a run, with all that are nested in it.

    Raises:
        JournalError: there is no such run, or someone carries it out.
    """

    async def delete() -> str:
        run_id = (await find_run(journal, typed)).run_id
        await journal.delete(run_id)
        return run_id

    screen.note(f"podium: forgot run {look(journal, delete)}")


def prune_runs(screen: Screen, journal: Journal, cache: SqlCache, older_than: float) -> None:
    """Forget the runs that ended, and the answers that were kept, longer ago than this, in seconds."""
    forgot = _counted(look(journal, partial(journal.prune, older_than)), "run")
    answers = anyio.run(cache.prune, older_than)
    screen.note(f"podium: forgot {forgot}" + (f" and {_counted(answers, 'kept answer')}" if answers else ""))


def clear_cache(screen: Screen, cache: SqlCache) -> None:
    """Forget all answers that are kept."""
    screen.note(f"podium: forgot {_counted(anyio.run(cache.prune, 0.0), 'kept answer')}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _table(screen: Screen, rows: Sequence[RunRow]) -> Table:
    question = Column("question", no_wrap=True, overflow="ellipsis", ratio=1)  # takes the room that is left
    table = Table("run", "when", "state", question, "cost", "seconds", expand=True)
    for row in rows:
        seconds, unknown = _seconds(row), "-" if row.ended is None else "unknown"
        table.add_row(
            Text(row.run_id[:SHORT]),
            when(row.began),
            row.state,
            Text(" ".join(screen.shown(row.question).split()) or "-"),
            unknown if row.cost is None else f"${row.cost:.4f}",
            "-" if seconds is None else f"{seconds:.1f}",
        )
    return table


def _seconds(row: RunRow) -> float | None:
    return None if row.ended is None else row.ended - row.began
