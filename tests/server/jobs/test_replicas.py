"""Three replicas of `podium serve` share one PostgreSQL; some are lost while clients use them."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import httpx2
import pytest
from server.chat.conftest import CONFIG
from server.chat.test_completions import PLAN, team
from server.jobs.fleet import Client, Fleet
from servers.chat_server import Call, ChatServer, Reply, says

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyRules, KeyStore

REPLICAS = 3
SLOTS = 6
LEASE = 4.0
"""Seconds, of replicas that are suspended."""
CLIENTS = 40
"""Runs that clients start and follow at the same time; more than all replicas execute at once."""
LIMITS = "[limits]\nanswer_tokens = 100\n"
CALLS = {"planner": 225e-6, "one": 225e-6, "two": 2250e-6}
"""The cost of each call, in USD."""


def slow(call: Call) -> Reply:
    """Reply as the team; the last worker takes some time."""
    return says(call, "the answer", delay=0.3) if call.body["model"] == "two" else team(call)


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers."""
    with ChatServer(slow).in_thread() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, upstream: ChatServer, postgres_url: str) -> Path:
    """Return the folder of the config of all replicas."""
    text = CONFIG.format(url=upstream.url, models=LIMITS, server=f"background_runs = {SLOTS}")
    (tmp_path / "podium.toml").write_text(text.replace('path = "runs.db"', f'url = "{postgres_url}"'))
    return tmp_path


def new_key(url: str, name: str, **rules: Any) -> str:
    """Create a key, and return its text."""
    return run_sync(lambda: KeyStore(url).create(name, KeyRules(**rules)))[1]


async def spent(url: str, name: str) -> float:
    """Return what a key has spent, in USD."""
    store = KeyStore(url)
    (key,) = [key for key in await store.keys() if key.name == name]
    return sum(day.cost for day in await store.days(key.key_id, "2000")) / 1e9


async def settled(url: str) -> None:
    """Settle the requests of all replicas, which have ended."""
    journal = SqlJournal(url, lease=2.0)
    held = "SELECT 1 FROM podium_turns WHERE holder IS NOT NULL LIMIT 1"
    async with journal, KeyStore(journal) as store, KeyAccess(store, journal=journal):
        with anyio.fail_after(60):
            while await store.transaction(lambda each: each.fetch(held), reads=True):  # noqa: ASYNC110 - of the ledger
                await anyio.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "runs", "faults"),
    [
        pytest.param("kill", 30, 2, marks=pytest.mark.timeout(180)),
        pytest.param("suspend", 30, 2, marks=pytest.mark.timeout(180)),
        pytest.param("kill", 500, 12, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
        pytest.param("suspend", 300, 8, marks=[pytest.mark.nightly, pytest.mark.timeout(600)]),
    ],
)
def test_lost_replicas(
    folder: Path, upstream: ChatServer, postgres_url: str, how: str, runs: int, faults: int
) -> None:
    """Each client sees its end, and only calls that were in flight at a fault are made again.

    A replica is killed, or it is suspended for longer than its lease, and then continues.

    All requests are charged, and nothing else is: calls of a dead replica with their reservations.
    """
    token = new_key(postgres_url, "all", day_cost=1000.0, run_cost=1.0)
    if how == "suspend":
        path = folder / "podium.toml"
        path.write_text(path.read_text().replace("[journal]", f"[journal]\nlease = {LEASE}"))
    with Fleet(folder, REPLICAS) as fleet:
        costs = anyio.run(_use, fleet, token, runs, faults, how)
    anyio.run(settled, postgres_url)
    called = Counter((call.body["model"], _question(call)) for call in upstream.calls)
    assert called.keys() == {(name, each) for name in CALLS for each in range(runs)}
    assert called.total() - len(called) <= faults * SLOTS
    charged = anyio.run(spent, postgres_url, "all")
    assert charged == pytest.approx(sum(costs))
    assert charged >= sum(CALLS[name] * number for (name, _), number in called.items()) * (1 - 1e-9)


async def _use(fleet: Fleet, token: str, runs: int, faults: int, how: str) -> list[float]:
    """Execute runs while replicas are lost, and return the costs of the runs."""
    costs: list[float] = []
    clients = anyio.Semaphore(CLIENTS)

    async def one(client: Client, number: int) -> None:
        query = f"Question {number}?"
        async with clients:
            if number % 3:
                answers = [await client.start(query)]
            else:
                answers = await client.start_twice(query)
            assert {answer.status_code for answer in answers} == {202}, [each.text for each in answers]
            (run_id,) = {answer.json()["id"] for answer in answers}
            events = await client.follow(run_id)
            assert events[-1]["type"] == "run_ended"
            again = await client.start(query)
            assert (again.json()["id"], again.headers["idempotent-replayed"]) == (run_id, "true")
            run = await client.show(run_id)
            assert (run["status"], run["answer"]) == ("ok", "the answer"), run["problem"]
            costs.append(run["cost"])

    async def harm() -> None:
        for number in range(faults):
            while len(costs) < runs * (number + 0.5) / (faults + 1):  # noqa: ASYNC110 - of other tasks
                await anyio.sleep(0.01)
            await (fleet.kill() if how == "kill" else fleet.suspend(2 * LEASE))

    async with httpx2.AsyncClient(timeout=120) as http, anyio.create_task_group() as tasks:
        tasks.start_soon(harm)
        for number in range(runs):
            tasks.start_soon(one, Client(fleet, token, http), number)
    return costs


def _question(call: Call) -> int:
    """Return the number of the question of a call."""
    (number,) = set(re.findall(r"Question (\d+)\?", call.raw.decode()))
    return int(number)


@pytest.mark.long
def test_limits_hold_across_replicas(folder: Path, upstream: ChatServer, postgres_url: str) -> None:
    """Parallel requests at all replicas exceed neither the budget nor the rate limit of their keys."""
    usage = {"prompt_tokens": 200, "completion_tokens": 100, "total_tokens": 300}
    upstream.reply = lambda call: says(call, PLAN if call.body["model"] == "planner" else "x", usage=usage)
    budget, most = 0.06, 6
    poor = new_key(postgres_url, "poor", day_cost=budget, run_cost=0.02)
    slowed = new_key(postgres_url, "slowed", requests_per_minute=most)
    with Fleet(folder, REPLICAS) as fleet:
        of_poor = Counter[str]()
        while not of_poor["insufficient_quota"]:
            of_poor.update(anyio.run(_ask, fleet, poor, 9))
        began = monotonic()
        of_slowed = Counter(anyio.run(_ask, fleet, slowed, 3 * most))
        refills = (monotonic() - began) * most / 60
    assert of_slowed.keys() == {"ok", "rate_limit_exceeded"}
    assert most <= of_slowed["ok"] <= most + refills
    assert of_poor.keys() <= {"ok", "budget_reserved", "insufficient_quota"}
    anyio.run(settled, postgres_url)
    assert budget / 2 <= anyio.run(spent, postgres_url, "poor") <= budget


async def _ask(fleet: Fleet, token: str, number: int) -> list[str]:
    """Make requests at the same time, and return `ok` or the code of the error of each."""
    codes: list[str] = []

    async def ask(client: Client) -> None:
        answer = await client.ask("Why?")
        codes.append("ok" if answer.status_code == 200 else answer.json()["error"]["code"])

    async with httpx2.AsyncClient(timeout=60) as http, anyio.create_task_group() as tasks:
        for _ in range(number):
            tasks.start_soon(ask, Client(fleet, token, http))
    return codes
