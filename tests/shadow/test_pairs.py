"""Where pairs are kept: in a file, on a server."""

from dataclasses import replace
from pathlib import Path
from time import time

import anyio
import pytest

from podium import Conductor, Plan, ScriptedWorker, Step
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.secrets import register
from podium.usage import Usage
from podium_shadow import Pair, Side, Spent, SqlPairs, Tally

pytestmark = pytest.mark.anyio

WHOLE = Pair(
    pair_id="p1",
    shadow="ours",
    at=100.0,
    question="What is it, naïvely?",
    primary=Side(
        status="ok", answer="It.\n", seconds=0.5, spent=Spent(calls=1, usage=Usage(7, 5), cost=0.25)
    ),
    candidate=Side(status="timeout", problem="no answer after 1 s", seconds=1.0, spent=Spent(run_id="r1")),
)
"""A pair that says all a pair can say."""
TALLY = Tally(tally_id="t1", shadow="ours", at=100.0, seen=10, sampled=3, busy=1, unfunded=1)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def pairs(request: pytest.FixtureRequest, tmp_path: Path) -> SqlPairs:
    where = tmp_path / "journal.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return SqlPairs(where)


async def test_what_was_put_comes_back(pairs: SqlPairs) -> None:
    """All of it, entered or not, the oldest first; a tally as it last was."""
    await pairs.put(WHOLE, TALLY)
    async with pairs, pairs:
        await pairs.put(replace(WHOLE, pair_id="p0", at=50.0), TALLY)
    found = await pairs.pairs()
    assert ([pair.pair_id for pair in found], found[1]) == (["p0", "p1"], WHOLE)
    await pairs.put(None, replace(TALLY, seen=11, at=101.0))
    await pairs.put(None, replace(TALLY, tally_id="t2", at=50.0))
    assert [(tally.tally_id, tally.seen) for tally in await pairs.tallies()] == [("t2", 10), ("t1", 11)]


async def test_some_are_asked_for(pairs: SqlPairs) -> None:
    """By shadow, by age, and the latest only; old ones are forgotten, with the counts of that time."""
    for number in range(4):
        shadow = "ours" if number % 2 else "theirs"
        await pairs.put(
            replace(WHOLE, pair_id=f"p{number}", at=float(number), shadow=shadow),
            replace(TALLY, tally_id=shadow, shadow=shadow, at=float(number)),
        )
    assert [pair.pair_id for pair in await pairs.pairs(shadow="ours")] == ["p1", "p3"]
    assert [pair.pair_id for pair in await pairs.pairs(since=2.0)] == ["p2", "p3"]
    assert [pair.pair_id for pair in await pairs.pairs(limit=3)] == ["p1", "p2", "p3"]
    assert [tally.shadow for tally in await pairs.tallies(since=3.0)] == ["ours"]
    assert [tally.shadow for tally in await pairs.tallies(shadow="theirs")] == ["theirs"]
    await pairs.put(replace(WHOLE, pair_id="new", at=time()), replace(TALLY, tally_id="new", at=time()))
    assert await pairs.prune(3600.0) == 4
    assert [pair.pair_id for pair in await pairs.pairs()] == ["new"]
    assert [tally.tally_id for tally in await pairs.tallies()] == ["new"]


async def test_many_at_once_are_all_kept(pairs: SqlPairs) -> None:
    """Tasks that write at the same time take nothing from each other."""
    async with pairs, anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(pairs.put, replace(WHOLE, pair_id=f"p{number}"), TALLY)
    assert {pair.pair_id for pair in await pairs.pairs()} == {f"p{number}" for number in range(50)}


async def test_they_are_in_the_journal_and_without_secrets(tmp_path: Path) -> None:
    register("canary-of-the-shadow")
    where = tmp_path / "journal.db"
    journal = SqlJournal(where)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [ScriptedWorker("one", "1")], journal=journal)
    await conductor.run("?", run_id="mine")
    said = Side(status="ok", answer="the key is canary-of-the-shadow, or sk-abcdefghijklmnop1234")
    await SqlPairs.beside(journal).put(replace(WHOLE, question="canary-of-the-shadow?", primary=said), TALLY)
    (pair,) = await SqlPairs(where).pairs()
    assert pair.question == "[secret]?"
    assert pair.primary.answer.startswith("the key is [secret], or ")
    assert "abcdefghijklmnop1234" not in f"{pair}"
    assert [run.run_id for run in await journal.runs()] == ["mine"]
