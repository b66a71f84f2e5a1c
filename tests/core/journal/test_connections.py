"""The connections to a database."""

from pathlib import Path

import anyio
import asyncpg  # type: ignore[import-untyped]
import pytest
from core.journal.happenings import course, started

from podium.journal import SqlCache, SqlJournal

pytestmark = pytest.mark.anyio
_OTHERS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def open_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open."""
    named = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [name for name in named if name.startswith(str(folder))]


async def test_the_tables_beside_a_journal_share_its_connections(postgres_url: str) -> None:
    """A process needs eleven: ten that all tables share, and one for batches; at the end, none is left."""
    journal = SqlJournal(postgres_url)
    tables = [SqlCache(journal.url) for _ in range(4)]
    watching = await asyncpg.connect(postgres_url)
    try:
        async with journal, tables[0], tables[1], tables[2], tables[3]:
            log = await journal.begin(started("run"), minted=False)
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(journal.runs)
                    for each in tables:
                        tasks.start_soon(each.get, "key")
            for event in course("run"):
                log.append(event)
            await log.aclose()
            assert await watching.fetchval(_OTHERS) == 11
        with anyio.fail_after(10):
            while await watching.fetchval(_OTHERS):  # noqa: ASYNC110 - the server ends them
                await anyio.sleep(0.05)
    finally:
        await watching.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")
async def test_a_file_is_open_during_runs_only(tmp_path: Path) -> None:
    """So that the file can be moved or deleted, and one who has a journal for each customer has few open."""
    log = await SqlJournal(tmp_path / "journal.db").begin(started("run"), minted=False)
    assert open_files(tmp_path)
    await log.aclose()
    assert not open_files(tmp_path)
