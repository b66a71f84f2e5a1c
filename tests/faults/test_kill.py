"""Killed at any moment and started again: what was delivered and recorded is paid for once.

The server of the workers lives through it all and keeps the account: every call it was
sent, and whether its whole answer went out. After each kill the journal is read by another
process, and nothing that it holds may be asked for again.
"""

import os
from dataclasses import dataclass, field
from random import Random
from signal import SIGKILL
from typing import Literal

import anyio
import pytest
from faults.child import Task
from faults.diamonds import PARTS, Part, answer_of, asked, delivered, plan_of, serve
from faults.leftovers import until
from faults.lives import Nursery, recorded
from servers.chat_server import ChatServer

from podium import Card, ChatWorker, Conductor, Endpoint
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.workers import FREE

SOAK = int(os.environ.get("SOAK", "1"))
"""How many times as many processes are killed: `make soak` sets it."""
pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.nightly, pytest.mark.timeout(240 * SOAK)]

KILLS = 20 * SOAK
IN_FLIGHT = 8


@dataclass
class Account:
    """What was paid for, delivered and recorded, from kill to kill."""

    server: ChatServer
    place: str
    runs: list[str] = field(default_factory=list)
    safe: set[Part] = field(default_factory=set)
    """Steps that were recorded at the last kill."""
    seen: int = 0
    """Calls before the last kill."""
    windows: list[int] = field(default_factory=list)
    """Of each kill, how many steps had been delivered and were not recorded."""
    paid_twice: list[Part] = field(default_factory=list)
    """Steps that were asked for again though they were recorded: there must be none."""

    def delivered(self) -> set[Part]:
        """Return the steps whose whole answer went out since the last kill."""
        own = {(run, part) for run in self.runs for part in PARTS}
        return set(delivered(self.server.calls[self.seen :])) & own

    async def close(self, *, killed: bool, before: set[Part] | None = None) -> None:
        """Take stock after a process has ended.

        Args:
            killed: whether it was killed.
            before: what had been delivered when it was; `None` takes what was by now.
        """
        calls = self.server.calls
        await until(lambda: all(call.answered.is_set() or call.hung_up.is_set() for call in calls))
        now = [call for call in calls[self.seen :] if asked(call)[0] in self.runs]
        self.paid_twice += [part for part in map(asked, now) if part in self.safe]
        async with SqlJournal(self.place) as journal:
            self.safe = await recorded(journal, self.runs)
        if killed:
            self.windows.append(len((self.delivered() if before is None else before) - self.safe))
        self.seen = len(calls)


async def test_kills_at_random_moments(place: str, nursery: Nursery) -> None:
    """Twenty kills amid eight diamonds: all answers are right, no recorded step is paid twice."""
    moments = Random(5)  # noqa: S311
    answers: dict[str, str] = {}
    async with serve(seed=5) as server:
        account, batch = Account(server, place), 0
        while len(account.windows) < KILLS or len(answers) < len(account.runs):
            if len(answers) == len(account.runs):
                account.runs += [f"run-{batch}-{number}" for number in range(IN_FLIGHT)]
                batch += 1
            left = tuple(run_id for run_id in account.runs if run_id not in answers)
            task = Task(place=place, workers=server.url, runs=left, warm=True)
            before = set[Part]()
            async with nursery.living(task) as life:
                if len(account.windows) < KILLS:
                    await anyio.sleep(moments.uniform(0.0, 0.4))
                    before = account.delivered()  # what goes out after this finds nobody
                    life.signal(SIGKILL)
                await life.end()
            answers |= life.answers
            await account.close(killed=life.was_killed, before=before)
    assert (account.paid_twice, answers) == ([], {run_id: answer_of(run_id) for run_id in account.runs})
    assert account.safe == {(run_id, part) for run_id in account.runs for part in PARTS}
    # how many can be in the window here is a matter of time: of how long a commit takes
    print(f"kills {len(account.windows)}, in the commit window {account.windows}")  # noqa: T201


@pytest.mark.parametrize("crash", ["before", "after"])
async def test_kills_at_every_commit(place: str, nursery: Nursery, crash: Literal["before", "after"]) -> None:
    """Killed on either side of each commit, a run goes on and pays again for calls in flight at most."""
    async with serve() as server:
        endpoint = Endpoint(server.url)
        pool = [ChatWorker(part, endpoint=endpoint, card=Card(name=part, price=FREE)) for part in PARTS]
        for number in range(1, 100):
            run_id = f"run-{number}"
            account = Account(server, place, [run_id], seen=len(server.calls))
            task = Task(place=place, workers=server.url, runs=(run_id,), crash_at=number, crash=crash)
            async with nursery.living(task) as life:
                await life.end()
            await account.close(killed=life.was_killed)
            journal = SqlJournal(place, max_recoveries=1000)
            async with Conductor(FixedPlanner(plan_of(run_id)), pool, journal=journal) as conductor:
                result = await conductor.run(plan_of(run_id), run_id=run_id)
            await account.close(killed=False)
            assert (account.paid_twice, result.answer) == ([], answer_of(run_id))
            assert account.safe == {(run_id, part) for part in PARTS}
            assert sum(account.windows) <= 2  # one for each call in flight: B and C run side by side
            if not life.was_killed:
                break
    assert number > len(PARTS)
