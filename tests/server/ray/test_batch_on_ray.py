"""`podium batch --ray` keeps the promises of `podium batch`."""

import asyncio
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import psycopg
import pytest
from ray.cluster_utils import Cluster
from server.batch.conftest import asked_of, command, echo, questions, read, write
from server.batch.test_batch import ONE, WORDS as ALONE, fails_on
from server.ray.conftest import OnRay
from servers.chat_server import Call, ChatServer, Reply, says

from podium.journal import RunRow, SqlJournal

CONCURRENCY = 96
"""Enough lines for three actors; the cluster has two cores, and so two actors."""
MANY = questions(300)
WORDS = (*ALONE, "--concurrency", str(CONCURRENCY))

pytestmark = pytest.mark.timeout(240)


def slow(call: Call) -> Reply:
    return says(call, f"answer to {asked_of(call)}", delay=0.5)


def use_postgres(folder: Path, url: str) -> None:
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace('path = "runs.db"', f'url = "{url}"'))


def rows_of(url: str) -> Sequence[RunRow]:
    async def look() -> Sequence[RunRow]:
        async with SqlJournal(url) as journal:
            return await journal.runs(limit=None)

    return asyncio.run(look())


def until(is_so: Callable[[], object], running: "subprocess.Popen[Any]") -> None:
    while not is_so():
        assert running.poll() is None
        sleep(0.05)


def test_lines_in_actors(folder: Path, on_ray: OnRay, upstream: ChatServer) -> None:
    upstream.reply = fails_on("question 13")
    write(folder / "in.jsonl", [*MANY[:100], {"id": "bad"}])
    words = (*WORDS, "--failures", "bad.jsonl")
    code, told = on_ray(*words)
    assert code == 1, told
    assert "101 lines: 1 failed, 1 invalid, 99 ok" in told
    rows = {row["id"]: row for row in read(folder / "in.results.jsonl")}
    assert len(rows) == 101
    assert rows["q7"]["answer"] == "answer to question 7"
    assert rows["q7"]["cost"] == pytest.approx(ONE)
    assert sorted(row["id"] for row in read(folder / "bad.jsonl")) == ["bad", "q13"]
    calls = len(upstream.calls)
    (folder / "in.results.jsonl").unlink()
    assert on_ray(*words)[0] == 1
    assert len(upstream.calls) == calls


def test_one_budget(folder: Path, on_ray: OnRay, upstream: ChatServer) -> None:
    """The actors together start only runs whose limits fit, in this command and the next."""
    write(folder / "in.jsonl", MANY[:100])
    words = (*WORDS, "--max-cost", "0.02", "--budget")
    budget = 0.02 + 9.5 * ONE
    code, told = on_ray(*words, str(budget))
    assert code == 3, told
    assert len(upstream.calls) == 10
    assert on_ray(*words, str(budget))[0] == 3
    assert len(upstream.calls) == 10
    code, told = on_ray(*words, "3")
    assert code == 0, told
    assert sum(row["cost"] for row in read(folder / "in.results.jsonl")) == pytest.approx(100 * ONE)


def test_a_killed_actor(folder: Path, upstream: ChatServer, postgres_url: str, cluster: Any) -> None:
    use_postgres(folder, postgres_url)
    upstream.reply = slow
    write(folder / "in.jsonl", MANY)
    arguments = command(folder, *WORDS, "--ray", cluster.address)
    with subprocess.Popen(**arguments, stderr=subprocess.PIPE) as running:
        until(lambda: len(upstream.calls) > 80, running)
        pids = {int(row.holder.split(":")[1]) for row in rows_of(postgres_url) if row.holder is not None}
        assert len(pids) == 2
        os.kill(min(pids), signal.SIGKILL)
        _, told = running.communicate(timeout=120)
        assert running.returncode == 0, told
    check_results(folder, upstream, kills=1)


def test_a_killed_command(
    folder: Path, on_ray: OnRay, upstream: ChatServer, postgres_url: str, cluster: Any
) -> None:
    use_postgres(folder, postgres_url)
    upstream.reply = slow
    write(folder / "in.jsonl", MANY)
    words = (*WORDS, "--max-cost", "0.1", "--budget", "40")
    for _ in range(2):
        before = len(upstream.calls)
        with subprocess.Popen(**command(folder, *words, "--ray", cluster.address)) as running:
            until(lambda before=before: len(upstream.calls) > before + 80, running)
            running.kill()
    code, told = on_ray(*words)
    assert code == 0, told
    check_results(folder, upstream, kills=2)


def test_a_line_kills_its_actor(folder: Path, on_ray: OnRay, upstream: ChatServer, postgres_url: str) -> None:
    use_postgres(folder, postgres_url)

    def reply(call: Call) -> Reply:
        if asked_of(call) == "poison":
            with psycopg.connect(postgres_url) as database:
                find = "SELECT holder FROM podium_runs WHERE question = 'poison'"
                ((holder,),) = database.execute(find).fetchall()
            os.kill(int(holder.split(":")[1]), signal.SIGKILL)
        return echo(call)

    upstream.reply = reply
    write(folder / "in.jsonl", [{"id": "poison", "query": "poison"}, *MANY[:20]])
    code, told = on_ray(*ALONE, "--concurrency", "2")
    assert code == 1, told
    rows = {row["id"]: row for row in read(folder / "in.results.jsonl")}
    assert rows.pop("poison")["problem"]["code"] == "run_dead"
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert len(rows) == 20


def check_results(folder: Path, upstream: ChatServer, kills: int) -> None:
    """Check that each line has one result, and that only calls in flight at kills were made again."""
    rows = read(folder / "in.results.jsonl")
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in MANY)
    assert all(row["answer"] == f"answer to question {row['id'][1:]}" for row in rows)
    assert len({asked_of(call) for call in upstream.calls}) == len(MANY)
    assert len(upstream.calls) <= len(MANY) + kills * CONCURRENCY


def test_what_cannot_work(folder: Path, on_ray: OnRay, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "in.jsonl", MANY[:1])
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and answers nothing
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for each in ("127.0.0.1:1", "ray://127.0.0.1:1", address, f"ray://{address}"):
            code, told = on_ray(*WORDS, address=each)
            assert code == 2, told
            assert f"no Ray cluster answers at '{each}': start one with `ray start --head`" in told
    with monkeypatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(folder / "none"))
        code, told = on_ray(*WORDS)
        assert (code, "cannot be used" in told, "a bug" in told) == (2, True, False), told
    two = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        two.add_node(num_cpus=4, node_ip_address="127.0.0.2")
        code, told = on_ray(*WORDS, address=two.address)
        assert code == 2, told
        assert "set `url` in [journal] to a PostgreSQL database" in told
    finally:
        two.shutdown()
