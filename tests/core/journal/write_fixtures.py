"""Writes the journals of the present schema that later versions must read: `python write_fixtures.py`.

Run it once when a schema is about to be released, and keep what it wrote.
"""

import asyncio
import sqlite3
from contextlib import suppress
from pathlib import Path

import anyio

from podium import Conductor, Message, Plan, RulePlanner, ScriptedWorker, Step
from podium.errors import WorkerUnavailable
from podium.execution import Retry
from podium.journal import SqlJournal, export
from podium.planners import FixedPlanner
from podium.types.events import SCHEMA

FOLDER = Path(__file__).parent / "fixtures"
DIAMOND = Plan(
    (Step(0, "Find it."), Step(1, "Check it.", (0,)), Step(2, "Doubt it.", (0,)), Step(0, "Say it.", (1, 2))),
    (Message("user", "What is it, naïvely?"),),
)


async def write(journal: SqlJournal) -> None:
    """Record a run that went well, one with failures, one with another nested in it, and one cut off."""
    team = [ScriptedWorker(name, f"{name} said") for name in ("a", "b", "c")]
    broken = [team[0], team[1], ScriptedWorker("c", WorkerUnavailable("it is down"))]
    retry = Retry(attempts=2, first_wait=0.001)
    plan = '{"worker": 0, "subtask": "Do it.", "access": []}'
    inner = Conductor(FixedPlanner(plan), [ScriptedWorker("inmost", "inmost said")])
    outer = Conductor(FixedPlanner(plan), [inner], journal=journal)
    async with journal:
        await Conductor(RulePlanner(), team, journal=journal).run(DIAMOND, run_id="whole", labels={"eu"})
        await Conductor(RulePlanner(), broken, journal=journal, retry=retry).run(DIAMOND, run_id="partial")
        await outer.run("What is nested?", run_id="nested")
        slow = [team[0], team[1], ScriptedWorker("c", "c said", latency=60.0)]
        with suppress(TimeoutError), anyio.fail_after(0.5):
            await Conductor(RulePlanner(), slow, journal=journal).run(DIAMOND, run_id="cut-off")
        lines = [line async for line in export(journal)]
    (FOLDER / f"v{SCHEMA}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main() -> None:
    """Write both fixtures of this schema."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"v{SCHEMA}.db"
    path.unlink(missing_ok=True)
    asyncio.run(write(SqlJournal(path)))
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("DELETE FROM podium_leases")  # they name the machine
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
    path.chmod(0o644)


if __name__ == "__main__":
    main()
