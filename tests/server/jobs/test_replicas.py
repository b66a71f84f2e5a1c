"""Replicas of `podium serve` on one PostgreSQL: some are killed, and it crashes, while clients use them."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from server.jobs.fleet import Client, Fleet
from server.scene import config, team
from servers.chat_server import Call, ChatServer, Reply, says

from benchmarks.postgres_server import PostgresServer
from podium.aio import run_sync
from podium.journal import SqlJournal
from podium.types import RunEnded
from podium_server.keys import KeyAccess, KeyRules, KeyStore

REPLICAS = 3
SLOTS = 6
CLIENTS = 30
"""Runs that clients start and follow at the same time; more than all replicas execute in the background."""
CHATS = 8
"""Chats at the same time."""
NAMES = ("first", "second", "third")
"""Of the keys."""
OUTAGE_SECONDS = 3.0
LIMITS = "[limits]\nanswer_tokens = 100\n"
CALLS = {"planner": 225e-6, "one": 225e-6, "two": 2250e-6}
"""The cost of each call, in USD."""


def slow(call: Call) -> Reply:
    """Reply as the team; the last worker takes some time."""
    return says(call, "the answer", delay=0.3) if call.body["model"] == "two" else team(call)


@pytest.fixture
def folder(tmp_path: Path, upstream: ChatServer, postgres_url: str) -> Path:
    upstream.reply = slow
    text = config(upstream.url, postgres_url, models=LIMITS, server=f"background_runs = {SLOTS}")
    (tmp_path / "podium.toml").write_text(text)
    return tmp_path


def new_key(url: str, name: str, **rules: Any) -> str:
    return run_sync(lambda: KeyStore(url).create(name, KeyRules(**rules)))[1]


async def spent(url: str, name: str) -> float:
    store = KeyStore(url)
    (key,) = [key for key in await store.keys() if key.name == name]
    return sum(day.cost for day in await store.days(key.key_id, "2000")) / 1e9


async def settled(url: str) -> None:
    journal, held = SqlJournal(url, lease=2.0), "SELECT 1 FROM podium_turns WHERE holder IS NOT NULL LIMIT 1"
    async with journal, KeyStore(journal) as store, KeyAccess(store, journal=journal):
        with anyio.fail_after(60):
            while await store.transaction(lambda each: each.fetch(held), reads=True):  # noqa: ASYNC110 - of the ledger
                await anyio.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("runs", "kills", "outages"),
    [(60, 3, 1), pytest.param(300, 12, 3, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])],
)
def test_kills_and_outages(
    folder: Path, upstream: ChatServer, postgres_server: PostgresServer, runs: int, kills: int, outages: int
) -> None:
    """Each run ends once and well, and only calls that were in flight at a kill are made again."""
    postgres_url = postgres_server.url(driver="postgresql")
    tokens = {name: new_key(postgres_url, name, day_cost=1000.0, run_cost=1.0) for name in NAMES}
    with Fleet(folder, REPLICAS) as fleet:
        scene = Scene(fleet, tokens, runs)
        anyio.run(scene.play, kills, outages, postgres_server)
        anyio.run(settled, postgres_url)
        told = anyio.run(scene.costs)
    ended = anyio.run(ended_runs, postgres_url)
    assert ended.keys() == {run_id for costs in told.values() for run_id in costs}
    for name, costs in told.items():
        assert costs == pytest.approx({run_id: ended[run_id] for run_id in costs})
        assert anyio.run(spent, postgres_url, name) == pytest.approx(sum(costs.values()))
    called = Counter((call.body["model"], _question(call)) for call in upstream.calls)
    assert called.keys() == {(name, number) for name in CALLS for number in range(runs)}
    assert called.total() - len(called) <= kills * (SLOTS + CHATS)
    paid = sum(CALLS[name] * number for (name, _), number in called.items())
    assert sum(sum(costs.values()) for costs in told.values()) >= paid * (1 - 1e-9)


class Scene:
    """Clients that use replicas while these are killed."""

    def __init__(self, fleet: Fleet, tokens: Mapping[str, str], runs: int) -> None:
        self._fleet = fleet
        self._tokens = tokens
        self._runs = runs
        self._ended = 0

    async def play(self, kills: int, outages: int, database: PostgresServer) -> None:
        clients, chats = anyio.Semaphore(CLIENTS), anyio.Semaphore(CHATS)

        async def limited(by: anyio.Semaphore, work: Callable[..., Awaitable[None]], *values: Any) -> None:
            async with by:
                await work(*values)

        async with httpx2.AsyncClient(timeout=120) as http, anyio.create_task_group() as tasks:
            tasks.start_soon(self._disturb, kills, outages, database)
            for number in range(self._runs):
                rich = Client(self._fleet, self._tokens[NAMES[number // 3 % len(NAMES)]], http)
                by, work = (chats, self._chat) if number % 3 == 0 else (clients, self._follow)
                tasks.start_soon(limited, by, work, rich, number)

    async def costs(self) -> dict[str, dict[str, float]]:
        """Return the costs of the runs of each key, by the name of the key, as the key is shown them."""
        found: dict[str, dict[str, float]] = {}
        async with httpx2.AsyncClient(timeout=60) as http:
            for name, token in self._tokens.items():
                client, path, costs = Client(self._fleet, token, http), "/runs?limit=100", {}
                while path:
                    page = await client.get(path)
                    costs |= {run["id"]: run["cost"] for run in page["data"]}
                    path = page["next"] and f"/runs?limit=100&after={page['next']}"
                (day, *_) = (await client.get("/keys/self"))["budgets"]
                assert day["reserved"] == 0
                found[name] = costs
        return found

    async def _disturb(self, kills: int, outages: int, database: PostgresServer) -> None:
        outage_after = {kills * (each + 1) // (outages + 1) for each in range(outages)}
        for number in range(kills):
            while self._ended < self._runs * (number + 0.5) / (kills + 1):  # noqa: ASYNC110 - of other tasks
                await anyio.sleep(0.01)
            await self._fleet.kill()
            if number in outage_after:
                database.stop(immediate=True)
                await anyio.sleep(OUTAGE_SECONDS)
                await anyio.to_thread.run_sync(database.start)

    async def _chat(self, client: Client, number: int) -> None:
        answer = await client.chat(f"Question {number}?")
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"] == "the answer"
        self._ended += 1

    async def _follow(self, client: Client, number: int) -> None:
        query = f"Question {number}?"
        answers = [await client.start(query)] if number % 3 == 1 else await client.start_twice(query)
        assert {answer.status_code for answer in answers} == {202}, [each.text for each in answers]
        (run_id,) = {answer.json()["id"] for answer in answers}
        events = await client.follow(run_id)
        assert events[-1]["type"] == "run_ended"
        again = await client.start(query)
        assert (again.json()["id"], again.headers["idempotent-replayed"]) == (run_id, "true")
        run = await client.get(f"/runs/{run_id}")
        assert (run["status"], run["answer"]) == ("ok", "the answer"), run["problem"]
        self._ended += 1


async def ended_runs(url: str) -> dict[str, float]:
    async with SqlJournal(url) as journal:
        costs = {row.run_id: row.cost for row in await journal.runs(limit=None) if row.cost is not None}
        for run_id in costs:
            ends = [entry for entry in await journal.read(run_id) if isinstance(entry.event, RunEnded)]
            assert len(ends) == 1
        return costs


def _question(call: Call) -> int:
    (number,) = set(re.findall(r"Question (\d+)\?", call.raw.decode()))
    return int(number)
