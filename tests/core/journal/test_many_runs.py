"""A journal of many runs: pages, pruning in parts, ids without a row, and indexes for each query."""

import re
from pathlib import Path

import pytest
from core.journal.happenings import ended, record_run

from podium.journal import Schema, SqlJournal, SqlTables, anchors_of, export, journal as journals, verify_runs
from podium.journal.audit import read_lines, verify_each
from podium.journal.sql import runs as sql_runs

pytestmark = pytest.mark.anyio
COUNT = 25


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def journal(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlJournal:
    monkeypatch.setattr(journals, "_PAGE", 4)
    monkeypatch.setattr(sql_runs, "_VALUES", 3)
    place = tmp_path / "runs.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    return SqlJournal(place)


async def record(journal: SqlJournal, count: int = COUNT) -> list[str]:
    """Record runs; every third has two nested runs, one within the other. Return all ids, oldest first."""
    ids: list[str] = []
    for number in range(count):
        outer = f"run{number:02}"
        family = [outer, f"{outer}-a", f"{outer}-b"] if number % 3 == 0 else [outer]
        for place, run_id in enumerate(family):
            parent = (family[place - 1], 1, 0, 1) if place else None
            await record_run(journal, run_id, ended(run_id), parent=parent)
        ids += family
    return ids


async def change(journal: SqlJournal, statement: str, *values: str | float) -> None:
    tables = SqlTables(Schema("none", [[]]), journal.url)
    await tables.transaction(lambda each: each.execute(statement, *values))


async def test_audit_and_export_reach_every_run_once(journal: SqlJournal) -> None:
    """Also if runs are on different pages than the runs nested in them, and if many began at one time."""
    async with journal:
        ids = await record(journal, 12)
        await change(journal, "UPDATE podium_runs SET began = 5.0 WHERE run_id LIKE 'run1%'")
        listed = [row.run_id async for page in journal.pages(nested=True) for row in page]
        assert sorted(listed) == sorted(ids)
        assert sorted([row.run_id async for row, _ in verify_each(journal) if row]) == sorted(ids)
        anchors = [anchor async for anchor in anchors_of(journal)]
        assert sorted(anchor.run_id for anchor in anchors) == sorted(ids)
        lines = [line async for line in export(journal)]
        assert sorted(records[0].run_id for records in read_lines(lines)) == sorted(ids)


async def test_rows_that_nobody_can_reach_are_verified(journal: SqlJournal) -> None:
    """Runs whose rows name each other, or a missing run, as their outer run; and records without a row."""
    async with journal:
        await record(journal, 7)
        await change(journal, "UPDATE podium_runs SET parent = 'run02' WHERE run_id = 'run01'")
        await change(journal, "UPDATE podium_runs SET parent = 'run01' WHERE run_id = 'run02'")
        await change(journal, "UPDATE podium_runs SET parent = 'nobody' WHERE run_id = 'run00'")
        await change(journal, "DELETE FROM podium_runs WHERE run_id IN ('run03-a', 'run04', 'run05')")
        found = await verify_runs(journal)
        wrong = {each.run_id: each.reason for each in found}
    assert set(wrong) == {"run00", "run01", "run02", "run03-a", "run03-b", "run04", "run05"}
    assert wrong["run00"] == "its outer run nobody is missing"
    assert (wrong["run03-b"], wrong["run04"]) == ("its outer run run03-a is missing", "its row is missing")


async def test_prunes_in_parts(journal: SqlJournal) -> None:
    """Old runs go with those nested in them; held ones and younger ones stay, wherever they are."""
    async with journal:
        ids = await record(journal)
        for number in range(20):
            times = "UPDATE podium_runs SET began = ?, ended = ? WHERE run_id LIKE ?"
            await change(journal, times, 10.0 * number, 10.0 * number + 1, f"run{number:02}%")
        await change(journal, "UPDATE podium_runs SET ended = 9e12 WHERE run_id = 'run07'")
        held = [await journal.claim(run_id) for run_id in ("run02", "run06-b")]
        assert await journal.prune(86400.0) == 17
        left = {row.run_id for row in await journal.runs(limit=None, nested=True)}
        kept = {"run02", "run06", "run06-a", "run06-b", "run07"} | {each for each in ids if each >= "run20"}
        assert (left, await journal.strays()) == (kept, [])
        for log in held:
            await log.aclose()
        assert (await journal.prune(86400.0), await journal.prune(86400.0)) == (2, 0)


async def test_the_settings_of_the_documentation(postgres_url: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "server-deploy.md").read_text(encoding="utf-8")
    statements = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    journal = SqlJournal(postgres_url)
    assert await journal.runs() == ()
    for statement in statements:
        await change(journal, statement)
    assert statements
