"""Finds runs in the database of the journal: by time, by API key, and by the facts of their first event."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podium.errors import JournalBroken, RunUnknown
from podium.journal import Entry, Record, RunRow, SqlJournal, decode
from podium.resume import result_of
from podium.types import Event, RunStarted
from podium_server.api.runs.forms import RunSummary, State, summary_facts
from podium_server.jobs.table import JobTable

_PAGE = 100
_MOST_SCANNED = 2_000
"""How many runs one request looks at. If few of them fit the filter, the page may be shorter than `limit`."""

_RECORDS = """
SELECT run_id, number, at, text, hash FROM podium_events WHERE run_id = ? AND number >= ? ORDER BY number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which runs to list."""

    key_id: str | None = None
    """The API key that began the run; `None` for all."""
    model: str | None = None
    status: Sequence[State] = ()
    label: str | None = None
    search: str | None = None
    """Text in the question, the model or the id, in any case; `None` for all."""
    since: float | None = None
    until: float | None = None

    def fits(self, run: RunSummary) -> bool:
        """Return whether a run has the wanted model, status, label and text."""
        if self.model is not None and run.model != self.model:
            return False
        if self.status and run.status not in self.status:
            return False
        if self.label is not None and self.label not in run.labels:
            return False
        texts = (run.question, run.model, run.id)
        return self.search is None or any(self.search.lower() in text.lower() for text in texts)


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
        found: list[RunSummary] = []
        for _ in range(_MOST_SCANNED // _PAGE):
            heads = await self._heads(wanted, after)
            rows = {row.run_id: row for row in await self._rows([head["run_id"] for head in heads])}
            for head in heads:
                run = _summary(rows.get(head["run_id"]), head)
                if run is not None and wanted.fits(run):
                    if len(found) == limit:
                        return Page(found, after)
                    found.append(await self._with_cost(run))
                after = head["run_id"]
            if len(heads) < _PAGE:
                return Page(found, None)
        return Page(found, after)

    async def _with_cost(self, run: RunSummary) -> RunSummary:
        """Return a run with its cost so far: the row of a run has its cost only after its end."""
        if run.cost is not None or run.status not in ("stopped", "dead", "waiting"):
            return run
        try:
            events = [entry.event for entry in await self.read(run.id)]
            result = result_of(events, await self.nested(run.id))
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

    async def _heads(self, wanted: Wanted, after: str | None) -> Sequence[Any]:
        """Return the ids, first records and keys of the next runs."""
        key = "NULL"
        if self._has_keys:
            key = "(SELECT key_id FROM podium_turns WHERE run_id = run.run_id ORDER BY began LIMIT 1)"
        which = ["run.parent IS NULL"]
        values: list[str | float] = []
        if after is not None:
            began = (await self.row(after)).began
            which.append("(run.began < ? OR (run.began = ? AND run.run_id > ?))")
            values += [began, began, after]
        for test, bound in (("run.began >= ?", wanted.since), ("run.began <= ?", wanted.until)):
            if bound is not None:
                which.append(test)
                values.append(bound)
        if wanted.key_id is not None and self._has_keys:
            which.append("EXISTS (SELECT 1 FROM podium_turns WHERE run_id = run.run_id AND key_id = ?)")
            values.append(wanted.key_id)
        query = (
            f"SELECT run.run_id, event.text, {key} AS key_id FROM podium_runs AS run "  # noqa: S608 - no value from outside
            "JOIN podium_events AS event ON event.run_id = run.run_id AND event.number = 0 "
            f"WHERE {' AND '.join(which)} ORDER BY run.began DESC, run.run_id LIMIT {_PAGE}"
        )
        return await self._table.transaction(lambda each: each.fetch(query, *values), reads=True)


def _summary(row: RunRow | None, head: Any) -> RunSummary | None:
    """Return a run for a list; `None` if it was deleted, or cannot be read."""
    if row is None:
        return None
    try:
        started = decode(head["text"])
    except JournalBroken:  # showing the run raises it
        return None
    if not isinstance(started, RunStarted):
        return None
    return RunSummary(**summary_facts(row, started, head["key_id"]))
