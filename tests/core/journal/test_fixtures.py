"""Journals that earlier schemas wrote: newer code reads and resumes them, or says that it cannot."""

import shutil
from pathlib import Path

import pytest
from core.journal.write_fixtures import DIAMOND, FOLDER

from podium import Conductor, RulePlanner, ScriptedWorker
from podium.errors import JournalBroken
from podium.journal import SqlJournal, read_lines, verify_lines, verify_runs

pytestmark = pytest.mark.anyio

REFUSED = ["v1"]
"""Their hashes do not cover the run's id."""
FILES = sorted(path for path in FOLDER.glob("v*.db") if path.stem not in REFUSED)


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> SqlJournal:
    """Return a copy of a journal of old."""
    return SqlJournal(Path(shutil.copy(request.param, tmp_path / "journal.db")))


def test_there_are_some() -> None:
    """They are kept with the tests."""
    assert [path.name for path in FILES][:1] == ["v2.db"]


async def test_old_runs_are_read(journal: SqlJournal) -> None:
    """All of their events have a type and their chains hold."""
    async with journal:
        assert await verify_runs(journal) == ()
        rows = await journal.runs(limit=None, nested=True)
        states = {row.run_id: row.state for row in rows}
        assert (
            states.items()
            >= {"whole": "ok", "partial": "partial", "nested": "ok", "cut-off": "stopped"}.items()
        )
        assert [row.parent for row in rows if row.parent is not None] == ["nested"]
        for row in rows:
            first, *_, last = await journal.read(row.run_id)
            assert (first.event.type, last.event.type[:4]) == ("run_started", "run_")


async def test_old_runs_are_resumed(journal: SqlJournal) -> None:
    """What they had paid for is not paid for again."""
    team = [ScriptedWorker(name, f"{name} said") for name in ("a", "b", "c")]
    result = await Conductor(RulePlanner(), team, journal=journal).resume("cut-off")
    assert (result.status, result.answer) == ("ok", "a said")
    assert [len(worker.requests) for worker in team] == [1, 0, 1]
    assert result.plans == (DIAMOND,)


@pytest.mark.parametrize("name", REFUSED)
async def test_journals_of_before_are_refused(name: str, tmp_path: Path) -> None:
    """They are told as such, and not as changed."""
    journal = SqlJournal(Path(shutil.copy(FOLDER / f"{name}.db", tmp_path / "journal.db")))
    with pytest.raises(JournalBroken, match="earlier version"):
        await journal.runs()
    lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    for *_, found in verify_lines(lines):
        assert found is not None
        assert "use the version that wrote it" in found.reason


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_old_exports_are_read(path: Path) -> None:
    """Their chains hold, and their records are events."""
    lines = path.with_suffix(".jsonl").read_text("utf-8").splitlines()
    assert [found for *_, found in verify_lines(lines)] == [None] * 5
    for records in read_lines(lines):
        assert [record.entry().number for record in records] == list(range(len(records)))
