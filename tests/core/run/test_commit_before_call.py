"""With a journal, no call is sent and no event is told before it is recorded."""

import sqlite3
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from core.actors import boss, plan_of, tags

from podium import Conductor, ScriptedWorker
from podium.errors import JournalError
from podium.journal import SqlJournal
from podium.journal.sql.commits import Batch, SqlLog
from podium.journal.sql.lease import Lease
from podium.planners import ChatPlanner
from podium.types import Event, StepDelta, StepEnded

pytestmark = pytest.mark.anyio

CHAIN = plan_of((0, "first", ()), (1, "second", (0,)), (0, "third", (1,)))


class Gated(SqlJournal):
    """Commits while its gate is open, and counts the commits that hold records."""

    def __init__(self, path: Path, *, patience: float = 30.0) -> None:
        super().__init__(path, patience=patience)
        self.gate = anyio.Event()
        self.gate.set()
        self.commits = 0

    async def _commit(self, lease: Lease, batch: Batch) -> Collection[SqlLog]:
        await self.gate.wait()
        self.commits += bool(batch.parts)
        return await super()._commit(lease, batch)


async def _soon() -> None:
    """Give a call that would be sent too early the time to be sent."""
    await anyio.sleep(0.05)


async def test_a_step_waits_until_what_it_is_shown_is_recorded(tmp_path: Path) -> None:
    journal, told = Gated(tmp_path / "journal.db"), list[Event]()

    def first(_: object) -> str:
        journal.gate = anyio.Event()
        return "one"

    workers = [ScriptedWorker("a", first), ScriptedWorker("b", "two")]
    plan = plan_of((0, "first", ()), (1, "second", (0,)))
    async with Conductor(boss(""), workers, journal=journal) as conductor:
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                assert (await conductor.run(plan, on_event=told.append)).status == "ok"

            tasks.start_soon(run)
            while not workers[0].requests:  # noqa: ASYNC110  (the worker has no event to wait for)
                await anyio.sleep(0.001)
            await _soon()
            assert not workers[1].requests
            assert "step_ended 0" not in tags(told)
            journal.gate.set()
        assert [len(worker.requests) for worker in workers] == [1, 1]
    assert "step_ended 0" in tags(told)


@pytest.mark.parametrize("asked", ["What?", CHAIN], ids=["planner", "step"])
async def test_nothing_is_paid_for_before_the_run_is_recorded(tmp_path: Path, asked: object) -> None:
    journal = Gated(tmp_path / "journal.db")
    planner = ScriptedWorker("boss", '{"worker": 0, "subtask": "go", "access": []}')
    workers = [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]
    async with Conductor(ChatPlanner(planner), workers, journal=journal) as conductor:
        journal.gate = anyio.Event()
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                assert (await conductor.run(asked)).status == "ok"  # type: ignore[arg-type]

            tasks.start_soon(run)
            await _soon()
            assert not [request for worker in (planner, *workers) for request in worker.requests]
            journal.gate.set()
    assert workers[0].requests


async def test_listeners_are_told_what_is_recorded_in_its_order(tmp_path: Path) -> None:
    path, told, unrecorded = tmp_path / "journal.db", list[Event](), list[Event]()

    def listen(event: Event) -> None:
        told.append(event)
        if isinstance(event, StepEnded):
            with closing(sqlite3.connect(path)) as connection:
                texts = [text for (text,) in connection.execute("SELECT text FROM podium_events")]
            ended = f'"type":"step_ended","event":{{"run_id":"{event.run_id}"'
            count = sum(isinstance(each, StepEnded) for each in told)
            if sum(ended in text for text in texts) < count:
                unrecorded.append(event)

    plan = plan_of((0, "find", ()), (1, "left", (0,)), (1, "right", (0,)), (0, "join", (1, 2)))
    workers = [ScriptedWorker(name, "one two three", piece=4) for name in "ab"]
    async with SqlJournal(path) as journal, Conductor(boss(""), workers, journal=journal) as conductor:
        result = await conductor.run(plan, on_event=listen)
        recorded = [entry.event for entry in await journal.read(result.run_id)]
    assert unrecorded == []
    kinds = {type(event) for event in recorded}
    kept = [event for event in told if type(event) in kinds]
    assert [event.type for event in kept] == [event.type for event in recorded]
    for step in range(4):
        own = [e.type for e in told if getattr(e, "step", None) == step and e.type != "answer_delta"]
        assert own == ["step_started", *["step_delta"] * Counter(own)["step_delta"], "step_ended"]
    assert any(isinstance(event, StepDelta) for event in told)


async def test_a_journal_that_fails_stops_the_run_before_its_next_call(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqlJournal(path, patience=0.2)
    locker = sqlite3.connect(path, isolation_level=None)

    def first(_: object) -> str:
        locker.execute("BEGIN EXCLUSIVE")
        return "one"

    workers = [ScriptedWorker("a", first), ScriptedWorker("b", "two")]
    async with Conductor(boss(""), workers, journal=journal) as conductor:
        with anyio.fail_after(10), pytest.raises(JournalError, match="locked") as caught:
            await conductor.run(CHAIN, run_id="mine")
        locker.close()
        assert not workers[1].requests
        assert (caught.value.code, caught.value.result.problem.code) == ("journal", "journal")
        assert caught.value.result.status != "ok"
        assert caught.value.result.outcomes[0].status == "ok"
