"""`podium runs`: list the recorded runs, delete some, and delete cached answers."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from typing import Annotated

import anyio
import typer
from rich.table import Column, Table
from rich.text import Text

from podium.cli.arguments import AsJson, ConfigPath, JournalPlace, Run, Since, age, find_run, look, short_id
from podium.cli.drawing import plain_table
from podium.cli.root import command_group
from podium.cli.screen import Screen, counted, duration, money, reporting
from podium.config.load import find_journal, find_shared_cache
from podium.errors import JournalBroken, RunUnknown
from podium.journal import Journal, RunRow
from podium.journal.journal import DAMAGED
from podium.run_state import fold

_NEWEST = 20
"""Default number of runs in the list."""
_LONGEST_ID = 24
"""Maximum length of an id of the user's in the list, in characters."""

runs = command_group("runs")


@runs.callback(invoke_without_command=True)
def list_(  # noqa: PLR0913 - one parameter for each option
    context: typer.Context,
    *,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of runs, newest first. Default: 20; with --since all."),
    ] = None,
    since: Since = None,
    nested: Annotated[bool, typer.Option("--nested", help="List nested runs too.")] = False,
    config: ConfigPath = None,
    journal: JournalPlace = None,
    as_json: AsJson = False,
) -> None:
    """List the recorded runs, or delete some."""
    if context.invoked_subcommand is not None:
        return
    with reporting() as screen:
        most = _NEWEST if limit is None and since is None else limit
        _list(screen, find_journal(config, journal), limit=most, since=since, nested=nested, as_json=as_json)


@runs.command()
def delete(run: Run, *, config: ConfigPath = None, journal: JournalPlace = None) -> None:
    """Delete a run and all runs nested in it."""
    with reporting() as screen:
        record = find_journal(config, journal)

        async def remove() -> str:
            run_id = (await find_run(record, run)).run_id
            await record.delete(run_id)
            return run_id

        screen.note(f"podium: deleted run {look(record, remove)}")


@runs.command()
def prune(
    *,
    older_than: Annotated[
        float,
        typer.Option(
            parser=age,
            metavar="AGE",
            help="Minimum time since the end of a run: hours, days or weeks, as in 12h, 30d or 8w.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many runs and answers would be deleted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without a question.")] = False,
    config: ConfigPath = None,
    journal: JournalPlace = None,
) -> None:
    """Delete old runs and old cached answers. At a terminal, the command asks before it deletes."""
    with reporting() as screen:
        record, cache = find_journal(config, journal), find_shared_cache(config, journal)
        if dry_run or (screen.can_ask and not yes):
            count = look(record, partial(record.count_old, older_than))
            answers = anyio.run(cache.count_old, older_than)
            told = _runs_and_answers(count, answers)
            if dry_run:
                screen.note(f"podium: would delete {told}")
                return
            if count or answers:
                typer.confirm(f"podium: delete {told}?", abort=True, err=True)
        count = look(record, partial(record.prune, older_than))
        told = _runs_and_answers(count, anyio.run(cache.prune, older_than))
        screen.note(f"podium: deleted {told}")


@runs.command()
def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the answers.")] = False,
    config: ConfigPath = None,
    journal: JournalPlace = None,
) -> None:
    """Count or delete the answers in the shared cache.

    The cache is in the database of the journal (`cache = "shared"` in [conductor]).
    """
    with reporting() as screen:
        kept = find_shared_cache(config, journal)
        answers = anyio.run(kept.prune if clear else kept.count_old, 0.0)
        screen.note(f"podium: {'deleted ' if clear else ''}{counted(answers, 'cached answer')}")


def _runs_and_answers(runs: int, answers: int) -> str:
    return counted(runs, "run") + (f" and {counted(answers, 'cached answer')}" if answers else "")


def _list(
    screen: Screen, journal: Journal, *, limit: int | None, since: float | None, nested: bool, as_json: bool
) -> None:
    async def read() -> tuple[list[tuple[RunRow, float | None]], bool]:
        one_more = None if limit is None else limit + 1
        found = await journal.runs(limit=one_more, nested=nested, since=since)
        return [await _so_far(journal, row) for row in found[:limit]], len(found) > len(found[:limit])

    rows, is_cut = look(journal, read)
    if as_json:
        screen.result_json([asdict(row) | {"seconds": seconds} for row, seconds in rows])
    elif rows:
        screen.draw(_table(screen, rows))
        screen.result(f"\n{_total([row for row, _ in rows])}")
        if is_cut:
            screen.note("podium: there are more runs: see --limit and --since")
    else:
        screen.note(f"podium: the journal has no runs {'yet' if since is None else 'since then'}")


def _total(rows: Sequence[RunRow]) -> str:
    """Return the number of the listed runs and their cost, which includes the cost of nested runs."""
    outer = [row for row in rows if row.parent is None]
    nested = len(rows) - len(outer)
    unknown = sum(row.cost is None for row in outer)
    cost = money(sum(row.cost or 0.0 for row in outer))
    told = f"{counted(len(outer), 'run')}{f' and {nested} nested' if nested else ''}: "
    if unknown == len(outer):
        return f"{told}cost unknown"
    return f"{told}{cost}" + (f" and the unknown cost of {counted(unknown, 'run')}" if unknown else "")


def _table(screen: Screen, rows: Sequence[tuple[RunRow, float | None]]) -> Table:
    question = Column("question", no_wrap=True, overflow="ellipsis", ratio=1)  # takes the remaining width
    amounts = (Column(head, no_wrap=True, justify="right") for head in ("cost", "time"))
    heads = (Column(head, no_wrap=True) for head in ("run", "when", "state"))
    table = plain_table(*heads, question, *amounts, expand=True)
    for row, seconds in rows:
        table.add_row(
            Text(screen.shown(short_id(row.run_id)[:_LONGEST_ID])),
            _short_time(row.began),
            screen.shown(row.state),
            Text(" ".join(screen.shown(row.question).split()) or "-"),
            money(row.cost),
            "-" if seconds is None else duration(seconds),
        )
    return table


def _short_time(at: float) -> str:
    """Format a Unix time as 22 Nov 15:04, or as a date if the year is not the current one."""
    local, now = datetime.fromtimestamp(at).astimezone(), datetime.now().astimezone()
    return local.strftime("%d %b %H:%M" if local.year == now.year else "%Y-%m-%d")


async def _so_far(journal: Journal, row: RunRow) -> tuple[RunRow, float | None]:
    """Return a row with its cost so far, and the seconds for which the run was executed.

    The time between an interruption and the resume does not count. The time is `None` while the run is
    executed, and if its record cannot be read.
    """
    try:
        result = fold([entry.event for entry in await journal.read(row.run_id)]).result()
    except JournalBroken:  # `podium audit verify` has the details
        return replace(row, state=DAMAGED, cost=None), None
    except RunUnknown:  # it was just deleted, or it has lost its record
        is_listed = await journal.runs(limit=1, nested=True, ids=[row.run_id])
        return (replace(row, state=DAMAGED, cost=None) if is_listed else row), None
    cost = result.cost if row.cost is None else row.cost
    return replace(row, cost=cost), None if row.state == "running" else result.seconds
