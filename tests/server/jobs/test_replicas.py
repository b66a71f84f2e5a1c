"""Replicas of `podium serve` on one PostgreSQL: some are killed, and it crashes, while clients use them."""

import re
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Self

import anyio
import anyio.to_thread
import httpx2
import pytest
from server.batch.conftest import command, read, write
from server.jobs.fleet import Client, Fleet
from server.scene import CONFIG, PLAN, team
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
RICH = ("first", "second", "third")
"""Names of keys with large budgets."""
POOR = "poor"
POOR_BUDGET = 0.02
POOR_CLIENTS = 4
OUTAGE_SECONDS = 3.0
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
    ("runs", "kills", "outages"),
    [(60, 3, 1), pytest.param(300, 12, 3, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])],
)
def test_kills_and_outages(
    folder: Path, upstream: ChatServer, postgres_server: PostgresServer, runs: int, kills: int, outages: int
) -> None:
    """Each run ends once and well, and only calls that were in flight at a kill are made again.

    Clients of several keys use chat completions and runs in the background, and a batch runs beside them; a
    kill ends a replica, or also the batch, and an outage is a crash of the database. What a key has spent is
    the sum of the costs of its runs. A budget is exceeded only by calls that were in flight.
    """
    postgres_url = postgres_server.url(driver="postgresql")
    tokens = {name: new_key(postgres_url, name, day_cost=1000.0, run_cost=1.0) for name in RICH}
    tokens[POOR] = new_key(postgres_url, POOR, day_cost=POOR_BUDGET, run_cost=0.02)
    with Fleet(folder, REPLICAS) as fleet, Lines(folder, runs, runs // 3) as lines:
        scene = Scene(fleet, lines, tokens, runs)
        anyio.run(scene.play, kills, outages, postgres_server)
        lines.wait()
        anyio.run(settled, postgres_url)
        told = anyio.run(scene.costs)
    ended = anyio.run(ended_runs, postgres_url)
    assert ended.keys() <= {run_id for costs in told.values() for run_id in costs} | lines.costs().keys()
    for name, costs in told.items():
        known = {run_id: ended[run_id] for run_id in costs if name != POOR or run_id in ended}
        assert {run_id: costs[run_id] for run_id in known} == pytest.approx(known)
        charged = anyio.run(spent, postgres_url, name)
        # a run that was not continued shows the reservation of its lost call
        assert sum(known.values()) * (1 - 1e-9) <= charged <= sum(costs.values()) * (1 + 1e-9)
    told["lines"] = lines.costs()  # without what the lost calls reserved more than they usually cost
    assert all(cost <= ended[run_id] * (1 + 1e-9) for run_id, cost in told["lines"].items())
    assert anyio.run(spent, postgres_url, POOR) <= POOR_BUDGET + POOR_CLIENTS * CALLS["two"]
    called = Counter((call.body["model"], _question(call)) for call in upstream.calls)
    wanted = {(name, number) for name in CALLS for number in range(runs + lines.size)}
    assert wanted <= called.keys()
    again = sum(called[each] for each in wanted) - len(wanted)
    assert again <= kills * (SLOTS + CHATS) + lines.kills * Lines.AT_ONCE
    paid = sum(CALLS[name] * called[name, number] for name, number in wanted)
    assert sum(sum(costs.values()) for name, costs in told.items() if name != POOR) >= paid * (1 - 1e-9)


class Lines:
    """A batch of lines in a process of its own, which can be killed; the same command then continues it.

    Args:
        folder: the folder of `podium.toml`.
        first: the number of the first question.
        size: the number of lines.
    """

    AT_ONCE = 6

    def __init__(self, folder: Path, first: int, size: int) -> None:
        self._folder = folder
        self.size = size
        self.kills = 0
        rows = ({"id": f"q{each}", "query": f"Question {each}?"} for each in range(first, first + size))
        write(folder / "in.jsonl", rows)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.kill()
        self._running.wait()

    def kill(self) -> None:
        """Kill the command, and start it again."""
        self._running.kill()
        self._running.wait()
        self.kills += 1
        self._start()

    def wait(self) -> None:
        """Wait for the end, at which each line has an answer."""
        assert self._running.wait(timeout=120) == 0, (self._folder / "batch.log").read_text()

    def costs(self) -> dict[str, float]:
        """Return the cost of each run in the results."""
        rows = read(self._folder / "in.results.jsonl")
        assert sorted(row["line"] for row in rows) == list(range(1, self.size + 1))
        assert {(row["status"], row["answer"]) for row in rows} == {("ok", "the answer")}
        return {row["run_id"]: row["cost"] for row in rows}

    def _start(self) -> None:
        words = command(self._folder, "in.jsonl", "--concurrency", str(self.AT_ONCE))
        with (self._folder / "batch.log").open("w") as log:
            self._running = subprocess.Popen(**words, stderr=log)


class Scene:
    """Clients that use replicas while these are killed."""

    def __init__(self, fleet: Fleet, lines: Lines, tokens: Mapping[str, str], runs: int) -> None:
        self._fleet = fleet
        self._lines = lines
        self._tokens = tokens
        self._runs = runs
        self._ended = 0

    async def play(self, kills: int, outages: int, database: PostgresServer) -> None:
        """Execute all runs."""
        clients, chats, poor_clients = map(anyio.Semaphore, (CLIENTS, CHATS, POOR_CLIENTS))

        async def limited(by: anyio.Semaphore, work: Callable[..., Awaitable[None]], *values: Any) -> None:
            async with by:
                await work(*values)

        async with httpx2.AsyncClient(timeout=120) as http, anyio.create_task_group() as tasks:
            tasks.start_soon(self._disturb, kills, outages, database)
            poor = Client(self._fleet, self._tokens[POOR], http)
            for number in range(self._runs):
                rich = Client(self._fleet, self._tokens[RICH[number // 3 % len(RICH)]], http)
                by, work = (chats, self._chat) if number % 3 == 0 else (clients, self._follow)
                tasks.start_soon(limited, by, work, rich, number)
                tasks.start_soon(limited, poor_clients, self._try, poor, 10_000 + number)

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
        """Kill replicas, crash the database after some of them, and kill the batch after some."""
        outage_after = {kills * (each + 1) // (outages + 1) for each in range(outages)}
        for number in range(kills):
            while self._ended < self._runs * (number + 0.5) / (kills + 1):  # noqa: ASYNC110 - of other tasks
                await anyio.sleep(0.01)
            await self._fleet.kill()
            if number in outage_after:
                database.stop(immediate=True)
                await anyio.sleep(OUTAGE_SECONDS)
                await anyio.to_thread.run_sync(database.start)
            if number % 3 == 1:  # not before an outage, in which a command does not start
                self._lines.kill()

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

    async def _try(self, client: Client, number: int) -> None:
        """Ask with a budget that does not suffice for all questions."""
        answer = await client.chat(f"Question {number}?")
        codes = {"budget_reserved", "insufficient_quota", "limit"}
        assert answer.status_code == 200 or answer.json()["error"]["code"] in codes, answer.text


async def ended_runs(url: str) -> dict[str, float]:
    """Return the cost of each run in the journal that has ended, which it did once."""
    async with SqlJournal(url) as journal:
        costs = {row.run_id: row.cost for row in await journal.runs(limit=None) if row.cost is not None}
        for run_id in costs:
            ends = [entry for entry in await journal.read(run_id) if isinstance(entry.event, RunEnded)]
            assert len(ends) == 1
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
