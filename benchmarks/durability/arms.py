"""The arms: Podium with its journals, DBOS and LangGraph. Each is imported only when it is opened."""

import asyncio
import math
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Annotated, Any, Literal, TypedDict, get_args
from uuid import uuid4

import anyio
import anyio.to_thread

from benchmarks.block import Run
from benchmarks.job import ANSWER, DIAMOND, MODELS, write_prompt

Arm = Literal[
    "podium",
    "podium-sqlite",
    "podium-postgres",
    "dbos-sqlite",
    "dbos-sqlite-wal",
    "dbos-postgres",
    "langgraph-sqlite",
    "langgraph-postgres",
]
ARMS: tuple[Arm, ...] = get_args(Arm)


@asynccontextmanager
async def open_arm(arm: Arm, place: str, latency: float) -> AsyncGenerator[Run, None]:
    """Open `arm`; yield a coroutine function that does the job once and returns its answer.

    Args:
        arm: the arm.
        place: URL of the database in SQLAlchemy's form, without a driver.
        latency: duration of a worker's call, in seconds.
    """
    kinds = {"dbos": _dbos, "langgraph": _langgraph, "podium": _podium}
    async with kinds[arm.partition("-")[0]](place, latency) as run:
        yield run


async def recorded(arm: Arm, place: str) -> int:
    """Return the number of complete runs in the database of `arm`, from a new connection; 0 without one."""
    if arm == "podium":
        return 0
    if arm.startswith("dbos"):
        return await anyio.to_thread.run_sync(_recorded_by_dbos, place)
    if arm.startswith("langgraph"):
        return await anyio.to_thread.run_sync(_recorded_by_langgraph, place)
    from podium.journal import SqlJournal  # noqa: PLC0415

    async with SqlJournal(place) as journal:
        return sum(row.state == "ok" for row in await journal.runs(limit=None))


@asynccontextmanager
async def _podium(place: str, latency: float) -> AsyncGenerator[Run, None]:
    from podium.conductor import Conductor  # noqa: PLC0415
    from podium.planners import FixedPlanner  # noqa: PLC0415
    from podium.workers import FREE, Card, StepInput  # noqa: PLC0415
    from podium.workers.simple import FunctionWorker  # noqa: PLC0415

    waiting = anyio.CapacityLimiter(math.inf)

    async def answer(step_input: StepInput) -> str:  # noqa: ARG001  (the signature of a worker's function)
        if latency:  # in a thread, because the loop's own timers are up to 1 ms late
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
        # DBOS numbers steps in the order of their start, so that the two parallel tasks must start in order
        left, right = asyncio.ensure_future(answer(1, [first])), asyncio.ensure_future(answer(2, [first]))
        return await answer(3, [await left, await right])

    DBOS.launch()
    try:
        yield diamond
    finally:
        await anyio.to_thread.run_sync(DBOS.destroy)


@asynccontextmanager
async def _langgraph(place: str, latency: float) -> AsyncGenerator[Run, None]:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: PLC0415
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415
    from psycopg.rows import dict_row  # noqa: PLC0415
    from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415

    def step(index: int) -> Callable[[_Outputs], Awaitable[_Outputs]]:
        async def answer(state: _Outputs) -> _Outputs:
            write_prompt(DIAMOND, index, [state["outputs"][seen] for seen in DIAMOND.steps[index].access])
            if latency:
                await asyncio.sleep(latency)
            return {"outputs": {index: ANSWER}}

        return answer

    graph = StateGraph(_Outputs)
    for index, each in enumerate(DIAMOND.steps):
        node: Any = step(index)  # its overloads do not accept a function of a TypedDict
        graph.add_node(str(index), node)
        graph.add_edge([str(seen) for seen in each.access] if each.access else START, str(index))
    graph.add_edge(str(len(DIAMOND.steps) - 1), END)
    async with AsyncExitStack() as opened:
        if place.startswith("sqlite"):
            path = place.removeprefix("sqlite:///")
            saver: Any = await opened.enter_async_context(AsyncSqliteSaver.from_conn_string(path))
        else:
            settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
            pool: Any = AsyncConnectionPool(place, min_size=1, max_size=10, kwargs=settings, open=False)
            saver = AsyncPostgresSaver(await opened.enter_async_context(pool))
        await saver.setup()
        compiled = graph.compile(checkpointer=saver)

        async def run() -> str:
            config: Any = {"configurable": {"thread_id": uuid4().hex}}
            state = await compiled.ainvoke({"outputs": {}}, config, durability="sync")
            return str(state["outputs"][len(DIAMOND.steps) - 1])

        yield run


def _merged(one: dict[int, str], two: dict[int, str]) -> dict[int, str]:
    return {**one, **two}


class _Outputs(TypedDict):
    """The state of LangGraph's diamond: the outputs of its nodes."""

    outputs: Annotated[dict[int, str], _merged]


def _recorded_by_langgraph(place: str) -> int:
    threads = "SELECT thread_id FROM checkpoints GROUP BY thread_id HAVING count(*) >= 5"
    whole = f"SELECT count(*) FROM ({threads}) AS whole"  # noqa: S608  (no value from outside)
    if place.startswith("sqlite"):
        with closing(sqlite3.connect(place.removeprefix("sqlite:///"))) as connection:
            return int(connection.execute(whole).fetchone()[0])
    import psycopg  # noqa: PLC0415

    with psycopg.connect(place) as connected:
        row = connected.execute(whole).fetchone()
        assert row is not None
        return int(row[0])


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
