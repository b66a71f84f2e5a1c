"""Stores responses, so that clients can fetch them and continue their conversations."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from podium.journal import Location, SqlJournal, SqlTables, Transaction
from podium.journal.sql.database import marks
from podium.secrets import scrub_data
from podium_server.api.responses.form import ENDED
from podium_server.api.responses.items import Item
from podium_server.api.responses.tables import SCHEMA
from podium_server.http import BadRequest

_MOST_PREVIOUS = 1000
"""Maximum number of responses in a conversation."""
_AT_ONCE = 100
"""Maximum responses that one transaction deletes."""
_COLUMNS = (
    "response_id", "caller_id", "previous_id", "run_id", "created", "request", "items", "response",
    "forget_at", "is_background",
)  # fmt: skip
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM podium_responses"  # noqa: S608 - no value from outside
_ADD = f"""
INSERT INTO podium_responses ({", ".join(_COLUMNS)}, status)
VALUES ({", ".join("?" * (len(_COLUMNS) + 1))})
"""  # noqa: S608 - as above
_REPLACE = "ON CONFLICT (response_id) DO UPDATE SET response = excluded.response, status = excluded.status"


class ResponseUnknown(BadRequest):
    """The caller has stored no response with this id."""

    code = "response_not_found"

    def __init__(self, response_id: str) -> None:
        super().__init__(f"there is no response {response_id!r:.200}", status=404, param="response_id")


class PreviousUnknown(BadRequest):
    """The caller has stored no response with the id in `previous_response_id`."""

    code = "previous_response_not_found"

    def __init__(self, message: str) -> None:
        super().__init__(message, param="previous_response_id")


class ItemUnknown(BadRequest):
    """No stored response of the caller has the item of a reference."""

    code = "item_not_found"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"there is no item {item_id!r:.200}", param="input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A stored response."""

    response_id: str
    caller_id: str
    """Only this caller sees the response."""
    previous_id: str | None
    run_id: str
    created: float
    request: Mapping[str, Any]
    """The body of the request."""
    items: Sequence[Item]
    """The input of the request, without the input of earlier responses."""
    response: Mapping[str, Any]
    """The response object."""
    forget_at: float | None = None
    """When the response is deleted; `None` if it is kept."""
    is_background: bool = False

    @property
    def status(self) -> str:
        """The status of the response."""
        return str(self.response["status"])

    @property
    def has_ended(self) -> bool:
        """Whether the response does not change any more."""
        return self.status in ENDED

    async def insert(self, transaction: Transaction) -> bool:
        """Add the row; return whether there was none with its id."""
        return bool(await transaction.execute(f"{_ADD} ON CONFLICT DO NOTHING", *self.row(), self.status))

    def row(self) -> tuple[Any, ...]:
        """Return the values of the columns, without secrets."""
        texts: dict[str, Any] = {
            name: _json(getattr(self, name)) for name in ("request", "items", "response")
        }
        texts["is_background"] = int(self.is_background)
        return tuple(texts.get(name, getattr(self, name)) for name in _COLUMNS)


class ResponseStore(SqlTables):
    """The stored responses in a database, which may be the database of a journal.

    Args:
        location: see `SqlJournal`.
    """

    def __init__(self, location: Location = None) -> None:
        super().__init__(SCHEMA, location)

    @classmethod
    def beside(cls, journal: SqlJournal) -> Self:
        """Return the store in the database of a journal."""
        return cls(journal.url)

    async def put(self, stored: Stored) -> None:
        """Store a response that has ended; a response with the same id is replaced."""
        values = (*stored.row(), stored.status)
        await self.transaction(lambda each: each.execute(f"{_ADD} {_REPLACE}", *values))

    async def find(self, caller_id: str, response_id: str) -> Stored:
        """Return a response of a caller.

        Raises:
            ResponseUnknown: there is none.
        """
        found = await self.found(caller_id, response_id)
        if found is None:
            raise ResponseUnknown(response_id)
        return found

    async def found(self, caller_id: str, response_id: str) -> Stored | None:
        """Return a response of a caller; `None` if there is none, or its time has ended."""
        async with self.opened() as database:
            lives = f"(forget_at IS NULL OR forget_at > {database.now})"
        rows = await self._select(
            f"WHERE response_id = ? AND caller_id = ? AND {lives}", response_id, caller_id
        )
        return rows[0] if rows else None

    async def any(self, response_id: str) -> Stored | None:
        """Return a response of any caller; `None` if there is none."""
        rows = await self._select("WHERE response_id = ?", response_id)
        return rows[0] if rows else None

    async def chain(self, caller_id: str, response_id: str) -> list[Stored]:
        """Return a response and all responses before it in its conversation, oldest first.

        Raises:
            PreviousUnknown: one of them does not exist, or belongs to another caller.
        """
        found: list[Stored] = []
        following: str | None = response_id
        while following is not None and len(found) < _MOST_PREVIOUS:
            stored = await self.found(caller_id, following)
            if stored is None:
                told = (
                    f"the previous response {following!r:.200} does not exist, or was deleted or not stored"
                )
                raise PreviousUnknown(told)
            found.append(stored)
            following = stored.previous_id
        if following is not None:
            raise PreviousUnknown(
                f"the conversation has more than {_MOST_PREVIOUS} responses: begin a new one"
            )
        return found[::-1]

    async def delete(self, stored: Stored) -> None:
        """Delete a response and its events."""
        await self.transaction(lambda each: _delete(each, [stored.response_id]))

    async def forget_expired(self) -> int:
        """Delete the responses whose time has ended, and return their number."""
        async with self.opened() as database:
            return await self._forget(f"forget_at < {database.now}")

    async def prune(self, before: float) -> int:
        """Delete the responses that have ended and were created before a time; return their number."""
        return await self._forget(f"created < ? AND status IN {marks(len(ENDED))}", before, *ENDED)

    async def _forget(self, where: str, *values: str | float) -> int:
        """Delete responses and their events, some of them in each transaction."""
        ids = f"SELECT response_id FROM podium_responses WHERE {where} LIMIT {_AT_ONCE}"  # noqa: S608 - no value from outside

        async def forget(transaction: Transaction) -> int:
            found = [row["response_id"] for row in await transaction.fetch(ids, *values)]
            if found:
                await _delete(transaction, found)
            return len(found)

        deleted = count = await self.transaction(forget)
        while count == _AT_ONCE:
            deleted += (count := await self.transaction(forget))
        return deleted

    async def _select(self, where: str, *values: Any) -> list[Stored]:
        query = f"{_SELECT} {where}"
        rows = await self.transaction(lambda each: each.fetch(query, *values), reads=True)
        return [_stored(row) for row in rows]


async def _delete(transaction: Transaction, ids: Sequence[str]) -> None:
    for table in ("podium_responses", "podium_response_events"):
        statement = f"DELETE FROM {table} WHERE response_id IN {marks(len(ids))}"  # noqa: S608 - placeholders
        await transaction.execute(statement, *ids)


def _stored(row: Any) -> Stored:
    facts = {name: row[name] for name in _COLUMNS}
    facts |= {name: json.loads(facts[name]) for name in ("request", "items", "response")}
    return Stored(**facts | {"is_background": bool(row["is_background"])})


def _json(value: object) -> str:
    return json.dumps(scrub_data(value), ensure_ascii=False)
