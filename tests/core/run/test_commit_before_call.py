"""With a journal, no call is sent and no event is told before it is recorded."""

from collections.abc import Collection
from pathlib import Path

import anyio
import pytest
from core.actors import boss, pair, plan_of, tags

from podium import ChatPlanner, Conductor, ScriptedWorker
from podium.journal import SqlJournal
from podium.journal.sql.commits import Batch, SqlLog
from podium.journal.sql.lease import Lease
from podium.types import Event

pytestmark = pytest.mark.anyio

CHAIN = plan_of((0, "first", ()), (1, "second", (0,)), (0, "third", (1,)))


class Gated(SqlJournal):
    """Commits while its gate is open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = anyio.Event()
        self.gate.set()

    async def _commit(self, lease: Lease, batch: Batch) -> Collection[SqlLog]:
        await self.gate.wait()
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
    workers = pair()
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
