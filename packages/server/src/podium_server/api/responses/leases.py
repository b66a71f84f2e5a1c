"""Responses in the background in the database: their events, and the leases of the jobs that run them.

Each job has a name of its own. It writes only while the row has this name, so that a job that was suspended
for longer than its lease cannot write into the response of the job that follows it.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from podium.journal import Transaction, has_ended
from podium.secrets import scrub_data
from podium_server.api.responses.store import ResponseStore, Stored

LEASE = 60.0
"""Seconds for which a job holds its response after it has last renewed its lease. It is longer than the
`patience` of the database."""
_MOST_EVENTS = 500
_MOST_LOOKED = 1000

_HOLD = "UPDATE podium_responses SET holder = ?, until = {now} + ? WHERE response_id = ? AND holder = ?"
_WRITE = """
UPDATE podium_responses SET response = ?, status = ?{end} WHERE response_id = ? AND holder = ?
"""
_EVENT = """
INSERT INTO podium_response_events (response_id, number, event) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""
_EVENTS = f"""
SELECT event FROM podium_response_events WHERE response_id = ? AND number > ?
ORDER BY number LIMIT {_MOST_EVENTS}
"""  # noqa: S608 - no value from outside
_OPEN = f"""
SELECT response_id, holder, until < {{now}} AS is_late FROM podium_responses
WHERE until IS NOT NULL ORDER BY created LIMIT {_MOST_LOOKED}
"""  # noqa: S608 - as above


class Leases:
    """Responses in the background.

    Args:
        store: the stored responses.
        lease: see `LEASE`.
    """

    def __init__(self, store: ResponseStore, lease: float = LEASE) -> None:
        self._store = store
        self._lease = lease

    async def add(self, stored: Stored, holder: str, events: Sequence[Mapping[str, Any]]) -> bool:
        """Store a new response and hold it; return whether no other request has stored it before."""
        async with self._store.opened() as database:
            hold = _HOLD.format(now=database.now)

            async def add(transaction: Transaction) -> bool:
                if not await stored.insert(transaction):
                    query = "SELECT 1 FROM podium_responses WHERE response_id = ? AND holder = ?"
                    return bool(await transaction.fetch(query, stored.response_id, holder))
                first = "UPDATE podium_responses SET is_background = 1, holder = '' WHERE response_id = ?"
                await transaction.execute(first, stored.response_id)
                await transaction.execute(hold, holder, self._lease, stored.response_id, "")
                await _add_events(transaction, stored.response_id, events)
                return True

            return await database.transaction(add)

    async def write(
        self, response: Mapping[str, Any], holder: str, events: Sequence[Mapping[str, Any]], *, ends: bool
    ) -> bool:
        """Write events and the response that they lead to; return whether the job still holds the response.

        Args:
            response: the response object.
            holder: the name of the job.
            events: the new events.
            ends: whether the response has ended, so that no job holds it any more.
        """
        statement = _WRITE.format(end=", holder = NULL, until = NULL" if ends else "")
        text, response_id = _json(response), response["id"]

        async def write(transaction: Transaction) -> bool:
            held = await transaction.execute(statement, text, response["status"], response_id, holder)
            if held:
                await _add_events(transaction, response_id, events)
            return bool(held)

        return await self._store.transaction(write)

    async def events(self, response_id: str, after: int = -1) -> Sequence[dict[str, Any]]:
        """Return the next events of a response.

        Args:
            response_id: the response.
            after: the number of the last known event.
        """
        rows = await self._store.transaction(lambda each: each.fetch(_EVENTS, response_id, after), reads=True)
        return [json.loads(row["event"]) for row in rows]

    async def all_events(self, response_id: str) -> Sequence[dict[str, Any]]:
        """Return all events of a response so far."""
        found: list[dict[str, Any]] = []
        while more := await self.events(response_id, found[-1]["sequence_number"] if found else -1):
            found += more
        return found

    async def renew(self, holders: Collection[str]) -> dict[str, bool]:
        """Renew the leases of jobs; return whether to cancel each job that still holds its response."""
        names = tuple(holders)
        marks = ", ".join("?" * len(names))
        async with self._store.opened() as database:
            renew = f"UPDATE podium_responses SET until = {database.now} + ? WHERE holder IN ({marks})"  # noqa: S608 - placeholders
            query = f"SELECT holder, is_cancelled FROM podium_responses WHERE holder IN ({marks})"  # noqa: S608 - as above

            async def work(transaction: Transaction) -> dict[str, bool]:
                await transaction.execute(renew, self._lease, *names)
                rows = await transaction.fetch(query, *names)
                return {row["holder"]: bool(row["is_cancelled"]) for row in rows}

            return await database.transaction(work)

    async def free(self) -> Sequence[tuple[str, str]]:
        """Return the ids and the holders of responses whose job has ended: see `claim`."""
        async with self._store.opened() as database:
            query = _OPEN.format(now=database.now)
            rows = await database.transaction(lambda each: each.fetch(query), reads=True)
        return [
            (row["response_id"], row["holder"]) for row in rows if row["is_late"] or has_ended(row["holder"])
        ]

    async def claim(self, response_id: str, before: str, holder: str) -> Stored | None:
        """Hold a response whose job has ended; return `None` if another job was faster.

        Args:
            response_id: the response.
            before: the name of the job that has ended.
            holder: the name of the new job.
        """
        async with self._store.opened() as database:
            hold = _HOLD.format(now=database.now)
            values = (holder, self._lease, response_id, before)
            if not await database.transaction(lambda each: each.execute(hold, *values)):
                return None
        return await self._store.any(response_id)

    async def release(self, response_id: str, holder: str, seconds: float = 0.0) -> None:
        """Let another job run a response, after some seconds."""
        async with self._store.opened() as database:
            hold = _HOLD.format(now=database.now)
            await database.transaction(lambda each: each.execute(hold, "", seconds, response_id, holder))

    async def cancel(self, response_id: str) -> None:
        """Ask the job of a response to end it; a released response can be claimed at once."""
        statement = """
            UPDATE podium_responses
            SET is_cancelled = 1, until = CASE WHEN holder = '' THEN 0 ELSE until END
            WHERE response_id = ? AND until IS NOT NULL
        """
        await self._store.transaction(lambda each: each.execute(statement, response_id))


async def _add_events(
    transaction: Transaction, response_id: str, events: Sequence[Mapping[str, Any]]
) -> None:
    for event in events:
        await transaction.execute(_EVENT, response_id, event["sequence_number"], _json(event))


def _json(value: object) -> str:
    return json.dumps(scrub_data(value), ensure_ascii=False)
