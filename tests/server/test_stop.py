"""The orderly stop of `podium serve`: clients get the errors of their APIs; background runs go on later."""

import json
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from server.scene import BODIES, called, process, stalled, team, until
from servers.chat_server import ChatServer

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _stalled(upstream: ChatServer) -> None:
    upstream.reply = stalled


class Client:
    """Sends requests in threads, and keeps their answers."""

    def __init__(self, url: str) -> None:
        self.http = httpx2.Client(base_url=url, timeout=30)
        self._threads = ThreadPoolExecutor(16)
        self._answers: dict[str, Future[httpx2.Response]] = {}

    def send(self, name: str, path: str, *, key: str = "", **more: Any) -> None:
        headers = {"idempotency-key": key} if key else {}
        body = {"model": "podium", **BODIES[path], **more}
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
        for path in BODIES:
            client.send(path, path)
        client.send("named", "chat/completions", key="k")
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 50}}
        for path in BODIES:
            client.send(f"{path} stream", path, stream=True, **(thinking if path == "messages" else {}))
        assert until(lambda: called(upstream).count("two") == 7)
        run_id = client.http.post("/runs", json={"model": "podium", "query": "Why?"}).json()["id"]
        client.follow("events", f"/runs/{run_id}/events")
        running.send_signal(signal.SIGTERM)
        answers = client.answers()
        assert running.wait(20) == 0
    for name, retries in (("chat/completions", "false"), ("named", "true"), ("responses", "false")):
        answer = answers[name]
        assert (answer.status_code, answer.headers["x-should-retry"]) == (503, retries), name
        error = answer.json()["error"]
        assert error["code"] == "server_stopping"
        assert error["run_id"] in error["message"]
    assert (answers["named"].headers["retry-after"], answers["messages"].status_code) == ("1", 529)
    assert answers["messages"].json()["error"]["code"] == "server_stopping"
    for name, event in (
        ("chat/completions stream", ""),
        ("messages stream", "error"),
        ("responses stream", "response.failed"),
        ("events", "error"),
    ):
        kind, data = last_event(answers[name])
        assert (kind, data.get("response", data)["error"]["code"]) == (event, "server_stopping"), name

    upstream.reply, before = team, len(upstream.calls)
    with process(folder) as running, httpx2.Client(base_url=running.url, timeout=30) as http:
        body = {"model": "podium", **BODIES["chat/completions"]}
        again = http.post("/chat/completions", json=body, headers={"idempotency-key": "k"})
        assert again.json()["choices"][0]["message"]["content"] == "the answer"
        stopped = answers["chat/completions"].json()["error"]["run_id"]
        assert http.get(f"/runs/{stopped}").json()["status"] == "stopped"
        http.post(f"/runs/{stopped}/resume", json={})
        for each in (run_id, stopped):
            assert until(lambda each=each: http.get(f"/runs/{each}").json()["status"] == "ok")
    assert {*called(upstream)[before:]} == {"two"}


def draining(running: Any, upstream: ChatServer, number: signal.Signals) -> Client:
    """Send a chat and then a signal, and return the client when the server stops."""
    client = Client(running.url)
    client.send("chat", "chat/completions")
    assert until(lambda: "two" in called(upstream))
    running.send_signal(number)
    ready = running.url.replace("/v1", "/readyz")
    assert until(lambda: httpx2.get(ready).status_code == 503)
    assert httpx2.get(ready).json()["code"] == "server_stopping"
    return client


def test_new_requests_during_the_drain(folder: Path, upstream: ChatServer) -> None:
    """They get a 503 in the form of their API, and `/readyz` is 503; `/healthz` is 200."""
    with process(folder) as running:
        client = draining(running, upstream, signal.SIGTERM)
        assert httpx2.get(running.url.replace("/v1", "/healthz")).status_code == 200
        asked = {path: {"model": "podium", **body} for path, body in BODIES.items()}
        refused = client.http.post("/chat/completions", json=asked["chat/completions"])
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_stopping")
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        refused = client.http.post("/messages", json=asked["messages"])
        assert (refused.status_code, refused.json()["type"]) == (529, "error")
        assert (refused.headers["retry-after"], client.answers()["chat"].status_code) == ("1", 503)
        assert running.wait(20) == 0


def test_a_second_ctrl_c(folder: Path, upstream: ChatServer) -> None:
    config = folder / "podium.toml"
    config.write_text(config.read_text().replace("drain_seconds = 3.0", "drain_seconds = 600.0"))
    with process(folder) as running:
        client = draining(running, upstream, signal.SIGINT)
        running.send_signal(signal.SIGINT)
        assert client.answers()["chat"].json()["error"]["code"] == "server_stopping"
        assert running.wait(20) == 130
