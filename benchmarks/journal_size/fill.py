"""Fills the tables of a server with made runs and all that belongs to them, in bulk."""

import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from hashlib import sha256
from time import time
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.journal_size.samples import KEYS, Cells, Made, made, record
from podium.journal import SqlCache, SqlJournal
from podium.types import Completion
from podium.types.codec import write_record
from podium_server.jobs.table import JobTable
from podium_server.keys import KeyRules, KeyStore

_REQUEST = '{"kind": "begin", "model": "podium", "query": [{"role": "user", "content": "Why?"}]}'
_FAILURE = '{"code": "policy", "message": "the policy does not allow the plan"}'
RARE_KEY = 1000
"""One run of so many belongs to the first key."""
_CHUNK = 2_000
_COLUMNS = {
    "podium_runs": "run_id parent question state began ended cost holder fence recoveries",
    "podium_events": "run_id number at text hash",
    "podium_turns": "turn_id key_id run_id day cost holder began forget_at input_tokens output_tokens "
    "estimated_tokens",
    "podium_key_days": "key_id day cost requests input_tokens output_tokens estimated_tokens",
    "podium_jobs": "job_id kind caller_id request created holder due is_urgent is_cancelled error",
    "podium_cache": "key at text hash",
}
_Rows = dict[str, list[Cells]]


class Writer(ABC):
    """Writes rows in bulk."""

    @abstractmethod
    async def put(self, table: str, rows: Sequence[Cells]) -> None:
        """Write rows of a table."""

    @abstractmethod
    async def close(self) -> None:
        """Make all rows durable, update the statistics, and close the connection."""


class SqliteWriter(Writer):
    """Writes to a file without waiting for the disk."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path)
        for setting in ("synchronous = OFF", "cache_size = -1000000"):
            self._connection.execute(f"PRAGMA {setting}")

    async def put(self, table: str, rows: Sequence[Cells]) -> None:
        """Write rows of a table, in one transaction."""
        names = _COLUMNS[table].split()
        marks = ", ".join("?" * len(names))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)  # noqa: S608 - names from above
        self._connection.commit()

    async def close(self) -> None:
        """Copy the write-ahead log into the file, and close the connection."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()


class PostgresWriter(Writer):
    """Writes with COPY."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def put(self, table: str, rows: Sequence[Cells]) -> None:
        """Write rows of a table, in one transaction."""
        await self._connection.copy_records_to_table(table, records=rows, columns=_COLUMNS[table].split())

    async def close(self) -> None:
        """Vacuum, as autovacuum does after some time, and close the connection."""
        await self._connection.execute("VACUUM ANALYZE")
        await self._connection.execute("CHECKPOINT")
        await self._connection.close()


async def fill(url: str, count: int) -> None:
    """Create all tables of a server, and write `count` runs."""
    async with AsyncExitStack() as stack:
        journal, keys = SqlJournal(url), KeyStore(url)
        for each in (journal, keys, SqlCache(url), JobTable(journal)):
            async with each.opened():
                pass
        await stack.enter_async_context(keys)
        rules = KeyRules(day_cost=1e6, month_cost=1e7, run_cost=0.01, requests_per_minute=10**8)
        ids = [(await keys.create(f"key {number}", rules))[0].key_id for number in range(KEYS)]
    writer: Writer
    if url.startswith("sqlite"):
        writer = SqliteWriter(url.removeprefix("sqlite:///"))
    else:
        writer = PostgresWriter(await asyncpg.connect(url))
    rows: _Rows = defaultdict(list)
    for number, run in enumerate(made(await record(), count)):
        for table, row in _rows(run, number, ids):
            rows[table].append(row)
        if number % _CHUNK == _CHUNK - 1:
            await _write(writer, rows)
    rows["podium_key_days"] += _days(ids)
    await _write(writer, rows)
    await writer.close()


async def _write(writer: Writer, rows: _Rows) -> None:
    for table, found in rows.items():
        await writer.put(table, found)
    rows.clear()


def _rows(run: Made, number: int, keys: Sequence[str]) -> Iterator[tuple[str, Cells]]:
    """Yield the rows of a run, and of what belongs to it."""
    for each in run.runs:
        yield "podium_runs", each
    for each in run.events:
        yield "podium_events", each
    key = keys[0] if number % RARE_KEY == RARE_KEY // 2 else keys[1 + number % (KEYS - 1)]
    began, day = run.began, f"{datetime.fromtimestamp(run.began, UTC):%Y-%m-%d}"
    turn_id = sha256(run.run_id.encode()).hexdigest()
    yield "podium_turns", (turn_id[:32], key, run.run_id, day, 1000, None, began, None, 900, 90, 0)
    if number % 5 == 0:
        yield "podium_cache", _answer(turn_id, began)
    if number % 1000 == 0:
        queued = (f"job{number}", "run", key, _REQUEST, began, "", time() + 3600.0 + number, 0, 0, None)
        yield "podium_jobs", queued
        yield "podium_jobs", (f"failed{number}", *queued[1:5], "failed", *queued[6:9], _FAILURE)


def _answer(key: str, at: float) -> Cells:
    text = write_record(Completion("The tower is 330 metres tall. " * 20), "completion")
    return key, at, text, sha256(f"{key}\n{at!r}\n{text}".encode()).hexdigest()


def _days(keys: Sequence[str]) -> Iterator[Cells]:
    for key in keys:
        for day in range(1, 31):
            yield key, f"2026-11-{day:02}", 1000, 10, 1000, 100, 0
