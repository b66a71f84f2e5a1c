"""Limits on requests, and clients that are slow or leave."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, Serve, slowly, stalled, team, until
from servers.chat_server import STALL, ChatServer, chunk, events
from servers.podium_server import Served

BODY = json.dumps({"model": "podium", "messages": ASKED, "stream": True}).encode()


def connected(served: Served, data: bytes, *, small: bool = False) -> socket.socket:
    host, port = served.root.removeprefix("http://").split(":")
    client = socket.socket()
    if small:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(15)
    client.connect((host, int(port)))
    client.sendall(data)
    return client


def request(body: bytes, *, length: int | None = None, more: str = "") -> bytes:
    size = len(body) if length is None else length
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n{more}"
    return f"{head}Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode() + body


def rest(client: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection, and close it."""
    with client:
        return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_run(*, stream: bool, served: Served, upstream: ChatServer) -> None:
    upstream.reply = stalled
    client = connected(served, request(json.dumps({**json.loads(BODY), "stream": stream}).encode()))
    assert until(lambda: len(upstream.calls) == 3)
    client.close()
    assert until(upstream.calls[2].hung_up.is_set)
    raw = served.client().with_options(timeout=0.5)
    with pytest.raises(openai.APITimeoutError):
        raw.chat.completions.create(model="podium", messages=ASKED)
    assert until(upstream.calls[-1].hung_up.is_set)


def test_a_comment_while_nothing_happens(serve: Serve, upstream: ChatServer) -> None:
    """So that no proxy closes the connection; clients ignore it."""
    upstream.reply = slowly
    served = serve(server="keep_alive_seconds = 0.05")
    answer = served.http().post("/chat/completions", json=json.loads(BODY))
    assert answer.text.count(": keep-alive\n\n") >= 2
    stream = served.client().chat.completions.create(model="podium", messages=ASKED, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "the answer"


def test_too_many_requests(serve: Serve, upstream: ChatServer) -> None:
    """A further request gets 503 and `retry-after`; health is still answered."""
    upstream.reply = stalled
    served = serve(server="requests = 1")
    client = connected(served, request(BODY))
    assert until(lambda: len(upstream.calls) == 3)
    with pytest.raises(openai.InternalServerError) as caught:
        served.client().chat.completions.create(model="podium", messages=ASKED)
    assert (caught.value.status_code, caught.value.code) == (503, "server_busy")
    assert caught.value.response.headers["retry-after"] == "1"
    assert httpx2.get(f"{served.root}/healthz").status_code == 200
    client.close()
    upstream.reply = team
    assert until(lambda: httpx2.get(f"{served.url}/models").status_code == 200)


@pytest.mark.long
def test_a_client_that_does_not_read(serve: Serve, upstream: ChatServer) -> None:
    """Its run is cancelled after `write_seconds`, and its connection dropped."""
    upstream.reply = lambda _: events(*[chunk({"content": "x" * 50_000})] * 1000, STALL)
    models = '[models.podium]\nworker = "one"\nlimits.output_chars = 1_000_000_000\n'
    served = serve(server="write_seconds = 0.5", models=models)
    client = connected(served, request(BODY), small=True)
    assert until(lambda: len(upstream.calls) == 1)
    assert until(upstream.calls[0].hung_up.is_set, 20)
    client.close()


def test_an_idempotency_key_while_its_run_is_executed(served: Served, upstream: ChatServer) -> None:
    upstream.reply = slowly
    body, named = {"model": "podium", "messages": ASKED}, {"Idempotency-Key": "same"}
    with ThreadPoolExecutor() as threads:
        post, path = served.http().post, "/chat/completions"
        waiting = [threads.submit(post, path, json=body, headers=named) for _ in range(3)]
        assert until(lambda: len(upstream.calls) == 2)
        other: Any = [{"role": "user", "content": "Another question?"}]
        with pytest.raises(openai.ConflictError):
            served.client().chat.completions.create(model="podium", messages=other, extra_headers=named)
        answers = [each.result() for each in waiting]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.headers["x-podium-run-id"] for answer in answers}) == 1
    assert [answer.headers.get("idempotent-replayed") for answer in answers].count("true") == 2
    assert len({json.dumps({**answer.json(), "created": 0}) for answer in answers}) == 1
    assert len(upstream.calls) == 3


def test_slow_requests(serve: Serve) -> None:
    """After `read_seconds`, requests without headers or a body are refused, and their connections closed."""
    served = serve(server="read_seconds = 0.3")
    heads = [b"", b"GET /v1/mod", b"GET /v1/models HTTP/1.1\r\nHost: loc"]
    slow = [connected(served, sent) for sent in (request(b"{", length=100), *heads)]
    answer, *others = [rest(client) for client in slow]
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"request_timeout" in answer
    assert others == [b""] * 3


def test_large_requests(serve: Serve) -> None:
    """Bodies and headers are refused; a body does not count as headers, also in a second request."""
    served = serve(server="header_bytes = 2000\nbody_bytes = 150_000")
    body, client = b"x" * 200_000, served.http()
    for content in (body, iter([body])):
        kind = {"content-type": "application/json"}
        answer = client.post("/chat/completions", content=content, headers=kind)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
    header = "X-Large: " + "x" * 4000
    for sent in (request(BODY, more=f"{header}\r\n"), f"GET / HTTP/1.1\r\n{header}".encode()):
        assert rest(connected(served, sent)).startswith(b"HTTP/1.1 431 ")
    asked: Any = [{"role": "user", "content": "Why? " * 20_000}]
    for _ in range(2):
        answer = client.post("/chat/completions", json={"model": "podium", "messages": asked})
        assert answer.status_code == 200
