"""Runs and responses that wait in the queue for a free slot."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, ended, post, start, team, until
from servers.chat_server import Call, ChatServer, Reply


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


def test_the_idempotency_key_of_a_queued_run(client: httpx2.Client, upstream: ChatServer) -> None:
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
        asked = {"model": "podium", "input": ASKED, "background": True}
        response = client.post("/responses", json=asked).json()
        assert [each["status"] for each in (*waiting, response)] == ["queued"] * 3
    for run_id in (first, *(run["id"] for run in waiting)):
        assert ended(client, run_id)["status"] == "ok"
    assert until(lambda: client.get(f"/responses/{response['id']}").json()["status"] == "completed", 20.0)
