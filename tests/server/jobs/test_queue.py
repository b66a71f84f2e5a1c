"""Runs and responses that wait in the shared queue for a free slot, and jobs of lost processes."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import anyio
import httpx2
import pytest
from server.scene import ASKED, Serve, ended, post, start, team, until
from servers.chat_server import Call, ChatServer, Reply

from podium.journal import SqlJournal
from podium_server.jobs.jobs import Job, Jobs
from podium_server.jobs.table import JobTable, StoredJob, new_job

BEHIND = {"model": "podium", "input": ASKED, "background": True}


@pytest.fixture
def client(serve: Serve) -> httpx2.Client:
    return serve(server="background_runs = 1").http()


@contextmanager
def busy(client: httpx2.Client, upstream: ChatServer) -> Iterator[str]:
    """Run one run in the only slot in the block; it ends after the block."""
    released = threading.Event()

    def reply(call: Call) -> Reply:
        if call.body["model"] == "two":
            assert released.wait(20)
        return team(call)

    upstream.reply = reply
    run_id = start(client)["id"]
    assert until(lambda: len(upstream.calls) == 3)
    try:
        yield run_id
    finally:
        released.set()


def test_runs_wait_for_a_slot(client: httpx2.Client, upstream: ChatServer) -> None:
    """They are shown as queued, and run one after the other, in order; a cancelled one never begins."""
    with busy(client, upstream) as first:
        waiting = [start(client, query=f"Question {number}?") for number in range(3)]
        shown = [(run["status"], run["model"], run["events"]) for run in waiting]
        assert shown == [("queued", "podium", 0)] * 3
        assert len(upstream.calls) == 3
        assert post(client, waiting[0]["id"], "resume", 409)["error"]["code"] == "run_held"
        gone = f"/runs/{waiting.pop()['id']}"
        assert client.delete(gone).json()["error"]["code"] == "run_held"
        run = client.post(f"{gone}/cancel", json={}).json()
        assert (run["status"], run["problem"]["code"]) == ("stopped", "cancelled")
        assert (client.delete(gone).status_code, client.get(gone).status_code) == (200, 404)
    runs = [ended(client, run_id) for run_id in (first, *(run["id"] for run in waiting))]
    assert [run["status"] for run in runs] == ["ok"] * 3
    ends = [run["ended"] for run in runs]
    assert ends == sorted(ends)


def test_a_response_waits_for_a_slot(client: httpx2.Client, upstream: ChatServer) -> None:
    with busy(client, upstream):
        response, cancelled = (client.post("/responses", json=BEHIND).json() for _ in range(2))
        assert (response["status"], cancelled["status"]) == ("queued", "queued")
        assert client.post(f"/responses/{cancelled['id']}/cancel", json={}).json()["status"] == "cancelled"
        assert len(upstream.calls) == 3
    place = f"/responses/{response['id']}"
    assert until(lambda: client.get(place).json()["status"] == "completed")


def test_the_idempotency_key_of_a_queued_run(client: httpx2.Client, upstream: ChatServer) -> None:
    body, key = {"model": "podium", "query": "Why?"}, {"idempotency-key": "a"}
    with busy(client, upstream):
        first = client.post("/runs", json=body, headers=key)
        again = client.post("/runs", json=body, headers=key)
        assert (again.json()["id"], again.headers["idempotent-replayed"]) == (first.json()["id"], "true")
        others: list[tuple[str, dict[str, Any]]] = [
            ("/runs", body | {"labels": ["eu"]}),
            ("/responses", BEHIND),
            ("/chat/completions", {"model": "podium", "messages": ASKED}),
        ]
        for path, other in others:
            refused = client.post(path, json=other, headers=key)
            assert refused.json()["error"]["code"] == "idempotency_key_reused", path
    assert ended(client, first.json()["id"])["status"] == "ok"
    assert len(upstream.calls) == 6


def test_a_full_queue(serve: Serve, upstream: ChatServer) -> None:
    """A further run is refused until another has begun; a repeated request finds its run."""
    client = serve(server="background_runs = 1\nqueued_runs = 2").http()
    body = {"model": "podium", "query": "Why?"}
    with busy(client, upstream):
        for key in ("a", "b", "a"):
            assert client.post("/runs", json=body, headers={"idempotency-key": key}).status_code == 202
        for each in (client.post("/runs", json=body), client.post("/responses", json=BEHIND)):
            assert (each.status_code, each.json()["error"]["code"]) == (503, "queue_full")
            assert "retry-after" in each.headers
    assert until(lambda: len(client.get("/runs", params={"status": "ok"}).json()["data"]) == 3)
    assert client.post("/runs", json=body).status_code == 202


def test_keys_take_turns(serve: Serve, upstream: ChatServer) -> None:
    keyed = serve(keys=True, server="background_runs = 1")
    many, few = keyed.http(keyed.key()), keyed.http(keyed.key())
    with busy(many, upstream):
        queued = [start(many)["id"] for _ in range(3)]
        other = start(few)["id"]
    ends = [ended(many, run_id)["ended"] for run_id in queued]
    assert ends == sorted(ends)
    assert ended(few, other)["ended"] < ends[2]


@pytest.mark.long
def test_a_new_run_of_a_key_at_its_limit(serve: Serve, upstream: ChatServer) -> None:
    """It waits in the queue, also if there is a free slot."""
    keyed = serve(keys=True)
    client = keyed.http(keyed.key(concurrency=1))
    with busy(client, upstream) as first:
        waiting = [start(client), start(client)]
        response = client.post("/responses", json=BEHIND).json()
        assert [each["status"] for each in (*waiting, response)] == ["queued"] * 3
    for run_id in (first, *(run["id"] for run in waiting)):
        assert ended(client, run_id)["status"] == "ok"
    assert until(lambda: client.get(f"/responses/{response['id']}").json()["status"] == "completed", 20.0)


async def found(table: JobTable, job_id: str) -> StoredJob:
    job = await table.find(job_id)
    assert job is not None
    return job


class Endless:
    """Work that begins; jobs of the kind `endless` then never end."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def run(self) -> None:
        self._job.begin()
        if self._job.stored.kind == "endless":
            await anyio.sleep_forever()

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        del failure
        return None

    async def drop(self) -> None:
        """Do nothing."""


@pytest.mark.anyio
async def test_jobs_are_given_up(url: str) -> None:
    async with AsyncExitStack() as stack:
        processes: list[Jobs] = []
        for period in (3600.0, 0.05):
            journal = await stack.enter_async_context(SqlJournal(url))
            table = await stack.enter_async_context(JobTable(journal))
            kinds = {"endless": Endless}
            jobs = Jobs(table, kinds, most=2, queued=10, on_cancels=lambda _: None, period=period)
            await stack.enter_async_context(jobs.opened())
            processes.append(jobs)
        suspended, other = processes
        for name in ("a", "b"):
            assert await suspended.begin(new_job(name, "endless", "local", {}))
        holder = (await found(other.table, "a")).holder
        end = "UPDATE podium_leases SET until = 1.0 WHERE holder = ?"
        with anyio.fail_after(20):
            while other.count < 2:
                # again, because the look after the start of a job renews the lease
                await other.table.transaction(lambda each: each.execute(end, holder))
                await anyio.sleep(0.02)
        assert suspended.count == 2
        await suspended.table.journal.check(5.0)
        with anyio.fail_after(20):
            while suspended.count:  # noqa: ASYNC110 - as above
                await anyio.sleep(0.02)
        assert other.count == 2
        assert holder not in {(await found(other.table, name)).holder for name in ("a", "b")}
