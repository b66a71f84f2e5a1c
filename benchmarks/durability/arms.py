"""The arms: Podium over its journals, and DBOS. Each is imported only when it is opened."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from typing import Literal, get_args

import anyio
import anyio.to_thread

from benchmarks.block import Run
from benchmarks.job import ANSWER, DIAMOND, MODELS, write_prompt

Arm = Literal["podium", "podium-sqlite", "podium-postgres", "dbos-sqlite", "dbos-sqlite-wal", "dbos-postgres"]
ARMS: tuple[Arm, ...] = get_args(Arm)


@asynccontextmanager
async def open_arm(arm: Arm, place: str, latency: float) -> AsyncGenerator[Run, None]:
    """Open `arm`; yield a coroutine function that does the job once and returns its answer.

    Args:
        arm: the arm.
        place: URL of the database, as SQLAlchemy takes it, without a driver.
        latency: seconds that each worker takes.
    """
    opened = _dbos(place, latency) if arm.startswith("dbos") else _podium(place, latency)
    async with opened as run:
        yield run


async def recorded(arm: Arm, place: str) -> int:
    """Return how many whole runs the database of `arm` holds, asked anew; 0 where there is none."""
    if arm == "podium":
        return 0
    if arm.startswith("dbos"):
        return await anyio.to_thread.run_sync(_recorded_by_dbos, place)
    from podium.journal import SqlJournal  # noqa: PLC0415

    async with SqlJournal(place) as journal:
        return sum(row.state == "ok" for row in await journal.runs(limit=None))


@asynccontextmanager
async def _podium(place: str, latency: float) -> AsyncGenerator[Run, None]:
    from podium.conductor import Conductor  # noqa: PLC0415
    from podium.planners import FixedPlanner  # noqa: PLC0415
    from podium.workers import (  # noqa: PLC0415
        FREE,
        Card,
        FunctionWorker,
        StepInput,
    )

    waiting = anyio.CapacityLimiter(math.inf)

    async def answer(step_input: StepInput) -> str:  # noqa: ARG001  (the face of a worker's function)
        if latency:  # outside of the loop, as workers are: its own timers are up to 1 ms late if it is woken
            await anyio.to_thread.run_sync(time.sleep, latency, limiter=waiting)
        return ANSWER

    journal = None
    if place:
        from podium.journal import SqlJournal  # noqa: PLC0415

        journal = SqlJournal(place)
    pool = [FunctionWorker(answer, card=Card(name=name, price=FREE)) for name in MODELS]
    async with Conductor(FixedPlanner(DIAMOND), pool, journal=journal) as conductor:

        async def run() -> str:
            return (await conductor.run(DIAMOND)).answer

        yield run


@asynccontextmanager
async def _dbos(place: str, latency: float) -> AsyncGenerator[Run, None]:
    from dbos import DBOS, DBOSConfig  # noqa: PLC0415

    config: DBOSConfig = {
        "name": "durability",
        "system_database_url": place,
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    async def answer(index: int, outputs: list[str]) -> str:
        write_prompt(DIAMOND, index, outputs)
        if latency:
            await asyncio.sleep(latency)
        return ANSWER

    @DBOS.workflow()
    async def diamond() -> str:
        first = await answer(0, [])
        # DBOS numbers steps in the order they are started, which for two at once takes tasks begun in order
        left, right = asyncio.ensure_future(answer(1, [first])), asyncio.ensure_future(answer(2, [first]))
        return await answer(3, [await left, await right])

    DBOS.launch()
    try:
        yield diamond
    finally:
        await anyio.to_thread.run_sync(DBOS.destroy)


def _recorded_by_dbos(place: str) -> int:
    import sqlalchemy  # noqa: PLC0415

    url = sqlalchemy.make_url(place)
    schema = ""
    if url.drivername.startswith("postgresql"):
        url, schema = url.set(drivername="postgresql+psycopg"), "dbos."
    steps = len(DIAMOND.steps)
    recorded_steps = (
        f"SELECT count(*) FROM {schema}operation_outputs AS step WHERE step.workflow_uuid = run.workflow_uuid"  # noqa: S608
    )
    whole = sqlalchemy.text(
        f"SELECT count(*) FROM {schema}workflow_status AS run "  # noqa: S608
        f"WHERE status = 'SUCCESS' AND {steps} = ({recorded_steps})"
    )
    engine = sqlalchemy.create_engine(url)
    with closing(engine.connect()) as connection:
        return int(connection.execute(whole).scalar_one())
