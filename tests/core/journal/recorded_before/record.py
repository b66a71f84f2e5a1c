"""Records the runs of `cases`, and what the version that recorded them makes of them.

It was run once at commit 745a65c7, to which this folder was copied as it was when it was added. In `tests`:

    python -m core.journal.recorded_before.record

It wrote `journal.sql` and `results.json`.
"""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import anyio
from core.journal.recorded_before.cases import (
    CASES,
    DOWN,
    FIRST_ROWS,
    JOURNAL,
    QUESTION,
    RESULTS,
    RUNS,
    SECOND_ROWS,
    Team,
    load,
    read,
)

from podium import Limits
from podium.errors import PodiumError
from podium.execution import Retry
from podium.journal import SqlJournal


def die() -> NoReturn:
    """Die during a call, as a process that is killed."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@dataclass(frozen=True, kw_only=True)
class Life:
    """What happened to a run in one process."""

    replies: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """See `Team`."""
    limits: Limits | None = None
    cancelled_at: str = ""
    """The worker during whose call the run is cancelled; empty if it is not cancelled."""
    resumes: bool = False


def _hedging() -> dict[str, Any]:
    """Return the option that makes a second call, by `c`, while a call of `b` is slow."""
    from podium.execution import Hedge  # noqa: PLC0415 - later versions have none

    return {"retry": Retry(fallbacks={"b": ("c",)}, hedge=Hedge(seconds=0.05))}  # type: ignore[call-arg]


SLOW = 0.5
"""Seconds in which what other steps do is recorded."""

LIVES: dict[str, list[Life]] = {
    "ok": [Life()],
    "killed": [Life(replies={"c": (die,)}, seconds={"c": SLOW})],
    "killed-twice": [
        Life(replies={"b": (die,)}, seconds={"b": SLOW}),
        Life(replies={"d": (die,)}, resumes=True),
    ],
    "killed-planning": [Life(replies={"boss": (die,)})],
    "replanned": [Life(replies={"boss": (FIRST_ROWS, SECOND_ROWS), "b": (DOWN, DOWN, "b said")})],
    "replanned-killed": [Life(replies={"boss": (FIRST_ROWS, SECOND_ROWS), "b": (DOWN, DOWN, die)})],
    "no-plan": [Life(replies={"boss": ("no plan",)})],
    "stand-in": [Life(replies={"boss": ("no plan",)})],
    "retried": [Life(replies={"b": (DOWN, "b said")})],
    "retrying-killed": [Life(replies={"b": (DOWN, die)})],
    "fallback-killed": [Life(replies={"b": (DOWN,), "c": (die,)})],
    "two-rounds": [
        Life(replies={"boss": (FIRST_ROWS, SECOND_ROWS), "judge": ("NO, it is too short.", "YES")})
    ],
    "two-rounds-killed": [
        Life(
            replies={
                "boss": (FIRST_ROWS, SECOND_ROWS),
                "judge": ("NO, it is too short.",),
                "c": ("c said", die),
            }
        )
    ],
    "nested-killed": [Life(replies={"y": (die,)})],
    "nested-acted-killed": [Life(replies={"z": (die,)})],
    "nested-acting-killed": [Life(replies={"y": (die,)})],
    "code-killed": [Life(replies={"c": (die,)})],
    "acted-killed": [Life(replies={"c": (die,)})],
    "acting-killed": [Life(replies={"hand": (die,)})],
    "plan-waits": [Life()],
    "action-waits": [Life()],
    "cancelled": [Life(seconds={"b": 60.0}, cancelled_at="b")],
    "partial": [Life(replies={"c": (DOWN,)})],
    "failed": [Life(replies={"c": (DOWN,)})],
    "limited": [Life(replies={"b": (DOWN,)}, limits=Limits(calls=3))],
    "hedged": [Life(seconds={"b": 60.0})],
    "hedging-killed": [Life(replies={"c": (die,)}, seconds={"b": 60.0, "c": SLOW})],
}


async def live(run_id: str, life: Life, journal: SqlJournal) -> None:
    """Carry a run out, as far as it goes."""
    options = _hedging() if run_id.startswith("hedg") else {}
    team = Team(life.replies, life.seconds)
    conductor = RUNS[run_id](team, journal, **options)
    async with journal, anyio.create_task_group() as tasks:
        if life.cancelled_at:
            tasks.start_soon(_cancel, tasks.cancel_scope, team, life.cancelled_at)
        with suppress(PodiumError):
            if life.resumes:
                await conductor.resume(run_id)
            else:
                await conductor.run(QUESTION, run_id=run_id, limits=life.limits)


async def _cancel(scope: anyio.CancelScope, team: Team, worker: str) -> None:
    while worker not in team.calls:  # noqa: ASYNC110 - the worker announces nothing
        await anyio.sleep(0.01)
    scope.cancel()


def record(path: Path) -> None:
    """Record all runs, each life in a process of its own."""
    for run_id, lives in LIVES.items():
        for number, life in enumerate(lives):
            command = [sys.executable, "-m", __spec__.name, run_id, str(number), str(path)]
            ended = subprocess.run(command, check=False)
            dies = any(die in replies for replies in life.replies.values())
            assert ended.returncode == (-signal.SIGKILL if dies else 0), (run_id, ended.returncode)


def dumped(path: Path) -> str:
    """Return a journal as text, without the names of this machine and its processes."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM podium_leases")
        connection.execute("UPDATE podium_runs SET holder = 'elsewhere:1::1:1' WHERE holder IS NOT NULL")
        connection.commit()
        return "".join(f"{line}\n" for line in connection.iterdump())


async def results(folder: Path) -> dict[str, Any]:
    """Return what this version reads of the runs, and what comes of each case."""
    going_on = {
        name: await case.carry_out(SqlJournal(load(folder / f"{number}.db")))
        for number, (name, case) in enumerate(CASES.items())
    }
    return {"read": await read(SqlJournal(load(folder / "read.db"))), "cases": going_on}


def main() -> None:
    """Write both files, or carry one run out."""
    if len(sys.argv) > 1:
        run_id, number, path = sys.argv[1:]
        asyncio.run(live(run_id, LIVES[run_id][int(number)], SqlJournal(Path(path))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        record(folder / "journal.db")
        JOURNAL.write_text(dumped(folder / "journal.db"), "utf-8")
        told = asyncio.run(results(folder))
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
