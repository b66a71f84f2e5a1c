"""Continuations of tool calls: what the turn with the results of the tools reuses of the run before.

If the run is recorded, its continuation is read from the journal, by any process that shares its database.
Continuations of other runs are in memory, and end with the process.
"""

import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from podium.errors import JournalError, RunUnknown
from podium.hosts import ContinuationStore
from podium.hosts.continuation import continuation_names, write_continuation
from podium.journal import Schema, SqlJournal, SqlTables, Transaction
from podium.types import Message, Part, RunStarted
from podium.types.messages import read_conversation

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
    """The continuations of all callers and models; one caller never continues the run of another.

    Args:
        journal: has the recorded runs; `None` if no run is recorded.
    """

    def __init__(self, journal: SqlJournal | None) -> None:
        self._journal = journal
        self.tables = None if journal is None else SqlTables(_SCHEMA, journal.url)
        """The table beside the journal; `None` without a journal."""
        self._kept = ContinuationStore(2 * _MOST_IN_MEMORY)

    async def find(self, asker: Sequence[str], messages: Sequence[Message]) -> Mapping[str, Any] | None:
        """Return the continuation for a conversation that continues tool calls; `None` if there is none.

        Args:
            asker: the ids of the caller and the model.
            messages: the conversation.

        Raises:
            QueryError: the conversation is invalid.
            JournalError: the journal cannot be read.
        """
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
        """Keep the continuation of an answer. Without it, the next turn is planned again.

        Args:
            asker: see `find`.
            messages: the conversation before the answer.
            calls: the tool calls that the client gets.
            run_id: the run of the answer.
            unrecorded: the continuation of a run that is not recorded; otherwise `None`.
        """
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
