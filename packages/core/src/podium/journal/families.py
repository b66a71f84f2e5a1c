"""Walks through the runs of a journal, each run before the runs nested in it, a few rows at a time."""

from collections.abc import AsyncGenerator, Sequence

from podium.errors import RunUnknown
from podium.journal.entry import RunRow
from podium.journal.journal import Journal

Family = Sequence[RunRow]
"""A run, and then the runs nested in it; each run is before the runs nested in it."""


async def families(
    journal: Journal,
    run_ids: Sequence[str] | None = None,
    *,
    since: float | None = None,
    until: float | None = None,
) -> AsyncGenerator[Family, None]:
    """Yield families of runs.

    Args:
        journal: the journal, entered.
        run_ids: the first runs of the families; `None` for all runs, newest first.
        since: with `None`, only families whose first run began at this time or later; `None` for all.
        until: with `None`, only families whose first run began at this time or earlier.

    Raises:
        RunUnknown: one of the runs is not in the journal.
    """
    if run_ids is not None:
        for run_id in run_ids:
            row = await find(journal, run_id)
            if row is None:
                raise RunUnknown(f"run {run_id} is not in the journal")
            yield await _family(journal, row)
        return
    async for page in journal.pages(nested=True, since=since, until=until):
        known = await _with_outer(journal, page)
        for row in page:
            if _is_first(row, known):
                yield await _family(journal, row)


async def find(journal: Journal, run_id: str) -> RunRow | None:
    """Return the row of a run; `None` if there is none."""
    rows = await journal.runs(ids=[run_id], nested=True)
    return rows[0] if rows else None


async def _family(journal: Journal, first: RunRow) -> Family:
    family, known = [first], {first.run_id}
    for row in family:  # the loop adds to it
        nested = await journal.runs(limit=None, parent=row.run_id)
        family += [each for each in nested if each.run_id not in known]
        known |= {each.run_id for each in nested}
    return family


async def _with_outer(journal: Journal, rows: Sequence[RunRow]) -> dict[str, RunRow | None]:
    """Return rows and the rows of all their outer runs, by id; `None` for a missing run."""
    known: dict[str, RunRow | None] = {row.run_id: row for row in rows}
    asked: Sequence[RunRow] = rows
    while missing := list({row.parent for row in asked if row.parent is not None} - known.keys()):
        asked = await journal.runs(limit=None, ids=missing, nested=True)
        known |= dict.fromkeys(missing) | {row.run_id: row for row in asked}
    return known


def _is_first(row: RunRow, known: dict[str, RunRow | None]) -> bool:
    """Return whether a run is the first of a family.

    This is a run that is not nested, or whose outer run is missing, or one of the runs of a circle, which
    only somebody who changes rows can make.
    """
    if row.parent is None:
        return True
    seen, outer = set[str](), known[row.parent]
    while outer is not None and outer.run_id not in seen:
        if outer.run_id == row.run_id:
            return True
        if outer.parent is None:
            return False
        seen.add(outer.run_id)
        outer = known[outer.parent]
    return known[row.parent] is None
