"""A journal that is not entered keeps one connection to its SQLite file for the process."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from core.actors import boss, plan_of

from podium import Conductor, ScriptedWorker
from podium.journal import SqlJournal
from podium.journal.sql import sqlite as parked

PLAN = plan_of((0, "first", ()), (0, "second", (0,)))
SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.journal import SqlJournal
from podium.planners import FixedPlanner

conductor = Conductor(FixedPlanner("{}"), [ScriptedWorker("a", "A")], journal=SqlJournal(Path(sys.argv[1])))
plan = Plan((Step(0, "first"),))
assert asyncio.run(conductor.run(plan)).status == "ok"
assert conductor.run_sync(plan).status == "ok"
if "fork" in sys.argv:
    child = os.fork()
    if not child:
        assert asyncio.run(conductor.run(plan)).status == "ok"
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
assert asyncio.run(conductor.run(plan)).status == "ok"
"""


def conductor(path: Path) -> Conductor:
    """Return a conductor that is never entered."""
    return Conductor(boss(""), [ScriptedWorker("a", "A")], journal=SqlJournal(path))


def open_files(path: Path) -> int:
    """Return how many file descriptors of this process are of the journal's files."""
    named = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(str(name).startswith(str(path)) for name in named)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the connections that are opened from now on."""
    connect, made = sqlite3.connect, list[str]()

    def counted(path: Any, **settings: Any) -> sqlite3.Connection:
        made.append(str(path))
        return connect(path, **settings)

    monkeypatch.setattr(sqlite3, "connect", counted)
    return made


def test_runs_in_any_event_loop_use_one_connection(tmp_path: Path, opened: list[str]) -> None:
    """Neither a run nor an event loop opens the file again."""
    one = conductor(tmp_path / "journal.db")
    for _ in range(3):
        assert asyncio.run(one.run(PLAN)).status == "ok"
    assert one.run_sync(PLAN).status == "ok"
    assert len(opened) == 1


def test_a_file_that_was_replaced_is_opened_again(tmp_path: Path, opened: list[str]) -> None:
    """The kept connection is to a file that is no more."""
    path = tmp_path / "journal.db"
    one = conductor(path)
    assert asyncio.run(one.run(PLAN)).status == "ok"
    for file in tmp_path.iterdir():
        file.unlink()
    assert asyncio.run(one.run(PLAN)).status == "ok"
    assert len(opened) == 2
    assert len(asyncio.run(SqlJournal(path).runs())) == 1


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")
def test_leaving_an_entered_journal_closes_its_file(tmp_path: Path) -> None:
    """So that the file can be moved or deleted."""
    path = tmp_path / "journal.db"
    one = conductor(path)

    async def enter() -> None:
        async with one:
            assert (await one.run(PLAN)).status == "ok"

    assert asyncio.run(one.run(PLAN)).status == "ok"
    assert open_files(path) > 0
    asyncio.run(enter())
    assert open_files(path) == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc here")
def test_few_files_are_kept_open(tmp_path: Path) -> None:
    """One who has a journal for each customer does not run out of file descriptors."""
    for number in range(3 * parked.MOST):
        asyncio.run(conductor(tmp_path / f"journal{number}.db").run(PLAN))
    assert open_files(tmp_path) <= 3 * parked.MOST  # the file, its log, and its index of the log


@pytest.mark.long
@pytest.mark.parametrize(
    "fork",
    [[], pytest.param(["fork"], marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here"))],
)
def test_nothing_is_left_open_at_the_end_of_the_process(tmp_path: Path, fork: list[str]) -> None:
    """The process ends without a warning, also one that forks."""
    path = tmp_path / "journal.db"
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(path), *fork]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert not path.with_name("journal.db-wal").exists()
    assert len(asyncio.run(SqlJournal(path).runs())) == 3 + len(fork)
