"""Finds runs in the database of the journal: by time, by API key, and by the facts of their first event."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from podium.errors import JournalBroken, RunUnknown
from podium.journal import Entry, Record, RunRow, SqlJournal
from podium.run_state import fold
from podium.types import Event, RunStarted
from podium.types.codec import decode
from podium_server.api.runs.forms import RunSummary, summary_facts
from podium_server.api.runs.queued import KIND, queued_summary
from podium_server.api.runs.run_query import Place, RunQuery, Statement, Wanted
from podium_server.jobs.table import JobTable, StoredJob

_PAGE = 100
"""Least number of runs that one statement reads."""
_LOOKED_AT = 5_000
"""How many runs one statement of a filtered list looks at."""
_SECONDS = 1.0
"""How long one request looks for runs. If few runs fit the filter, its page may be shorter than `limit`."""

_RECORDS = """
SELECT run_id, number, at, text, hash FROM podium_events WHERE run_id = ? AND number >= ? ORDER BY number
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of runs."""

    runs: list[RunSummary]
    next: str | None
    """The id of the last run that was looked at; `None` if there are no more runs."""


class RunIndex:
    """The recorded runs.

    Args:
        journal: records the runs.
        table: reads the database of the journal.
        has_keys: whether runs belong to API keys.
    """

    def __init__(self, journal: SqlJournal, table: JobTable, *, has_keys: bool) -> None:
        self._journal = journal
        self._table = table
        self._has_keys = has_keys

    async def page(self, wanted: Wanted, *, limit: int, after: str | None) -> Page:
        """Return a page of runs, the newest first.

        Args:
            wanted: which runs.
            limit: maximum number of runs.
            after: the last run of the page before; `None` for the first page.

        Raises:
            RunUnknown: there is no run `after`.
        """
        query = RunQuery(wanted, has_keys=self._has_keys)
        place = None if after is None else await self._place(query, after)
        found: list[RunSummary] = []
        end = monotonic() + _SECONDS
        while True:
            last = await self._last(query, place) if wanted.is_filtered else None
            asked = max(limit - len(found) + 1, _PAGE)
            heads = await self._heads(query, place, last, asked)
            rows = {row.run_id: row for row in await self._rows([head.run_id for head in heads])}
            for head in heads:
                run = head.summary(rows.get(head.run_id))
                if run is not None and wanted.fits(run):
                    if len(found) == limit:
                        return Page(found, None if place is None else place[1])
                    found.append(await self._with_cost(run))
                place = (head.began, head.run_id)
            if len(heads) < asked:
                if last is None:
                    return Page(found, None)
                place = last
            if place is not None and monotonic() > end:
                return Page(found, place[1])

    async def _with_cost(self, run: RunSummary) -> RunSummary:
        """Return a run with its cost so far: the row of a run has its cost only after its end."""
        if run.cost is not None or run.status not in ("stopped", "dead", "waiting"):
            return run
        try:
            events = [entry.event for entry in await self.read(run.id)]
            result = fold(events, await self.nested(run.id)).result()
        except (JournalBroken, RunUnknown):  # showing the run raises it; it may have been deleted meanwhile
            return run
        return run.model_copy(update={"cost": result.cost})

    async def row(self, run_id: str) -> RunRow:
        """Return a run, which may be nested.

        Raises:
            RunUnknown: there is no such run.
        """
        rows = await self._rows([run_id])
        if not rows:
            raise RunUnknown(f"run {run_id:.200} does not exist")
        return rows[0]

    async def read(self, run_id: str, first: int = 0) -> Sequence[Entry]:
        """Return the events of a run.

        Args:
            run_id: the run.
            first: the number of the first event.

        Raises:
            JournalBroken: an event cannot be read.
        """
        values = (run_id, first)
        rows = await self._table.transaction(lambda each: each.fetch(_RECORDS, *values), reads=True)
        return [Record(**dict(row)).entry() for row in rows]

    async def has(self, run_id: str, number: int) -> bool:
        """Return whether a run has an event with a number."""
        query = "SELECT 1 FROM podium_events WHERE run_id = ? AND number = ?"
        return bool(await self._table.transaction(lambda each: each.fetch(query, run_id, number), reads=True))

    async def nested(self, run_id: str) -> list[list[Event]]:
        """Return the events of all runs nested in a run, at any depth."""
        return await self._journal.nested(run_id)

    async def root(self, row: RunRow) -> RunRow:
        """Return the run that a user started, in which a run is nested; for any other run, the run itself."""
        while row.parent is not None:
            row = await self.row(row.parent)
        return row

    async def _rows(self, ids: Sequence[str]) -> Sequence[RunRow]:
        return await self._journal.runs(ids=ids, limit=None, nested=True)

    async def _heads(
        self, query: RunQuery, after: Place | None, last: Place | None, limit: int
    ) -> Sequence["_Head"]:
        """Return the next runs that may fit, also those in the queue.

        The queue is read first, so that a run which begins meanwhile is not missed.
        """
        queued = await self._table.without_run(KIND, *query.queued(after, last), limit)
        heads = {job.job_id: _Head(job.job_id, job.created, job) for job in queued}
        for row in await self._fetch(query.heads(after, last, limit)):
            heads[row["run_id"]] = _Head(row["run_id"], row["began"], row)
        return sorted(heads.values(), key=lambda head: (head.began, head.run_id), reverse=True)[:limit]

    async def _place(self, query: RunQuery, run_id: str) -> Place:
        """Return the place of a run in the list.

        Raises:
            RunUnknown: the list has no such run.
        """
        rows = await self._fetch(query.place(run_id))
        if rows and rows[0]["began"] is not None:
            return rows[0]["began"], run_id
        job = await self._table.find(run_id)
        if job is None:
            raise RunUnknown(f"run {run_id:.200} does not exist")
        return job.created, run_id

    async def _last(self, query: RunQuery, place: Place | None) -> Place | None:
        """Return the place of the last of the next runs; `None` if there are fewer than `_LOOKED_AT`."""
        rows = await self._fetch(query.last(place, _LOOKED_AT))
        return (rows[0]["began"], rows[0]["run_id"]) if rows else None

    async def _fetch(self, statement: Statement) -> Sequence[Any]:
        query, values = statement
        return await self._table.transaction(lambda each: each.fetch(query, *values), reads=True)


@dataclass(frozen=True, slots=True)
class _Head:
    """A run of a page, before it is known whether it is wanted."""

    run_id: str
    began: float
    found: Any
    """Its job; after its begin, the first record and the key."""

    def summary(self, row: RunRow | None) -> RunSummary | None:
        """Return the run for a list; `None` if it was deleted, or cannot be read."""
        if isinstance(self.found, StoredJob):
            return queued_summary(self.found)
        if row is None:
            return None
        try:
            started = decode(self.found["text"])
        except JournalBroken:  # showing the run raises it
            return None
        if not isinstance(started, RunStarted):
            return None
        return RunSummary(**summary_facts(row, started, self.found["key_id"]))
