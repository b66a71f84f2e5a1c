"""Those who follow a run are told of its changes, by any process, on both databases.

Two journals of one database do not share what they know, so they stand for two processes.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import asyncpg  # type: ignore[import-untyped]
import pytest
from core.journal.happenings import ended, started, step_ended

from podium.journal import SqlJournal
from podium.journal.sql.changes import Follower

pytestmark = pytest.mark.anyio


@pytest.fixture
def _untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let followers look only when they are told to."""
    monkeypatch.setattr("podium.journal.sql.changes.PERIOD", 600.0)


@asynccontextmanager
async def following(journal: SqlJournal, run_id: str) -> AsyncGenerator[Follower, None]:
    """Follow a run, from the time when changes by other processes are seen."""
    async with journal, journal.following(run_id) as follower:
        with anyio.fail_after(20):
            assert await follower.wait()
            yield follower


@pytest.mark.usefixtures("_untimed")
@pytest.mark.parametrize("is_here", [True, False], ids=["the same process", "another process"])
async def test_each_change_is_told(place: str, *, is_here: bool) -> None:
    """The begin of a run, its events, its end and its deletion."""
    reader = SqlJournal(place)
    writer = reader if is_here else SqlJournal(place)
    async with writer, following(reader, "mine") as follower:
        log = await writer.begin(started("mine"), minted=False)
        assert await follower.wait()
        log.append(step_ended("mine", 0))
        assert await follower.wait()
        assert len(await reader.records("mine")) == 2
        log.append(ended("mine"))
        await log.aclose()
        assert await follower.wait()
        assert (await reader.runs())[0].state == "ok"
        await writer.delete("mine")
        assert await follower.wait()


@pytest.mark.usefixtures("_untimed")
async def test_a_journal_without_a_block_tells(place: str) -> None:
    """Such a journal closes its connections after the run, and sends the last notification before."""
    async with following(SqlJournal(place), "mine") as follower:
        log = await SqlJournal(place).begin(started("mine"), minted=True)
        await log.aclose()
        assert await follower.wait()


@pytest.mark.usefixtures("_untimed")
async def test_the_changes_of_other_runs_are_not_told(postgres_url: str) -> None:
    """A follower is woken for its run only, and `wake` is no change."""
    writer = SqlJournal(postgres_url)
    async with writer, following(SqlJournal(postgres_url), "mine") as follower:
        await writer.tell(["other", "mine"])
        assert await follower.wait()
        await writer.tell([f"other {number}" for number in range(100)])
        follower.wake()
        assert not await follower.wait()
        await writer.tell(["mine"])
        assert await follower.wait()


async def test_a_follower_looks_from_time_to_time(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notification can be lost, and some changes have none."""
    monkeypatch.setattr("podium.journal.sql.changes.PERIOD", 0.01)
    async with following(SqlJournal(place), "mine") as follower:
        for _ in range(3):
            assert await follower.wait()


@pytest.mark.usefixtures("_untimed")
async def test_a_lost_connection_is_made_again(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its loss is logged once; after that, followers look, and are told again."""
    caplog.set_level(logging.WARNING, "podium")
    connection: Any = await asyncpg.connect(postgres_url)
    writer = SqlJournal(postgres_url)
    async with writer, following(SqlJournal(postgres_url), "mine") as follower:
        end = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        )
        assert len(await connection.fetch(end)) == 1
        assert await follower.wait()
        assert len(caplog.messages) == 1
        assert "seen up to 600 seconds later until this ends" in caplog.messages[0]
        await writer.tell(["mine"])
        assert await follower.wait()
    await connection.close()
