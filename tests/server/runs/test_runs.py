"""The list of runs, one run, and its events."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, team
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served


def ask(client: httpx2.Client, model: str = "podium", **more: Any) -> str:
    answer = client.post("/chat/completions", json={"model": model, "messages": ASKED, **more})
    return str(answer.headers["x-podium-run-id"])


def frames(text: str) -> Iterator[dict[str, Any]]:
    """Yield the frames of a stream: `event`, `id`, `data`."""
    for block in text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            yield {**fields, "data": json.loads(fields["data"])}


def test_a_run_has_its_plan_its_steps_and_their_bills(served: Served) -> None:
    client = served.http()
    run_id = ask(client)
    run = client.get(f"/runs/{run_id}").json()
    assert (run["object"], run["id"], run["model"], run["status"]) == ("run", run_id, "podium", "ok")
    assert run["answer"] == "the answer"
    assert run["query"] == ASKED
    (planned,) = run["rounds"]
    assert [step["subtask"] for step in planned["plan"]["steps"]] == ["Collect facts.", "Write the answer."]
    assert [run["workers"][step["worker"]] for step in planned["plan"]["steps"]] == ["one", "two"]
    assert [(step["worker"], step["status"], step["text"]) for step in planned["steps"]] == [
        ("one", "ok", "facts"),
        ("two", "ok", "the answer"),
    ]
    costs = [bill["cost"] for bill in (*planned["steps"], *planned["proposals"])]
    assert run["cost"] == pytest.approx(sum(costs)) == pytest.approx(0.0027)
    assert run["usage"]["input_tokens"] == 3 * 211
    assert run["problem"] is None


def test_a_failed_run_has_its_problem(served: Served, upstream: ChatServer) -> None:
    def reply(call: Call) -> Reply:
        return whole({}, status=400) if call.body["model"] == "two" else team(call)

    upstream.reply = reply
    client = served.http()
    failed = client.post("/chat/completions", json={"model": "podium", "messages": ASKED}).json()
    run = client.get(f"/runs/{failed['error']['run_id']}").json()
    assert (run["status"], run["problem"]["code"]) == ("failed", "worker_refused")
    assert run["rounds"][0]["steps"][1]["problem"]["code"] == "worker_refused"
    assert "its server answered 400" in run["problem"]["message"]
    path = f"/runs/{run['id']}"
    for shown in (path, f"{path}/events"):
        text = client.get(shown).text
        assert "answered 400" in text
        assert upstream.url.removeprefix("http://").removesuffix("/v1") not in text


def test_runs_are_listed_and_filtered(serve: Serve) -> None:
    client = serve().http()
    ids = [ask(client, model) for model in ("podium", "mini", "podium")]
    listed = client.get("/runs").json()
    assert [run["id"] for run in listed["data"]] == ids[::-1]
    assert (listed["object"], listed["has_more"], listed["next"]) == ("list", False, None)
    assert listed["data"][0]["question"] == ASKED[0]["content"]
    began = listed["data"][1]["created"]
    for query, found in (
        ({"model": "mini"}, ids[1:2]),
        ({"model": "none"}, []),
        ({"status": ["ok", "failed"]}, ids[::-1]),
        ({"status": "failed"}, []),
        ({"since": began}, ids[:0:-1]),
        ({"until": began, "model": "podium"}, ids[:1]),
        ({"label": "eu"}, []),
        ({"search": "SKY"}, ids[::-1]),
        ({"search": "sk%"}, []),
    ):
        assert [run["id"] for run in client.get("/runs", params=query).json()["data"]] == found, query
    first = client.get("/runs", params={"limit": 2}).json()
    rest = client.get("/runs", params={"limit": 2, "after": first["next"]}).json()
    assert [run["id"] for run in first["data"] + rest["data"]] == ids[::-1]
    assert (rest["next"], rest["has_more"]) == (None, False)


def test_invalid_requests(served: Served) -> None:
    client = served.http()
    for path, status, code in (
        ("/runs?limit=0", 400, "invalid_request"),
        ("/runs?status=good", 400, "invalid_request"),
        ("/runs?since=nan", 400, "invalid_request"),
        ("/runs?order=asc", 400, "unknown_parameter"),
        ("/runs?key=zz", 400, "invalid_request"),
        ("/runs?after=none", 404, "run_unknown"),
        ("/runs/none", 404, "run_unknown"),
        ("/runs/none/events", 404, "run_unknown"),
        ("/runs/none/events?pieces=x", 400, "invalid_request"),
        ("/runs/a%00b", 404, "run_unknown"),
        ("/runs/%F0%9F", 404, "run_unknown"),
    ):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text


def test_the_events_of_a_run(served: Served) -> None:
    """Each has its number as id; `Last-Event-ID` and `after` continue after it."""
    client = served.http()
    path = f"/runs/{ask(client)}/events"
    answer = client.get(path)
    assert answer.headers["content-type"].startswith("text/event-stream")
    sent = list(frames(answer.text))
    assert [int(frame["id"]) for frame in sent] == list(range(len(sent)))
    assert [frame["event"] for frame in sent][:2] == ["run_started", "round_started"]
    assert sent[-1]["event"] == "run_ended"
    assert all(frame["data"]["type"] == frame["event"] for frame in sent)
    assert list(frames(client.get(path, headers={"last-event-id": "3"}).text)) == sent[4:]
    assert list(frames(client.get(path, params={"after": 3}).text)) == sent[4:]
    assert client.get(path, params={"after": len(sent) - 1}).text == ""
    assert client.get(path, headers={"last-event-id": "x"}).status_code == 400
    unknown = client.get(path, params={"after": len(sent)})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "after")
    assert f"has no event {len(sent)} yet" in unknown.text


def test_keys_see_their_own_runs(serve: Serve) -> None:
    """The role `see` sees all; the run of another key does not exist for a key without it."""
    keyed = serve(keys=True)
    first, second = keyed.http(keyed.key(labels=("eu",))), keyed.http(keyed.key())
    auditor = keyed.http(keyed.key(role="see"))
    run_id, other = ask(first), ask(second)
    assert [run["id"] for run in first.get("/runs").json()["data"]] == [run_id]
    (run,) = first.get("/runs", params={"label": "eu"}).json()["data"]
    assert run["labels"] == ["eu"]
    key_id = run["key_id"]
    assert [run["id"] for run in auditor.get("/runs").json()["data"]] == [other, run_id]
    assert [run["id"] for run in auditor.get("/runs", params={"key": key_id}).json()["data"]] == [run_id]
    assert second.get("/runs", params={"key": key_id}).json()["error"]["code"] == "role_missing"
    for path in (f"/runs/{run_id}", f"/runs/{run_id}/events"):
        assert [client.get(path).status_code for client in (first, second, auditor)] == [200, 404, 200]


def test_a_run_is_followed_while_it_is_executed(served: Served, upstream: ChatServer) -> None:
    def slow(call: Call) -> Reply:
        return says(call, "the answer", delay=0.3) if call.body["model"] == "two" else team(call)

    upstream.reply = slow
    client = served.http()
    with client.stream(
        "POST", "/chat/completions", json={"model": "podium", "messages": ASKED, "stream": True}
    ) as chat:
        pieces = chat.iter_text()
        next(pieces)
        run_id = chat.headers["x-podium-run-id"]
        assert client.get(f"/runs/{run_id}").json()["status"] == "running"
        with served.http().stream("GET", f"/runs/{run_id}/events") as stream:
            for _ in pieces:
                pass
            last = list(frames("".join(stream.iter_text())))[-1]
    assert last["event"] == "run_ended"
