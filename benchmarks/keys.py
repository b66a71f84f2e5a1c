"""Measures the admission of requests with an API key: in a shared ledger, with a budget and rate limits.

`python -m benchmarks.keys` prints, for SQLite and PostgreSQL, how long a request waits for its admission, and
the CPU time of an admission with its settlement. No model is called, and no HTTP request is made.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import anyio

from benchmarks.postgres_server import PostgresServer
from podium import Card, Conductor, Price, ScriptedWorker
from podium.planners import FixedPlanner
from podium.types import Result
from podium_server.keys import Ask, KeyAccess, KeyRules, KeyStore

SECONDS = 4.0
AT_ONCE = (1, 32)
MANY = 900_000_000
RULES = KeyRules(
    day_cost=1_000.0,
    month_cost=10_000.0,
    run_cost=0.0001,
    requests_per_minute=MANY,
    tokens_per_minute=MANY,
    concurrency=1_000,
)
RESULT = Result(run_id="run", answer="done", status="ok")
CONDUCTOR = Conductor(
    FixedPlanner('{"worker": 0, "subtask": "Answer.", "access": []}'),
    [ScriptedWorker(Card(name="worker", price=Price(input=0.0, output=1.0)), "done")],
)


@dataclass(slots=True)
class Measured:
    """The admissions of one measurement."""

    waits: list[float] = field(default_factory=list)
    """Seconds from the request to its admission."""
    cpu: float = 0.0
    """CPU time of this process, in seconds."""
    wall: float = 0.0

    def __str__(self) -> str:
        waits, number = sorted(self.waits), len(self.waits)
        half, most = waits[number // 2] * 1e3, waits[int(number * 0.99)] * 1e3
        rate, cpu = number / self.wall, self.cpu / number * 1e6
        return f"{rate:8,.0f}/s  p50 {half:7.3f} ms  p99 {most:7.2f} ms  CPU {cpu:5.0f} µs"


async def measure(url: str, at_once: int) -> Measured:
    """Make requests with one key, `at_once` at the same time; a single client pauses between requests."""
    store, measured = KeyStore(url), Measured()
    end = time.perf_counter() + SECONDS

    async def client() -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            caller = await access.authenticate(token)
            ask = Ask(model="model", conductor=CONDUCTOR, run_id=uuid4().hex, tokens=10)
            async with access.admit(caller, ask) as admission:
                measured.waits.append(time.perf_counter() - began)
                admission.settle(RESULT)
            await anyio.sleep(0.001 if at_once == 1 else 0.0)

    async with store, KeyAccess(store, journal=None) as access:
        _, token = await store.create(uuid4().hex, RULES)
        began, cpu = time.perf_counter(), time.process_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(client)
        measured.wall, measured.cpu = time.perf_counter() - began, time.process_time() - cpu
    return measured


def main() -> None:
    """Measure both databases."""
    with TemporaryDirectory() as folder, PostgresServer() as server:
        postgres = server.url(server.create_database(), driver="postgresql")
        for name, url in (("SQLite", f"sqlite:///{Path(folder)}/keys.db"), ("PostgreSQL", postgres)):
            for at_once in AT_ONCE:
                print(f"{name:10} {at_once:3} at once  {anyio.run(measure, url, at_once)}", flush=True)


if __name__ == "__main__":
    main()
