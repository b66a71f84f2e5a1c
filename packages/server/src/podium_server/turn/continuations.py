"""Continuations of tool calls: what the turn with the results of the tools reuses of the run before.

If the run is recorded, its continuation is read from the journal, by any process that shares its database.
Continuations of other runs are in memory, and end with the process.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any

from podium.errors import JournalError, RunUnknown
from podium.hosts import continuation_name, write_continuation
from podium.journal import Schema, SqlJournal, SqlTables, Transaction
from podium.types import Message, Part, read_conversation

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
ON CONFLICT (name) DO UPDATE SET run_id = excluded.run_id, until = excluded.until
"""


class Continuations:
    """The continuations of all callers and models; one caller never continues the run of another.

    Args:
        journal: has the recorded runs; `None` if no run is recorded.
    """

    def __init__(self, journal: SqlJournal | None) -> None:
        self._journal = journal
        self.tables = None if journal is None else SqlTables(_SCHEMA, journal.url)
        """The table beside the journal; `None` without a journal."""
        self._kept: OrderedDict[str, Mapping[str, Any]] = OrderedDict()

    async def find(self, asker: Sequence[str], messages: Sequence[Message]) -> Mapping[str, Any] | None:
        """Return the continuation for a conversation that ends with tool results; `None` if there is none.

        Args:
            asker: the ids of the caller and the model.
            messages: the conversation.

        Raises:
            QueryError: the conversation is invalid.
            JournalError: the journal cannot be read.
        """
        query, tool_messages = read_conversation(messages)
        calls = next((message.tool_calls for message in reversed(tool_messages) if message.tool_calls), ())
        if not calls:
            return None
        name = _name(asker, query, calls)
        if name in self._kept or self.tables is None or self._journal is None:
            return self._kept.get(name)
        find = "SELECT run_id FROM podium_continuations WHERE name = ?"
        rows = await self.tables.transaction(lambda each: each.fetch(find, name), reads=True)
        if not rows:
            return None
        run_id = rows[0]["run_id"]
        try:
            entries = await self._journal.read(run_id)
            nested = await self._journal.nested(run_id)
        except RunUnknown:  # it was deleted
            return None
        return write_continuation(chain((entry.event for entry in entries), *nested), query)

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
        name = _name(asker, read_conversation(messages)[0], calls)
        if unrecorded is not None:
            self._kept[name] = unrecorded
            if len(self._kept) > _MOST_IN_MEMORY:
                self._kept.popitem(last=False)
        elif self.tables is not None:
            try:
                await self._put(self.tables, name, run_id)
            except JournalError as error:  # the answer is paid for: only the next plan is lost
                LOGGER.warning("the turn after run %s will be planned again: %s", run_id, error)

    async def _put(self, tables: SqlTables, name: str, run_id: str) -> None:
        async with tables.opened() as database:
            forget = f"DELETE FROM podium_continuations WHERE until < {database.now}"  # noqa: S608 - no value from outside

            async def write(transaction: Transaction) -> None:
                await transaction.execute(forget)
                await transaction.execute(_PUT.format(now=database.now), name, run_id, _DAYS * 86400.0)

            await database.transaction(write)


def _name(asker: Sequence[str], query: Sequence[Message], calls: Sequence[Part]) -> str:
    parts = (*asker, continuation_name(query, calls))
    return sha256("\0".join(parts).encode()).hexdigest()
