"""Finds runs in the database of the journal: by time, by API key, and by the facts of their first event.

A list of all runs is read in the order of the runs, and a list of the runs of an API key in the order of the
requests of the key. So each list reads an index, and a rare key is as fast as a frequent one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from podium.errors import JournalBroken, RunUnknown
from podium.journal import Entry, Record, RunRow, SqlJournal
from podium.journal.sql.database import marks
from podium.run_state import fold
from podium.types import Event, RunStarted
from podium.types.codec import decode
from podium_server.api.runs.forms import KIND, RunSummary, queued_summary, summary_facts
from podium_server.api.runs.requests import State
from podium_server.jobs.table import JobTable, StoredJob

Value = str | float | int
Statement = tuple[str, Sequence[Value]]
Place = tuple[float, str]
"""The place of a run in a list: a time, and the id of the run."""

_FIRST_KEY = "(SELECT key_id FROM podium_turns WHERE run_id = run.run_id ORDER BY began LIMIT 1)"
_IS_FIRST_TURN = """
NOT EXISTS (
    SELECT 1 FROM podium_turns AS earlier WHERE earlier.run_id = turn.run_id AND earlier.key_id = turn.key_id
    AND (earlier.began, earlier.turn_id) < (turn.began, turn.turn_id)
)
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

    @property
    def is_filtered(self) -> bool:
        """Whether runs must be read to know if they fit."""
        return bool(self.status) or not (self.model is self.label is self.search is None)

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


class RunQuery:
    """Builds the statements of one list."""

    def __init__(self, wanted: Wanted, *, has_keys: bool) -> None:
        self._wanted = wanted
        self._is_of_key = has_keys and wanted.key_id is not None
        self._key = _FIRST_KEY if has_keys else "NULL"
        self._began = "turn.began" if self._is_of_key else "run.began"
        self._order = f"ORDER BY {self._began} DESC, run.run_id DESC"
        if self._is_of_key:
            self._order = "ORDER BY turn.began DESC, turn.run_id DESC"

    def place(self, run_id: str) -> Statement:
        """Return the query for the place of a run."""
        if self._is_of_key:
            query = "SELECT min(began) AS began FROM podium_turns WHERE run_id = ? AND key_id = ?"
            return query, [run_id, str(self._wanted.key_id)]
        return "SELECT began FROM podium_runs WHERE run_id = ?", [run_id]

    def last(self, after: Place | None, count: int) -> Statement:
        """Return the query for the place of the last of the next `count` runs, whether they fit or not."""
        which, values = self._which(after)
        query = (
            f"SELECT {self._began} AS began, run.run_id FROM {self._source()} "  # noqa: S608 - no value from outside
            f"WHERE {' AND '.join(which)} {self._order} LIMIT 1 OFFSET {count - 1}"
        )
        return query, values

    def heads(self, after: Place | None, last: Place | None, limit: int) -> Statement:
        """Return the query for the next runs that may fit, with their first records and keys."""
        which, values = self._which(after)
        if last is not None:
            which.append(f"({self._began}, run.run_id) >= (?, ?)")
            values += last
        for test, more in _may_fit(self._wanted):
            which.append(test)
            values += more
        query = (
            f"SELECT run.run_id, {self._began} AS began, event.text, {self._key} AS key_id "  # noqa: S608 - as above
            f"FROM {self._source()} CROSS JOIN podium_events AS event "
            f"WHERE event.run_id = run.run_id AND event.number = 0 AND {' AND '.join(which)} "
            f"{self._order} LIMIT {limit}"
        )
        return query, values

    def queued(self, after: Place | None, last: Place | None) -> tuple[list[str], list[Value]]:
        """Return the conditions for runs in the queue between two places, and their values."""
        which, values = list[str](), list[Value]()
        for test, place in (("<", after), (">=", last)):
            if place is not None:
                which.append(f"(created, job_id) {test} (?, ?)")
                values += place
        for test, bound in (("created >= ?", self._wanted.since), ("created <= ?", self._wanted.until)):
            if bound is not None:
                which.append(test)
                values.append(bound)
        if self._is_of_key:
            which.append("caller_id = ?")
            values.append(str(self._wanted.key_id))
        return which, values

    def _source(self) -> str:
        # SQLite keeps the order of a cross join
        return (
            "podium_turns AS turn CROSS JOIN podium_runs AS run" if self._is_of_key else "podium_runs AS run"
        )

    def _which(self, after: Place | None) -> tuple[list[str], list[Value]]:
        which, values = ["run.parent IS NULL"], list[Value]()
        if self._is_of_key:
            which += ["turn.key_id = ?", "run.run_id = turn.run_id", _IS_FIRST_TURN]
            values.append(str(self._wanted.key_id))
        if after is not None:
            run_id = "turn.run_id" if self._is_of_key else "run.run_id"
            which.append(f"({self._began}, {run_id}) < (?, ?)")
            values += after
        for test, bound in (("run.began >= ?", self._wanted.since), ("run.began <= ?", self._wanted.until)):
            if bound is not None:
                which.append(test)
                values.append(bound)
        return which, values


def _may_fit(wanted: Wanted) -> list[Statement]:
    """Return conditions that all runs that fit fulfil, and most others do not."""
    found: list[Statement] = []
    if wanted.status:
        states = {*wanted.status, *(("running",) if "stopped" in wanted.status else ())}  # without a process
        found.append((f"run.state IN {marks(len(states))}", sorted(states)))
    if wanted.model is not None and _is_plain(wanted.model):
        found.append(("event.text LIKE ? ESCAPE '!'", [_like(f'"conductor":"{wanted.model}"')]))
    if wanted.label is not None and _is_plain(wanted.label):
        found.append(("event.text LIKE ? ESCAPE '!'", [_like(f'"{wanted.label}"')]))
    if wanted.search is not None and _is_plain(wanted.search):
        text = _like(wanted.search.lower())
        model = _like('"conductor":"')[:-1] + text
        tests = [f"lower({name}) LIKE ? ESCAPE '!'" for name in ("run.question", "run.run_id", "event.text")]
        found.append((f"({' OR '.join(tests)})", [text, text, model]))
    return found


def _is_plain(text: str) -> bool:
    """Return whether both databases and JSON treat a text as Python does."""
    return text.isascii() and text.isprintable() and json.dumps(text) == f'"{text}"'


def _like(text: str) -> str:
    """Return the pattern for texts that contain a text; `!` escapes the wildcards."""
    for each in "!%_":
        text = text.replace(each, f"!{each}")
    return f"%{text}%"


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
    """The recorded runs."""

    def __init__(self, journal: SqlJournal, table: JobTable, *, has_keys: bool) -> None:
        self._journal = journal
        self._table = table
        self._has_keys = has_keys

    async def page(self, wanted: Wanted, *, limit: int, after: str | None) -> Page:
        """Return a page of runs, the newest first."""
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
        """Return a run, which may be nested."""
        rows = await self._rows([run_id])
        if not rows:
            raise RunUnknown(f"run {run_id:.200} does not exist")
        return rows[0]

    async def read(self, run_id: str, first: int = 0) -> Sequence[Entry]:
        """Return the events of a run."""
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
        """Return the place of a run in the list."""
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
