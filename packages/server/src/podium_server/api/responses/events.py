"""The events of responses in the background, in the database."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from podium.journal import Transaction
from podium.secrets import scrub_data
from podium_server.api.responses.store import ResponseStore
from podium_server.jobs.job import Job

_MOST_EVENTS = 500

_WRITE = "UPDATE podium_responses SET response = ?, status = ? WHERE response_id = ?"
_EVENT = """
INSERT INTO podium_response_events (response_id, number, event) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""
_EVENTS = f"""
SELECT event FROM podium_response_events WHERE response_id = ? AND number > ?
ORDER BY number LIMIT {_MOST_EVENTS}
"""  # noqa: S608 - no value from outside


class ResponseEvents:
    """The events of responses in the background.

    Args:
        store: the stored responses.
    """

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    async def write(self, response: Mapping[str, Any], job: Job, events: Sequence[Mapping[str, Any]]) -> bool:
        """Write events and the response that they lead to.

        Args:
            response: the response object.
            job: the job of the response.
            events: the new events.

        Returns:
            Whether this process still has the job. Otherwise nothing is written, so that a process that was
            suspended cannot write into the response of the process that follows it.
        """
        text, response_id = _json(response), response["id"]
        async with self._store.opened() as database:
            held = f"SELECT 1 FROM podium_jobs WHERE job_id = ? AND holder = ? {database.for_update}"  # noqa: S608 - no value from outside

            async def write(transaction: Transaction) -> bool:
                if not await transaction.fetch(held, job.job_id, job.holder):
                    return False
                if not await transaction.execute(_WRITE, text, response["status"], response_id):
                    return False
                await add_events(transaction, response_id, events)
                return True

            return await database.transaction(write)

    async def next(self, response_id: str, after: int = -1) -> Sequence[dict[str, Any]]:
        """Return the next events of a response.

        Args:
            response_id: the response.
            after: the number of the last known event.
        """
        rows = await self._store.transaction(lambda each: each.fetch(_EVENTS, response_id, after), reads=True)
        return [json.loads(row["event"]) for row in rows]

    async def all(self, response_id: str) -> Sequence[dict[str, Any]]:
        """Return all events of a response so far."""
        found: list[dict[str, Any]] = []
        while more := await self.next(response_id, found[-1]["sequence_number"] if found else -1):
            found += more
        return found


async def add_events(transaction: Transaction, response_id: str, events: Sequence[Mapping[str, Any]]) -> None:
    """Write the events of a response."""
    for event in events:
        await transaction.execute(_EVENT, response_id, event["sequence_number"], _json(event))


def _json(value: object) -> str:
    return json.dumps(scrub_data(value), ensure_ascii=False)
