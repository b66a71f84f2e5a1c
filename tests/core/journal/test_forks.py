"""A child of a fork and the SQLite file of its parent."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

RUNS = """
import asyncio, os, sys, time
from pathlib import Path
from podium import Conductor, FunctionWorker, Card
from podium.journal import SqlJournal
from podium.planners import FixedPlanner

PLAN = '{"worker": 0, "subtask": "s", "access": []}\\n{"worker": 0, "subtask": "t", "access": [0]}\\n'

async def work(step):
    await asyncio.sleep(0.02)
    return "done"

def make(path):
    worker = FunctionWorker(work, card=Card(name="w", description="d"))
    return Conductor(FixedPlanner(PLAN), [worker], journal=SqlJournal(Path(path), patience=20))

def run(conductor, name, count):
    for index in range(count):
        assert conductor.run_sync("q", run_id=f"{name}-{index}").status == "ok"
"""
AMID = """
from podium.errors import JournalError
from podium.journal import Schema, SqlTables

NOTES = Schema("notes", [["CREATE TABLE podium_notes (note TEXT NOT NULL)"]])
path, link, other = sys.argv[1:]
conductor = make(path)
run(conductor, "first", 1)
os.symlink(path, link)

def child():
    for each in (make(path), make(link)):
        try:
            asyncio.run(each.run("q"))
        except JournalError as error:
            assert "spawn" in str(error) and error.code == "journal", error
        else:
            raise AssertionError("the child opened the file")
    assert asyncio.run(make(other).run("q")).status == "ok"

async def fork(transaction):
    if transaction is not None:
        await transaction.execute("INSERT INTO podium_notes (note) VALUES (?)", "n")
    pid = os.fork()
    if not pid:
        code = 1
        try:
            child()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]

async def entered():
    async with conductor:
        return await fork(None)

assert asyncio.run(SqlTables(NOTES, Path(path)).transaction(fork)) == 0
assert asyncio.run(entered()) == 0
run(conductor, "last", 1)
"""


def script(source: str, *arguments: str | Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", RUNS + source, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def runs_in(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        count, ok = connection.execute("SELECT count(*), sum(state = 'ok') FROM podium_runs").fetchone()
    finally:
        connection.close()
    assert count == ok
    return int(count)


@pytest.mark.long
def test_a_child_refuses_a_file_that_its_parent_had_open(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    script(AMID, path, tmp_path / "link.db", tmp_path / "other.db")
    assert runs_in(path) == 2
