"""Whatever is changed in a recorded journal behind Podium's back, `verify_runs` names the run."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from core.actors import in_turn
from core.journal.happenings import course, started
from hypothesis import given, strategies as st

from podium import ChatPlanner, Conductor, Retry, ScriptedWorker
from podium.errors import JournalBroken, WorkerUnavailable
from podium.journal import Schema, SqlCache, SqlJournal, SqlTables, anchors_of, export, verify_runs
from podium.journal.audit import Anchor, verify_lines
from podium.journal.journal import ROOT, Break, Record, link, verify
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import NestedRunEnded

TABLES = ("podium_runs", "podium_events", "podium_cache")
FREE = {"holder", "fence", "recoveries"}
"""Columns of the runs that change without a record."""
PLAN = '{"worker": 0, "subtask": "Do it.", "access": []}'

Cells = Mapping[str, Any]


class Same(ScriptedWorker):
    """A worker whose answers may be cached."""

    def __init__(self, text: str) -> None:
        super().__init__("cached", text)

    @property
    def identity(self) -> str:
        return "cached"


class Recorded:
    """A database with runs of all kinds, which can be changed and put back."""

    def __init__(self, location: str) -> None:
        copies = [f"CREATE TABLE podium_copy_of_{name} AS SELECT * FROM {name}" for name in TABLES]  # noqa: S608 - names from above
        self.journal, self.cache = SqlJournal(location), SqlCache(location)
        self.tables = SqlTables(Schema("copies", [copies]), location)

    async def fill(self) -> "Recorded":
        """Record runs: nested, resumed, cached, approved, failed, and one that did not end."""
        team = Conductor(FixedPlanner(PLAN), [ScriptedWorker("inmost", "inmost said")])
        flaky = in_turn("flaky", WorkerUnavailable("it is down"), "it is up")
        down = ScriptedWorker("down", WorkerUnavailable("it is down"))
        once = Retry(attempts=1)
        async with self.journal, self.cache:
            await Conductor(FixedPlanner(PLAN), [team], journal=self.journal).run("Nested?", run_id="outer")
            conductor = Conductor(FixedPlanner(PLAN), [flaky], journal=self.journal, retry=once)
            await conductor.run("Resumed?", run_id="resumed")
            await conductor.resume("resumed")
            for run_id in ("asked", "cached"):
                worker = Same("said once")
                conductor = Conductor(FixedPlanner(PLAN), [worker], journal=self.journal, cache=self.cache)
                result = await conductor.run("Cached?", run_id=run_id)
                assert result.outcomes[0].reused is (run_id == "cached")
            policy = Policy(approve=lambda request: True)
            planner = ChatPlanner(ScriptedWorker("boss", PLAN))
            conductor = Conductor(planner, [ScriptedWorker("w", "yes")], journal=self.journal, policy=policy)
            await conductor.run("Approved?", run_id="approved")
            conductor = Conductor(FixedPlanner(PLAN), [down], journal=self.journal, retry=once)
            await conductor.run("Failed?", run_id="failed")
            log = await self.journal.begin(started("open"), minted=False)
            for event in list(course("open"))[:-1]:
                log.append(event)
            await log.aclose()
        assert {row["state"] for row in await self.rows("podium_runs")} == {"ok", "failed", "stopped"}
        assert await self.verify() == ()
        return self

    @asynccontextmanager
    async def changed(self) -> AsyncGenerator[None, None]:
        async with self.tables, self.journal, self.cache:
            try:
                yield
            finally:
                for name in TABLES:
                    await self.sql(f"DELETE FROM {name}")  # noqa: S608 - names from above
                    await self.sql(f"INSERT INTO {name} SELECT * FROM podium_copy_of_{name}")  # noqa: S608

    async def sql(self, statement: str, *values: str | float | None) -> int:
        return await self.tables.transaction(lambda each: each.execute(statement, *values))

    async def rows(self, table: str) -> list[Cells]:
        order = {"podium_runs": "run_id", "podium_events": "run_id, number", "podium_cache": "key"}[table]
        query = f"SELECT * FROM {table} ORDER BY {order}"  # noqa: S608 - names from above
        found = await self.tables.transaction(lambda each: each.fetch(query), reads=True)
        return [dict(row) for row in found]

    async def verify(self, *run_ids: str, anchors: tuple[Anchor, ...] = ()) -> tuple[Break, ...]:
        return await verify_runs(self.journal, run_ids or None, anchors=anchors, cache=self.cache)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)], scope="module")
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    place = f"sqlite:///{tmp_path_factory.mktemp('audit') / 'runs.db'}"
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        place = server.url(server.create_database(), driver="postgresql")
    return anyio.run(Recorded(place).fill)


Change = Callable[[Recorded, st.DataObject], Any]


async def _change_a_value(runs: Recorded, data: st.DataObject) -> set[str]:
    table = data.draw(st.sampled_from(TABLES))
    rows = await runs.rows(table)
    row = data.draw(st.sampled_from(rows))
    column = data.draw(st.sampled_from(sorted(row.keys() - FREE)))
    value, others = row[column], [other[column] for other in rows if other[column] != row[column]]
    if column == "state" and row["run_id"] == "open":
        others = [state for state in others if state != "stopped"]
    more = value + 100 if isinstance(value, int | float) else f"{value or ''}x"
    changes = [] if value is None else [more]
    if column in ("parent", "ended", "cost") and value is not None:
        changes.append(None)
    if column in ("run_id", "number", "key"):
        others = []  # rows cannot share a key
    new = data.draw(st.sampled_from([*others, *changes]))
    keys = {"podium_runs": ["run_id"], "podium_events": ["run_id", "number"], "podium_cache": ["key"]}[table]
    where = " AND ".join(f"{key} = ?" for key in keys)
    statement = f"UPDATE {table} SET {column} = ? WHERE {where}"  # noqa: S608 - names from above
    assert await runs.sql(statement, new, *(row[key] for key in keys)) == 1
    if table == "podium_cache":
        return {"cached"} if column != "key" else set()
    return {row["run_id"], new} if column == "run_id" else {row["run_id"]}


async def _remove_a_row(runs: Recorded, data: st.DataObject) -> set[str]:
    if data.draw(st.booleans()):
        row = data.draw(st.sampled_from(await runs.rows("podium_runs")))
        await runs.sql("DELETE FROM podium_runs WHERE run_id = ?", row["run_id"])
        return {row["run_id"]}
    rows = await runs.rows("podium_events")
    last = max(row["number"] for row in rows if row["run_id"] == "open")
    others = [row for row in rows if (row["run_id"], row["number"]) != ("open", last)]
    row = data.draw(st.sampled_from(others))
    where = "run_id = ? AND number = ?"
    await runs.sql(f"DELETE FROM podium_events WHERE {where}", row["run_id"], row["number"])  # noqa: S608
    return {row["run_id"]}


async def _copy_a_run(runs: Recorded, data: st.DataObject) -> set[str]:
    run_id = data.draw(st.sampled_from(await runs.rows("podium_runs")))["run_id"]
    await runs.sql(
        "INSERT INTO podium_runs SELECT 'copy', parent, question, state, began, ended, cost, holder, fence, "
        "recoveries FROM podium_runs WHERE run_id = ?",
        run_id,
    )
    if data.draw(st.booleans()):
        events = "SELECT 'copy', number, at, text, hash FROM podium_events WHERE run_id = ?"
        await runs.sql(f"INSERT INTO podium_events {events}", run_id)
    return {"copy"}


CHANGES = (_change_a_value, _remove_a_row, _copy_a_run)


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.timeout(300)  # 300 examples on a PostgreSQL server that others use, too
@given(data=st.data())
def test_every_change_shows(recorded: Recorded, change: Change, data: st.DataObject) -> None:
    async def check() -> None:
        async with recorded.changed():
            touched = await change(recorded, data)
            found = {broken.run_id for broken in await recorded.verify()}
        assert not touched or touched & found, (touched, found)
        assert found <= touched | {"outer"} | nested, (touched, found)

    nested = {run_id for run_id in anyio.run(_ids, recorded) if len(run_id) == 32}
    anyio.run(check)


async def _ids(runs: Recorded) -> list[str]:
    return [row["run_id"] for row in await runs.rows("podium_runs")]


@pytest.mark.anyio
async def test_a_changed_cached_answer_is_not_used(recorded: Recorded, caplog: Any) -> None:
    conductor = Conductor(FixedPlanner(PLAN), [Same("said anew")], cache=recorded.cache)
    async with recorded.changed():
        await recorded.sql("UPDATE podium_cache SET text = replace(text, 'said once', 'was said')")
        for _ in range(2):
            (found,) = await recorded.verify()
            assert (found.run_id, "cached answer" in found.reason) == ("cached", True)
            assert (await conductor.run("Cached?")).answer == "said anew"
        assert all(part in caplog.text for part in ("could not be read", "was changed"))


@pytest.mark.long
def test_an_anchor_shows_what_the_journal_cannot(recorded: Recorded) -> None:
    async def check() -> None:
        async with recorded.journal:
            anchors = tuple([each async for each in anchors_of(recorded.journal)])
            assert {each.run_id for each in anchors} == set(await _ids(recorded))
            failed = [each async for each in anchors_of(recorded.journal, ["failed"])]
            assert failed == [each for each in anchors if each.run_id == "failed"]
        assert await recorded.verify(anchors=anchors) == ()
        assert await recorded.verify("outer", anchors=anchors) == ()
        for deed, run_id, reason in (
            (_cut, "open", "records are missing"),
            (_delete, "failed", "the run is missing"),
            (_forge, "approved", "differs from"),
        ):
            async with recorded.changed():
                await deed(recorded, run_id)
                assert await recorded.verify() == ()
                (found,) = await recorded.verify(anchors=anchors)
                assert (found.run_id, reason in found.reason) == (run_id, True)
                lines = [line async for line in export(recorded.journal)]
                broken = [each for *_, each in verify_lines(lines, anchors=anchors) if each is not None]
                assert broken == [found]

    anyio.run(check)


async def _cut(runs: Recorded, run_id: str) -> None:
    last = max(row["number"] for row in await runs.rows("podium_events") if row["run_id"] == run_id)
    assert await runs.sql("DELETE FROM podium_events WHERE run_id = ? AND number = ?", run_id, last) == 1


async def _delete(runs: Recorded, run_id: str) -> None:
    await runs.journal.delete(run_id)


async def _forge(runs: Recorded, run_id: str) -> None:
    before = "0" * 64
    for row in await runs.rows("podium_events"):
        if row["run_id"] == run_id:
            text = row["text"].replace("yes", "no")
            before = link(before, run_id, row["number"], row["at"], text)
            change = "UPDATE podium_events SET text = ?, hash = ? WHERE run_id = ? AND number = ?"
            await runs.sql(change, text, before, run_id, row["number"])


@pytest.mark.anyio
async def test_a_nested_run_that_goes_on_is_as_recorded(tmp_path: Path) -> None:
    inner = in_turn("inmost", WorkerUnavailable("it is down"), "it is up")
    journal, once = SqlJournal(tmp_path / "runs.db"), Retry(attempts=1)
    team = Conductor(FixedPlanner(PLAN), [inner], retry=once)
    conductor = Conductor(FixedPlanner(PLAN), [team], journal=journal, retry=once)
    assert (await conductor.run("What?", run_id="outer")).status == "failed"
    assert (await conductor.resume("outer")).answer == "it is up"
    assert await verify_runs(journal) == ()
    events = [entry.event for entry in await journal.read("outer")]
    links = [event for event in events if isinstance(event, NestedRunEnded)]
    (nested,) = [row.run_id for row in await journal.runs(nested=True) if row.parent == "outer"]
    assert (len(links), links[-1].records) == (2, len(await journal.records(nested)))


def chained(*texts: str) -> list[Record]:
    records: list[Record] = []
    for number, text in enumerate(texts):
        head = link(records[-1].hash if records else ROOT, "r", number, 0.1 * number, text)
        records.append(Record(run_id="r", number=number, at=0.1 * number, text=text, hash=head))
    return records


def test_the_hash_of_a_record_is_what_the_format_says() -> None:
    """Whoever audits an export computes it anew, in any language."""
    first = link(ROOT, "r", 0, 0.5, "é")
    assert first == sha256(("0" * 64 + "\nr\n0\n0.5\né").encode()).hexdigest()
    assert link(first, "r", 1, 1e-07, "") == sha256(f"{first}\nr\n1\n1e-07\n".encode()).hexdigest()


@given(st.data())
def test_every_record_of_a_chain_is_verified(data: st.DataObject) -> None:
    """Wherever one record is changed, dropped, doubled or moved, the first wrong place is named."""
    records = chained(*data.draw(st.lists(st.sampled_from("abc"), min_size=2, max_size=9)))
    where = data.draw(st.integers(0, len(records) - 1))
    record, before, after = records[where], records[:where], records[where + 1 :]
    changed = [replace(record, text=record.text + "!"), replace(record, at=record.at + 1.0)]
    changed += [replace(record, hash="f" * 64), replace(record, number=where + 1)]
    for each in changed:
        assert _broken_at([*before, each, *after]) == where
    assert _broken_at([*before, record, record, *after]) == where + 1
    if after:
        assert _broken_at([*before, *after]) == where
        assert _broken_at([*before, *(replace(each, number=each.number - 1) for each in after)]) == where
        assert _broken_at([*before, *after, record]) == where


def _broken_at(records: list[Record]) -> int | None:
    found = verify(records)
    return None if found is None else found.number


@pytest.mark.parametrize(
    "line", ["x", "{}", "[]", '{"run_id":1,"number":0,"at":0,"hash":"","event":{}}', "\0", "9" * 9999]
)
def test_what_is_no_export_is_refused(line: str) -> None:
    with pytest.raises(JournalBroken, match="line 2"):
        list(verify_lines(["", line]))
