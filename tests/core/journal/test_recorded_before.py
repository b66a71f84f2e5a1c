"""Runs that commit 745a65c7 has recorded: what it read of them and made of them, this version does, too."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from core.journal.recorded_before.cases import CASES, RESULTS, load, read

from podium.errors import JournalBroken
from podium.journal import SqlJournal, verify_runs

pytestmark = pytest.mark.anyio

EXPECTED = json.loads(RESULTS.read_text("utf-8"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return load(tmp_path_factory.mktemp("recorded") / "journal.db")


@pytest.fixture
def path(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(recorded, tmp_path / "journal.db"))


@pytest.mark.parametrize("name", CASES)
async def test_an_old_run_goes_on_as_it_did(name: str, path: Path) -> None:
    assert await CASES[name].carry_out(SqlJournal(path)) == EXPECTED["cases"][name]


async def test_old_runs_are_read_as_they_were(path: Path) -> None:
    assert (await read(SqlJournal(path)), await verify_runs(SqlJournal(path))) == (EXPECTED["read"], ())


async def test_a_field_that_this_version_lacks_is_refused(path: Path) -> None:
    """By its name, so that no run goes on without a part of its record."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            """UPDATE podium_events SET text = replace(text, '"attempt":1,', '"attempt":1,"lost":2,')"""
            """ WHERE run_id = 'killed' AND text LIKE '%"step_started"%'"""
        )
        connection.commit()
    async with SqlJournal(path) as journal:
        with pytest.raises(JournalBroken, match=r"step_started is invalid: event\.lost"):
            await journal.read("killed")
    assert await CASES["killed"].carry_out(SqlJournal(path)) == {"error": "journal_broken", "calls": {}}
