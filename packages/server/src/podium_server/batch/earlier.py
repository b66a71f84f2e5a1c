"""The runs that earlier commands of a batch recorded."""

import re
from collections.abc import Callable, Collection, Sequence

import anyio

from podium.cli.screen import counted
from podium.errors import RunHeld
from podium.journal import RunRow, SqlJournal
from podium.run_state import fold
from podium_server.batch.budget import Budget
from podium_server.batch.kept import Kept
from podium_server.keys.recorded import excess_of

_LOOK_SECONDS = 0.5


async def charge_earlier(
    journal: SqlJournal, kept: Kept, budget: Budget, note: Callable[[str], None]
) -> Collection[str]:
    """Charge the recorded runs whose lines have no result; return those whose results are used as they are.

    Raises:
        RunHeld: another process still executes runs of the batch.
        JournalError: the journal cannot be used.
    """
    done, found = set(kept.runs.values()), set[str]()
    for row in await _stopped(journal, kept.name, note):
        if row.run_id in done:
            continue
        if _is_done(row, kept):
            found.add(row.run_id)
            budget.charge(await _so_far(journal, row.run_id))
        elif (cost := await _so_far(journal, row.run_id)) is not None:
            budget.charge_so_far(row.run_id, cost)
    return found


async def done_runs(journal: SqlJournal, kept: Kept) -> Collection[str]:
    """Return the recorded runs of the batch that are not run again.

    Raises:
        JournalError: the journal cannot be used.
    """
    return {row.run_id for row in await _recorded(journal, kept.name) if _is_done(row, kept)}


def _is_done(row: RunRow, kept: Kept) -> bool:
    return row.state == "ok" or (row.state in ("partial", "failed") and not kept.retries)


async def _recorded(journal: SqlJournal, name: str, ids: Collection[str] | None = None) -> Sequence[RunRow]:
    """Return the recorded runs of the batch; with `ids`, only these."""
    is_ours = re.compile(rf"{re.escape(name)}-[0-9a-f]+")
    rows = await journal.runs(prefix=f"{name}-", limit=None, ids=ids)
    return [row for row in rows if is_ours.fullmatch(row.run_id)]


async def _stopped(journal: SqlJournal, name: str, note: Callable[[str], None]) -> Sequence[RunRow]:
    """Return the runs of the batch, when no process executes them: only then their costs are known.

    A process that was killed on another machine holds its runs until its lease ends.
    """
    rows, end = await _recorded(journal, name), anyio.current_time() + 2 * journal.lease
    held = [row.run_id for row in rows if row.state == "running"]
    if not held:
        return rows
    note(f"podium: waiting for {counted(len(held), 'run')} that another process holds")
    while held:
        if anyio.current_time() >= end:
            told = "another process executes runs of this batch"
            raise RunHeld(f"{told}: wait for the end of its command, or choose another --name")
        await anyio.sleep(_LOOK_SECONDS)
        held = [row.run_id for row in await _recorded(journal, name, held) if row.state == "running"]
    return await _recorded(journal, name)


async def _so_far(journal: SqlJournal, run_id: str) -> float | None:
    """Return what a run has cost so far; a call without a recorded end costs what such calls usually do."""
    events = [entry.event for entry in await journal.read(run_id)]
    result = fold(events, await journal.nested(run_id)).result()
    return None if result.cost is None else result.cost - await excess_of(journal, result)
