"""Thousands of runs, half of whose clients leave: no task, no socket, no file and no memory stays behind."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import anyio
import pytest
from core.actors import plan_of
from faults.leftovers import open_files, resident_mib, until
from servers.chat_server import ChatServer, says

from podium import ChatWorker, Conductor, Endpoint
from podium.journal import SqlJournal
from podium.planners import FixedPlanner

SOAK = int(os.environ.get("SOAK", "1"))
"""How many times as many runs are made: `make soak` sets it."""
pytestmark = [pytest.mark.anyio, pytest.mark.nightly, pytest.mark.timeout(600 * SOAK)]

RUNS = 10_000 * SOAK
IN_FLIGHT = 64
MEMORY_MIB = 6.0
"""Most that all runs together may leave behind: 0.6 KiB each, of 10,000."""
PLAN = FixedPlanner(plan_of((0, "a", ()), (1, "b", (0,)), (0, "c", (0,)), (1, "d", (1, 2))))


@pytest.fixture(autouse=True)
def _unlogged() -> Iterator[None]:
    """Leave the log silent, as it is until someone configures it: pytest keeps all that is logged."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


async def _storm(run: Callable[[], Awaitable[object]], runs: int, leave_within: float) -> int:
    """Make many runs, every other of which is left after at most so many seconds; return how many were."""
    moments, left = Random(11), 0  # noqa: S311
    numbers = iter(range(runs))

    async def lane() -> None:
        nonlocal left
        for number in numbers:
            with anyio.move_on_after(moments.uniform(0, leave_within) if number % 2 else None) as scope:
                await run()
            left += scope.cancelled_caught

    async with anyio.create_task_group() as lanes:
        for _ in range(IN_FLIGHT):
            lanes.start_soon(lane)
    return left


async def test_ten_thousand_recorded_runs_over_sockets_leave_nothing(tmp_path: Path) -> None:
    """The same over HTTP and with a journal: what stays open is a few idle connections, and then nothing."""
    async with ChatServer(lambda call: says(call, "fine", delay=0.01)) as server:
        before, files = asyncio.all_tasks(), open_files()
        pool = [ChatWorker(name, endpoint=Endpoint(server.url)) for name in ("one", "two")]
        journal = SqlJournal(tmp_path / "journal.db", synchronous="normal")
        async with Conductor(PLAN, pool, journal=journal) as conductor:

            async def run() -> None:
                await conductor.run("Why?")
                server.calls.clear()

            await _storm(run, 500, 0.03)
            memory = resident_mib()
            left = await _storm(run, RUNS, 0.03)
            await until(lambda: not server.tasks)
            server.calls.clear()
            assert left > RUNS * 0.4
            assert server.open_connections <= 2 * IN_FLIGHT
            assert resident_mib() - memory < MEMORY_MIB
            assert {row.state for row in await journal.runs(limit=None)} == {"ok", "stopped"}
        await until(lambda: not server.open_connections)
        await until(lambda: not asyncio.all_tasks() - before)
        assert open_files() <= files
