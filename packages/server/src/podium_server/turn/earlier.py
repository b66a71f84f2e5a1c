"""The runs of earlier requests: those that a request repeats, and those whose tool calls it continues.

A client names a run with an `Idempotency-Key`. The id of such a run has two hashes: one of the API key and
the idempotency key, and one of the request. So a repetition finds its run, and another request with the same
key finds a run with another second hash.

What a turn with the results of tools reuses of the run before is read from the journal, by any process that
shares its database. Continuations of runs that are not recorded are in memory, and end with the process.
"""

import logging
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import Any

import anyio

from podium.errors import JournalError, RunUnknown
from podium.hosts import ContinuationStore
from podium.hosts.continuation import continuation_names, write_continuation
from podium.journal import Journal, RunRow, Schema, SqlJournal, SqlTables, Transaction
from podium.run_state import fold
from podium.types import Event, Message, Part, Result, RunEnded, RunStarted
from podium.types.messages import read_conversation
from podium_server.errors import ServerError

_CHARS = 24


class KeyReused(ServerError):
    """The idempotency key was used with another request."""

    code = "idempotency_key_reused"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run that has an answer."""

    result: Result
    events: Sequence[Event]


@dataclass(slots=True)
class SameRequests:
    """The running requests of an idempotency key, in this process."""

    run_id: str
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held by the request that runs; the others wait for it."""
    count: int = 0


class NamedRun:
    """The run of an idempotency key."""

    def __init__(self, caller_id: str, key: str, fingerprint: str) -> None:
        self.prefix = f"idem-{_hash(caller_id, key)}-"
        """The beginning of the ids of all runs with this key."""
        self.run_id = self.prefix + _hash(fingerprint)

    @asynccontextmanager
    async def held(self, running: dict[str, SameRequests]) -> AsyncGenerator[None, None]:
        """Hold the idempotency key in the block. Repetitions in this process wait for each other."""
        same = running.setdefault(self.prefix, SameRequests(self.run_id))
        if same.run_id != self.run_id:
            raise _reused()
        same.count += 1
        try:
            async with same.lock:
                yield
        finally:
            same.count -= 1
            if not same.count:
                del running[self.prefix]

    async def row(self, journal: Journal) -> RunRow | None:
        """Return the run; `None` if it never began."""
        rows = await journal.runs(prefix=self.prefix, limit=2)
        self.is_known([row.run_id for row in rows])
        return rows[0] if rows else None

    def is_known(self, run_ids: Collection[str]) -> bool:
        """Return whether the run is one of the runs with this key."""
        if any(run_id != self.run_id for run_id in run_ids):
            raise _reused()
        return bool(run_ids)

    async def recorded(self, journal: SqlJournal, seconds: float) -> Recorded | None:
        """Return the recorded run; `None` if it has no answer, so that it must be run or resumed."""
        async with journal.following(self.run_id) as follower:
            with anyio.move_on_after(seconds):
                while (row := await self.row(journal)) is not None and row.state == "running":
                    await follower.wait()
        try:
            events = [entry.event for entry in await journal.read(self.run_id)]
        except RunUnknown:
            return None
        if not any(isinstance(event, RunEnded) for event in events[-1:]):
            return None
        result = fold(events).result()
        return Recorded(result, events) if result.status in ("ok", "partial") else None


def _reused() -> KeyReused:
    return KeyReused("this Idempotency-Key was used with another request: use a new key")


def _hash(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()[:_CHARS]


LOGGER = logging.getLogger("podium")
_DAYS = 30
"""How long a recorded continuation can be found."""
_MOST_IN_MEMORY = 1000
_SCHEMA = Schema(
    "continuations",
    [
        [
            """
            CREATE TABLE podium_continuations (
                name TEXT PRIMARY KEY, run_id TEXT NOT NULL, until DOUBLE PRECISION NOT NULL
            )
            """,
            "CREATE INDEX podium_continuations_until ON podium_continuations (until)",
        ]
    ],
)
"""The table has the run of each answer with tool calls. `name` is a hash, and the journal has the texts."""
_PUT = """
INSERT INTO podium_continuations (name, run_id, until) VALUES (?, ?, {now} + ?)
ON CONFLICT (name) DO UPDATE SET until = excluded.until, run_id =
"""
_SAME = (
    "excluded.run_id",
    "CASE WHEN podium_continuations.run_id = excluded.run_id THEN excluded.run_id ELSE '' END",
)
"""For both names of a continuation: the run, if the name exists. The second may become ambiguous."""


class Continuations:
    """The continuations of all callers and models; one caller never continues the run of another."""

    def __init__(self, journal: SqlJournal | None) -> None:
        self._journal = journal
        self.tables = None if journal is None else SqlTables(_SCHEMA, journal.url)
        """The table beside the journal; `None` without a journal."""
        self._kept = ContinuationStore(2 * _MOST_IN_MEMORY)

    async def find(self, asker: Sequence[str], messages: Sequence[Message]) -> Mapping[str, Any] | None:
        """Return the continuation for a conversation that continues tool calls; `None` if there is none."""
        names = continuation_names(_read(messages), asker=asker)
        kept = self._kept.find(names)
        if kept is not None or not names or self.tables is None or self._journal is None:
            return kept
        find = "SELECT name, run_id FROM podium_continuations WHERE name IN (?, ?)"
        rows = await self.tables.transaction(lambda each: each.fetch(find, *names), reads=True)
        runs = {row["name"]: row["run_id"] for row in rows}
        run_id = next((runs[name] for name in names if name in runs), "")
        if not run_id:
            return None
        try:
            entries = await self._journal.read(run_id)
            nested = await self._journal.nested(run_id)
        except RunUnknown:  # it was deleted
            return None
        started = entries[0].event
        assert isinstance(started, RunStarted)
        return write_continuation(chain((entry.event for entry in entries), *nested), started.query)

    async def keep(
        self,
        asker: Sequence[str],
        messages: Sequence[Message],
        calls: Sequence[Part],
        *,
        run_id: str,
        unrecorded: Mapping[str, Any] | None,
    ) -> None:
        """Keep the continuation of an answer. Without it, the next turn is planned again."""
        names = continuation_names(_read(messages), calls, asker=asker)
        if unrecorded is not None:
            self._kept.keep(names, unrecorded)
        elif self.tables is not None:
            try:
                await self._put(self.tables, names, run_id)
            except JournalError as error:  # the answer is paid for: only the next plan is lost
                LOGGER.warning("the turn after run %s will be planned again: %s", run_id, error)

    async def _put(self, tables: SqlTables, names: Sequence[str], run_id: str) -> None:
        async with tables.opened() as database:
            forget = f"DELETE FROM podium_continuations WHERE until < {database.now}"  # noqa: S608 - no value from outside

            async def write(transaction: Transaction) -> None:
                await transaction.execute(forget)
                for name, same in zip(names, _SAME, strict=True):
                    put = _PUT.format(now=database.now) + same
                    await transaction.execute(put, name, run_id, _DAYS * 86400.0)

            await database.transaction(write)


def _read(messages: Sequence[Message]) -> Sequence[Message]:
    query, tool_messages = read_conversation(messages)
    return (*query, *tool_messages)
