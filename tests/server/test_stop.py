"""The orderly stop of `podium serve`: clients get the errors of their APIs; background runs go on later."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, CONFIG, process, stalled, team, until
from servers.chat_server import ChatServer

pytestmark = pytest.mark.long

INPUT = {"model": "podium", "input": "Why?"}
MESSAGES = {"model": "podium", "max_tokens": 100, "messages": ASKED}
CHAT = {"model": "podium", "messages": ASKED}


@pytest.fixture
def upstream() -> Iterator[ChatServer]:
    """Serve the models behind the workers; the last worker never answers."""
    with ChatServer(stalled).in_thread() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, upstream: ChatServer) -> Path:
    (tmp_path / "podium.toml").write_text(
        CONFIG.format(url=upstream.url, models="", server="drain_seconds = 3.0")
    )
    return tmp_path


class Client:
    """Sends requests in threads, and keeps their answers."""

    def __init__(self, url: str) -> None:
        self.http = httpx2.Client(base_url=url, timeout=30)
        self._threads = ThreadPoolExecutor(16)
        self._answers: dict[str, Future[httpx2.Response]] = {}

    def send(self, name: str, path: str, body: dict[str, Any], **headers: str) -> None:
        self._answers[name] = self._threads.submit(self.http.post, path, json=body, headers=headers)

    def follow(self, name: str, path: str) -> None:
        self._answers[name] = self._threads.submit(self.http.get, path)

    def answers(self) -> dict[str, httpx2.Response]:
        with self._threads:
            found = {name: answer.result(30) for name, answer in self._answers.items()}
        self.http.close()
        return found


def last_event(answer: httpx2.Response) -> tuple[str, Any]:
    frames = [frame for frame in answer.text.split("\n\n") if "data: {" in frame]
    kind = frames[-1].partition("\ndata: ")[0] if frames[-1].startswith("event:") else ""
    return kind.removeprefix("event: ").partition("\n")[0], json.loads(frames[-1].partition("data: ")[2])


def test_the_end_of_the_drain(folder: Path, upstream: ChatServer) -> None:
    """Requests without an answer get a JSON 503, and streams an error event; nothing is cut."""
    with process(folder) as running:
        client = Client(running.url)
        client.send("chat", "/chat/completions", CHAT)
        client.send("named", "/chat/completions", CHAT, **{"idempotency-key": "k"})
        client.send("messages", "/messages", MESSAGES)
        client.send("response", "/responses", INPUT)
        client.send("chat stream", "/chat/completions", CHAT | {"stream": True})
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 50}, "stream": True}
        client.send("messages stream", "/messages", MESSAGES | thinking)
        client.send("response stream", "/responses", INPUT | {"stream": True})
        assert until(lambda: sum(call.body["model"] == "two" for call in upstream.calls) == 7)
        run_id = client.http.post("/runs", json={"model": "podium", "query": "Why?"}).json()["id"]
        client.follow("events", f"/runs/{run_id}/events")
        running.send_signal(signal.SIGTERM)
        answers = client.answers()
        assert running.wait(20) == 0
    for name, retries in (("chat", "false"), ("named", "true"), ("response", "false")):
        answer = answers[name]
        assert (answer.status_code, answer.headers["x-should-retry"]) == (503, retries), name
        error = answer.json()["error"]
        assert error["code"] == "server_stopping"
        assert error["run_id"] in error["message"]
    assert answers["named"].headers["retry-after"] == "1"
    assert answers["messages"].status_code == 529
    assert answers["messages"].json()["error"]["code"] == "server_stopping"
    kind, data = last_event(answers["chat stream"])
    assert (kind, data["error"]["code"]) == ("", "server_stopping")
    kind, data = last_event(answers["messages stream"])
    assert (kind, data["error"]["code"]) == ("error", "server_stopping")
    kind, data = last_event(answers["response stream"])
    assert (kind, data["response"]["error"]["code"]) == ("response.failed", "server_stopping")
    kind, data = last_event(answers["events"])
    assert (kind, data["error"]["code"]) == ("error", "server_stopping")

    upstream.reply, before = team, len(upstream.calls)
    with process(folder) as running, httpx2.Client(base_url=running.url, timeout=30) as http:
        again = http.post("/chat/completions", json=CHAT, headers={"idempotency-key": "k"})
        assert again.json()["choices"][0]["message"]["content"] == "the answer"
        stopped = answers["chat"].json()["error"]["run_id"]
        assert http.get(f"/runs/{stopped}").json()["status"] == "stopped"
        http.post(f"/runs/{stopped}/resume", json={})
        for each in (run_id, stopped):
            assert until(lambda each=each: http.get(f"/runs/{each}").json()["status"] == "ok")
    assert {call.body["model"] for call in upstream.calls[before:]} == {"two"}


def test_new_requests_during_the_drain(folder: Path, upstream: ChatServer) -> None:
    """They get a 503 in the form of their API, and `/readyz` is 503; `/healthz` is 200."""
    with process(folder) as running:
        client = Client(running.url)
        client.send("chat", "/chat/completions", CHAT)
        assert until(lambda: any(call.body["model"] == "two" for call in upstream.calls))
        running.send_signal(signal.SIGTERM)
        root = running.url.removesuffix("/v1")
        assert until(lambda: httpx2.get(f"{root}/readyz").status_code == 503)
        assert httpx2.get(f"{root}/readyz").json()["code"] == "server_stopping"
        assert httpx2.get(f"{root}/healthz").status_code == 200
        refused = client.http.post("/chat/completions", json=CHAT)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_stopping")
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        refused = client.http.post("/messages", json=MESSAGES)
        assert (refused.status_code, refused.json()["type"]) == (529, "error")
        assert refused.headers["retry-after"] == "1"
        assert client.answers()["chat"].status_code == 503
        assert running.wait(20) == 0


def test_a_second_ctrl_c(folder: Path, upstream: ChatServer) -> None:
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace("drain_seconds = 3.0", "drain_seconds = 600.0"))
    with process(folder) as running:
        client = Client(running.url)
        client.send("chat", "/chat/completions", CHAT)
        assert until(lambda: any(call.body["model"] == "two" for call in upstream.calls))
        running.send_signal(signal.SIGINT)
        root = running.url.removesuffix("/v1")
        assert until(lambda: httpx2.get(f"{root}/readyz").status_code == 503)
        running.send_signal(signal.SIGINT)
        assert client.answers()["chat"].json()["error"]["code"] == "server_stopping"
        assert running.wait(20) == 130
