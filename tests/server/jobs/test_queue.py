"""Runs and responses that wait in the queue for a free slot."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, ended, post, start, team, until
from servers.chat_server import Call, ChatServer, Reply

from podium.aio import run_sync
from podium_server.keys import KeyStore
from podium_server.keys.account import day_of


@pytest.fixture
def client(serve: Serve) -> httpx2.Client:
    """Return a client of a server that executes one run in the background at a time."""
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
        assert [(run["status"], run["model"], run["events"]) for run in waiting] == [
            ("queued", "podium", 0)
        ] * 3
        assert len(upstream.calls) == 3
        assert post(client, waiting[0]["id"], "resume", 409)["error"]["code"] == "run_held"
        gone = f"/runs/{waiting.pop()['id']}"
        assert client.delete(gone).json()["error"]["code"] == "run_held"
        run = client.post(f"{gone}/cancel", json={}).json()
        assert (run["status"], run["problem"]["code"]) == ("stopped", "cancelled")
        assert client.delete(gone).status_code == 200
        assert client.get(gone).status_code == 404
    runs = [ended(client, run_id) for run_id in (first, *(run["id"] for run in waiting))]
    assert [run["status"] for run in runs] == ["ok"] * 3
    ends = [run["ended"] for run in runs]
    assert ends == sorted(ends)


def test_a_response_waits_for_a_slot(client: httpx2.Client, upstream: ChatServer) -> None:
    """Its status is `queued`; a request that is refused later fails it."""
    with busy(client, upstream):
        body = {"model": "podium", "input": ASKED, "background": True}
        response = client.post("/responses", json=body).json()
        cancelled = client.post("/responses", json=body).json()
        assert (response["status"], cancelled["status"]) == ("queued", "queued")
        assert client.post(f"/responses/{cancelled['id']}/cancel", json={}).json()["status"] == "cancelled"
        assert len(upstream.calls) == 3
    place = f"/responses/{response['id']}"
    assert until(lambda: client.get(place).json()["status"] == "completed")


def test_a_queued_run_that_is_refused(client: httpx2.Client, upstream: ChatServer) -> None:
    """It is shown as failed, with the reason; its events end with the error."""
    with busy(client, upstream):
        run_id = start(client, limits={"steps": 1000})["id"]
    assert until(lambda: client.get(f"/runs/{run_id}").json()["status"] == "failed")
    run = client.get(f"/runs/{run_id}").json()
    assert (run["problem"]["code"], run["query"]) == ("invalid_request", [])
    assert "1000" in run["problem"]["message"]
    events = client.get(f"/runs/{run_id}/events")
    assert (events.status_code, events.json()["error"]["code"]) == (409, "invalid_request")


def test_the_idempotency_key_of_a_queued_run(client: httpx2.Client, upstream: ChatServer) -> None:
    """The same request is the same run; another one with the key is refused, in each API."""
    body, key = {"model": "podium", "query": "Why?"}, {"idempotency-key": "a"}
    with busy(client, upstream):
        first = client.post("/runs", json=body, headers=key)
        again = client.post("/runs", json=body, headers=key)
        assert again.json()["id"] == first.json()["id"]
        assert again.headers["idempotent-replayed"] == "true"
        others: list[tuple[str, dict[str, Any]]] = [
            ("/runs", body | {"labels": ["eu"]}),
            ("/responses", {"model": "podium", "input": "Why?", "background": True}),
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
        asked = {"model": "podium", "input": ASKED, "background": True}
        for each in (client.post("/runs", json=body), client.post("/responses", json=asked)):
            assert (each.status_code, each.json()["error"]["code"]) == (503, "queue_full")
            assert "retry-after" in each.headers
    assert until(lambda: len(client.get("/runs", params={"status": "ok"}).json()["data"]) == 3)
    assert client.post("/runs", json=body).status_code == 202


def test_keys_take_turns(serve: Serve, upstream: ChatServer) -> None:
    """A key with many queued runs delays the run of another key by two runs at most."""
    keyed = serve(keys=True, server="background_runs = 1")
    many, few = keyed.http(keyed.key()), keyed.http(keyed.key())
    with busy(many, upstream):
        queued = [start(many)["id"] for _ in range(5)]
        other = start(few)["id"]
    ends = [ended(many, run_id)["ended"] for run_id in queued]
    assert ends == sorted(ends)
    assert ended(few, other)["ended"] < ends[2]


def test_a_budget_with_too_little_for_the_first_call(
    serve: Serve, upstream: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queued run waits for more, and is not lost."""
    monkeypatch.setattr("podium_server.jobs.jobs.RETRY_SECONDS", 0.2)
    keyed = serve(keys=True, server="background_runs = 1")
    free, poor = keyed.http(keyed.key()), keyed.http(keyed.key(day_cost=5.0, run_cost=0.5))
    assert keyed.app.journal is not None
    store, key_id = KeyStore(keyed.app.journal.url), poor.get("/keys/self").json()["id"]
    add = "INSERT INTO podium_key_days VALUES (?, ?, ?, 1, 0, 0, 0) ON CONFLICT (key_id, day) DO UPDATE SET"

    def charge(cost: int) -> None:
        values = (key_id, day_of(time.time()), cost)
        run_sync(lambda: store.transaction(lambda each: each.execute(f"{add} cost = excluded.cost", *values)))

    with busy(free, upstream):
        run_id = start(poor)["id"]
        charge(4_999_000_000)
    later = start(free)["id"]
    assert ended(free, later)["status"] == "ok"
    run = poor.get(f"/runs/{run_id}").json()
    assert (run["status"], run["problem"]) == ("queued", None)
    charge(0)
    assert ended(poor, run_id)["status"] == "ok"


@pytest.mark.long
def test_a_new_run_of_a_key_at_its_limit(serve: Serve, upstream: ChatServer) -> None:
    """It waits in the queue, also if there is a free slot."""
    keyed = serve(keys=True)
    client = keyed.http(keyed.key(concurrency=1))
    with busy(client, upstream) as first:
        waiting = [start(client), start(client)]
        asked = {"model": "podium", "input": ASKED, "background": True}
        response = client.post("/responses", json=asked).json()
        assert [each["status"] for each in (*waiting, response)] == ["queued"] * 3
    for run_id in (first, *(run["id"] for run in waiting)):
        assert ended(client, run_id)["status"] == "ok"
    assert until(lambda: client.get(f"/responses/{response['id']}").json()["status"] == "completed", 20.0)


def test_a_new_run_of_a_key_without_budget(serve: Serve, upstream: ChatServer) -> None:
    """It is refused, also if there is no free slot."""
    keyed = serve(keys=True, server="background_runs = 1")
    free, poor = keyed.http(keyed.key()), keyed.http(keyed.key(day_cost=0.001))
    with busy(free, upstream):
        asked = {"model": "podium", "input": ASKED, "background": True}
        for path, body in (("/runs", {"model": "podium", "query": "Why?"}), ("/responses", asked)):
            answer = poor.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (429, "insufficient_quota"), path
        assert poor.get("/runs").json()["data"] == []
