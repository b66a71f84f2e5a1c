"""Several processes share the budget of a key, also if one of them is killed."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyAccess, KeyRules, KeyStore

pytestmark = pytest.mark.long

REPLICA = Path(__file__).with_name("replica.py")
COST = 0.01
LEAST = 0.0064
"""What a call costs at least, so that it is reserved for the first runs."""
TIMEOUT = 60.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


def start(url: str, token: str, requests: int, seconds: float) -> "subprocess.Popen[str]":
    """Start a replica."""
    command = [sys.executable, str(REPLICA), url, token, str(requests), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines_of(replicas: Sequence["subprocess.Popen[str]"]) -> list[str]:
    """Wait for the ends of replicas, and return what they printed."""
    return [line for each in replicas for line in each.communicate(timeout=TIMEOUT)[0].split()]


def key_of(url: str, **rules: float) -> tuple[str, str]:
    """Create a key, and return its id and its text."""
    key, token = run_sync(lambda: KeyStore(url).create("alice", KeyRules(**rules)))  # type: ignore[arg-type]
    return key.key_id, token


def spent(url: str, key_id: str) -> float:
    """Return what a key has spent, in USD."""
    days = run_sync(lambda: KeyStore(url).days(key_id, "2000"))
    return sum(day.cost for day in days) / 1e9


def test_parallel_replicas_never_exceed_the_budget(url: str) -> None:
    """Three processes ask for 60 runs of up to $0.01; only calls in flight exceed the budget, $0.10."""
    key_id, token = key_of(url, day_cost=10 * COST, run_cost=COST)
    said = lines_of([start(url, token, 20, 0.2) for _ in range(3)])
    costs = [float(line) for line in said if line[0].isdigit()]
    assert len(said) == 60
    assert set(said) - {line for line in said if line[0].isdigit()} <= {
        "budget_reserved",
        "insufficient_quota",
    }
    assert costs
    assert sum(costs) <= 10 * COST + len(costs) * (COST - LEAST)
    assert spent(url, key_id) == pytest.approx(sum(costs))


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_killed_replica_is_charged_what_it_may_have_spent(url: str, *, is_recorded: bool) -> None:
    """Its reservations block the budget until its process ends; then recorded calls are charged.

    If runs are not recorded, their whole reservations are charged.
    """
    rules = {} if is_recorded else {"retention_days": 0}
    key_id, token = key_of(url, day_cost=2 * LEAST, run_cost=4 * COST, **rules)
    killed = start(url, token, 2, -1)
    assert killed.stdout is not None
    assert [killed.stdout.readline().strip() for _ in range(2)] == ["running", "running"]
    assert lines_of([start(url, token, 1, 0.0)]) == ["budget_reserved"]
    assert spent(url, key_id) == 0
    killed.kill()
    killed.communicate()
    expected = COST + LEAST if is_recorded else 2 * LEAST  # the budget caps the second call
    run_sync(lambda: _settle(url, key_id, expected))


async def _settle(url: str, key_id: str, expected: float) -> None:
    """Run another replica until it has settled the requests of the dead one."""
    journal = SqlJournal(url)
    store = KeyStore(journal)
    async with journal, store, KeyAccess(store, journal=journal):
        with anyio.fail_after(30):
            while True:
                days = await store.days(key_id, "2000")
                if sum(day.requests for day in days) == 2:
                    break
                await anyio.sleep(0.1)
    assert sum(day.cost for day in days) / 1e9 == pytest.approx(expected)
