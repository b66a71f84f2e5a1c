"""Runs that commit 745a65c7 has recorded: what it read of them and made of them, this version does, too.

`recorded_before/cases.py` has the table of the runs and of what is done with them.
"""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from core.journal.recorded_before.cases import CASES, RESULTS, RUNS, load, read
from typer.testing import CliRunner

from podium.cli.root import app
from podium.errors import JournalBroken
from podium.journal import SqlJournal, verify_runs
from podium.types import AttemptFailed

pytestmark = pytest.mark.anyio

EXPECTED = json.loads(RESULTS.read_text("utf-8"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of the recorded journal, which no test changes."""
    return load(tmp_path_factory.mktemp("recorded") / "journal.db")


@pytest.fixture
def path(recorded: Path, tmp_path: Path) -> Path:
    """Return a copy of the recorded journal."""
    return Path(shutil.copy(recorded, tmp_path / "journal.db"))


@pytest.mark.parametrize("name", CASES)
async def test_an_old_run_goes_on_as_it_did(name: str, path: Path) -> None:
    """With the same answer, problems, costs and actions, and with no other calls."""
    assert await CASES[name].carry_out(SqlJournal(path)) == EXPECTED["cases"][name]


async def test_old_runs_are_read_as_they_were(path: Path) -> None:
    """Their chains hold, too."""
    assert await read(SqlJournal(path)) == EXPECTED["read"]
    assert await verify_runs(SqlJournal(path)) == ()


def test_old_runs_are_shown(path: Path) -> None:
    """With a tick at each step that is `ok`."""
    config = path.with_name("podium.toml")
    config.write_text('[journal]\npath = "journal.db"\n')
    for run_id in RUNS:
        shown = CliRunner().invoke(app, ["show", run_id, "--config", str(config)])
        assert shown.exit_code == 0, shown.output
        steps = "\n".join(EXPECTED["read"][run_id]["steps"])
        good = re.findall(r"^\d\.(\d) (\w+): ok", steps, re.MULTILINE)
        assert re.findall(r"^✓ (\d) (\w+)", shown.output, re.MULTILINE) == good


async def test_calls_that_were_hedged_are_read(path: Path) -> None:
    """Hedging has had no field of its own: the slower of two calls is a failed call with this problem."""
    async with SqlJournal(path) as journal:
        events = [entry.event for entry in await journal.read("hedged")]
    (failed,) = (event for event in events if isinstance(event, AttemptFailed))
    assert failed.call.problem is not None
    assert (failed.call.worker, failed.call.problem.code, failed.wait) == ("b", "hedged", None)


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
