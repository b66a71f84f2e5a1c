"""Where a journal is kept: files, servers, their tables, and what becomes of runs while they fail."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from contracts.cache_contract import CacheContract
from core.journal.happenings import ended, record_run, started, step_ended

from podium.errors import ConfigError, JournalBroken, JournalError
from podium.journal import Cache, Schema, SqlCache, SqlJournal, SqlTables, Transaction
from podium.secrets import register, scrub
from podium.types import Completion

pytestmark = pytest.mark.anyio

MARK, HOSTS = "[secret]", "@h1:5433,[::1]:5432/n"


async def test_the_default_is_a_file_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the state directory, and nobody else reads it or what SQLite puts beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    old = os.umask(0)
    try:
        async with SqlJournal() as journal:
            await record_run(journal, "mine")
            folder = tmp_path / "state" / "podium"
            files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(old)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert files == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1)])
async def test_commits_reach_the_disk_as_it_was_said(tmp_path: Path, synchronous: Any, level: int) -> None:
    async with SqlJournal(tmp_path / "journal.db", synchronous=synchronous) as journal:
        here = await journal._enter()
        (row,) = await here.database.attempt(lambda each: each.fetch("PRAGMA synchronous"))
        await journal._leave()
    assert row[0] == level


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("journal.db", r'is an invalid URL: write Path\("runs.db"\) or sqlite:///runs.db for a file'),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite://user:hunter2hunter2@host/runs.db", "has a host"),
        (Path("postgresql://user:hunter2hunter2@host/name"), "is a URL"),
        ("mysql://user:hunter2hunter2@host/name", "'mysql'"),
        ("postgresql+asyncpg://user:hunter2hunter2@host/name", "'postgresql.asyncpg'"),
        ("postgresql://user:hunter2#hunter2@host/name", "percent-encode"),
        ("postgresql://user:hunter2@hunter2@host/name", "percent-encode"),
        ("postgresql://hunter2:hunter2/name", "percent-encode"),
    ],
)
def test_a_place_that_is_none_is_refused(wrong: str | Path, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        SqlJournal(wrong)
    assert "hunter2" not in str(caught.value)


async def test_a_password_is_never_shown() -> None:
    """Neither by the journal nor by an error of its database."""
    journal = SqlJournal("postgresql://user:correct-horse-9@127.0.0.1:9/name", patience=0.2)
    assert "correct-horse-9" not in repr(journal)
    with pytest.raises(JournalError, match="fails") as caught:
        await journal.runs()
    assert "correct-horse-9" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown", "password"),
    [
        (f"postgres://u:a%40canary-1{HOSTS}?sslmode=disable", f"postgresql://u:***{HOSTS}", "a@canary-1"),
        ("postgresql://u@h/n?password=canary-2%20more", "postgresql://u@h/n", "canary-2 more"),
        ("postgresql:///n?host=/tmp", "postgresql:///n", ""),
    ],
)
def test_urls_of_every_kind_are_shown_without_their_password(url: str, shown: str, password: str) -> None:
    assert repr(SqlJournal(url)) == f"SqlJournal({shown!r})"
    assert scrub(f"it is {password}") == (f"it is {MARK}" if password else "it is ")


async def test_a_file_that_is_no_journal_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"something else " * 1000)
    with pytest.raises(JournalError, match="not a database"):
        await SqlJournal(path).runs()
    assert path.read_bytes() == b"something else " * 1000


async def test_many_make_the_tables_at_once(place: str) -> None:
    def begin(number: int) -> None:
        asyncio.run(record_run(SqlJournal(place), f"run{number}"))

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(anyio.to_thread.run_sync, begin, number)
    assert len(await SqlJournal(place).runs()) == 4


NOTHING = Schema("nothing", [])
V1 = Schema("notes", [["CREATE TABLE podium_notes (text TEXT NOT NULL)"]])
V2 = Schema("notes", [*V1.versions, ["ALTER TABLE podium_notes ADD COLUMN extra TEXT"]])
V3 = Schema("notes", [*V2.versions, ["UPDATE podium_notes SET extra = 'there'"]])
WRONG = Schema("notes", [*V3.versions, ["UPDATE podium_notes SET extra = 'half'", "SELECT 1 FROM podium_no"]])


async def test_a_package_keeps_tables_beside_a_journal(place: str) -> None:
    async def notes(transaction: Transaction) -> list[tuple[object, ...]]:
        return [tuple(row) for row in await transaction.fetch("SELECT * FROM podium_notes")]

    await record_run(SqlJournal(place), "mine")
    put = "INSERT INTO podium_notes (text) VALUES (?)"
    assert await SqlTables(V1, place).transaction(lambda each: each.execute(put, "a")) == 1
    for _ in range(2):
        assert await SqlTables(V3, place).transaction(notes, reads=True) == [("a", "there")]
    with pytest.raises(JournalError, match="podium_no"):
        await SqlTables(WRONG, place, patience=0.1).transaction(notes)
    async with SqlTables(V3, place) as tables:
        assert await tables.transaction(notes) == [("a", "there")]
        assert await tables.transaction(lambda each: each.execute(put, "?")) == 1
        with pytest.raises(ZeroDivisionError):
            await tables.transaction(_put_and_fail)
        assert await tables.transaction(notes) == [("a", "there"), ("?", None)]
    with pytest.raises(JournalBroken, match="version 3, and this version of Podium supports up to 1"):
        await SqlTables(V1, place).transaction(notes)
    assert len(await SqlJournal(place).runs()) == 1


async def _put_and_fail(transaction: Transaction) -> None:
    await transaction.execute("INSERT INTO podium_notes (text) VALUES ('half')")
    raise ZeroDivisionError


async def test_what_the_database_refuses_fails_its_run_alone(place: str) -> None:
    refused = "INSERT INTO podium_events (run_id, number, at, text, hash) VALUES ('bad', 1, 0.0, '', '')"
    async with SqlJournal(place) as journal:
        bad = await journal.begin(started("bad"), minted=False)
        good = await journal.begin(started("good"), minted=False)
        await SqlTables(NOTHING, place).transaction(lambda each: each.execute(refused))
        bad.append(step_ended("bad", 0))
        good.append(step_ended("good", 0))
        await good.flush()
        for end in (bad.flush, bad.aclose):
            with pytest.raises(JournalError, match="fails"):
                await end()
        good.append(ended("good"))
        await good.aclose()
        assert {row.run_id: row.state for row in await journal.runs()} == {"bad": "stopped", "good": "ok"}
        assert [row.holder for row in await journal.runs()] == [None, None]
        assert len(await journal.records("good")) == 3


async def test_secrets_are_taken_out_before_anything_is_written(place: str) -> None:
    register('canary"key\\one')
    async with SqlJournal(place) as journal:
        log = await journal.begin(started("mine", question='my canary"key\\one!'), minted=False)
        log.append(step_ended("mine", 0, 'it is canary"key\\one, and sk-abcdefghijklmnop1234'))
        await log.aclose()
        start, entry = await journal.read("mine")
        row = (await journal.runs())[0]
    assert entry.event.outcome.text.startswith(f"it is {MARK}, and ")
    assert "canary" not in f"{start}{entry}{row}"
    assert "abcdefghijklmnop1234" not in f"{entry}"
    assert row.question == f"my {MARK}!"


class TestSqlCache(CacheContract):
    @pytest.fixture
    async def cache(self, place: str) -> AsyncIterator[Cache]:
        await record_run(SqlJournal(place), "mine")
        async with SqlCache(place) as cache:
            yield cache


async def test_a_cache_is_shared_and_forgets(place: str) -> None:
    await SqlCache(place).put("a", Completion("A."))
    assert (await SqlCache(place).get("a"), await SqlCache(place).prune(3600.0)) == (Completion("A."), 0)
    assert await SqlCache(place).prune(-1.0) == 1
    assert await SqlCache(place).get("a") is None


def open_files(folder: Path) -> list[str]:
    named = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [name for name in named if name.startswith(str(folder))]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")
async def test_a_file_is_open_during_runs_only(tmp_path: Path) -> None:
    """So that the file can be moved or deleted, and one who has a journal for each customer has few open."""
    log = await SqlJournal(tmp_path / "journal.db").begin(started("run"), minted=False)
    assert open_files(tmp_path)
    await log.aclose()
    assert not open_files(tmp_path)
