"""The list of runs, one run, its events, and sums by day and worker."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, both, ended, post, slowly, start, team
from servers.chat_server import Call, ChatServer, Reply, whole
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
    assert (run["answer"], run["query"], run["problem"]) == ("the answer", ASKED, None)
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


def test_a_failed_run_has_its_problem(served: Served, upstream: ChatServer) -> None:
    refusal = whole({}, status=400)
    upstream.reply = lambda call: refusal if call.body["model"] == "two" else team(call)
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
    upstream.reply, client = slowly, served.http()
    body = {"model": "podium", "messages": ASKED, "stream": True}
    with client.stream("POST", "/chat/completions", json=body) as chat:
        pieces = chat.iter_text()
        next(pieces)
        run_id = chat.headers["x-podium-run-id"]
        assert client.get(f"/runs/{run_id}").json()["status"] == "running"
        with served.http().stream("GET", f"/runs/{run_id}/events") as stream:
            for _ in pieces:
                pass
            last = list(frames("".join(stream.iter_text())))[-1]
    assert last["event"] == "run_ended"


RETRY = "\n[retry]\nfirst_wait = 0.01\nattempts = 2\n"


def by_worker(runs: list[Any]) -> dict[str, float]:
    costs = Counter[str]()
    for run in runs:
        costs.update(run["cost_by_worker"])
        costs.update({bill["planner"]: bill["cost"] for each in run["rounds"] for bill in each["proposals"]})
    return {name: round(cost, 9) for name, cost in costs.items() if cost}


def summed(client: httpx2.Client, **query: Any) -> Any:
    return client.get("/sums", params=query).raise_for_status().json()


@both
def test_sums_are_those_of_the_runs(url: str, serve: Serve, upstream: ChatServer) -> None:
    keyed, failing = serve(keys=True, models=RETRY, url=url), ["two"]

    def reply(call: Call) -> Reply:
        name = call.body["model"]
        if name in failing:
            failing.remove(name)
            return whole({}, status=503)
        return team(call)

    upstream.reply = reply
    client, other = keyed.http(keyed.key(role="see")), keyed.http(keyed.key())
    ids = [start(client)["id"]]
    assert ended(client, ids[0])["status"] == "ok"
    failing += ["two", "two"]
    ids.append(start(client)["id"])
    failed = ended(client, ids[1])
    assert failed["status"] == "failed"
    plan = failed["rounds"][0]["plan"]
    plan["steps"][1]["subtask"] = "Write something else."
    post(client, ids[1], "resume", plan=plan)
    assert ended(client, ids[1])["status"] == "ok"
    ids.append(post(client, ids[1], "replay", step=1)["id"])
    assert ended(client, ids[2])["status"] == "ok"
    theirs = start(other)["id"]
    ended(other, theirs)
    everything = summed(client)
    runs = [client.get(f"/runs/{each}").json() for each in (*ids, theirs)]
    made = {row["worker"]: round(row["cost"], 9) for row in everything["workers"]}
    assert made == by_worker(runs)
    today = datetime.fromtimestamp(runs[0]["created"], UTC).date().isoformat()
    (day,) = everything["days"]
    assert (day["day"], day["runs"], day["unknown"]) == (today, 4, 0)
    assert day["cost"] == pytest.approx(sum(run["cost"] for run in runs))
    calls = {row["worker"]: row["calls"] for row in everything["workers"]}
    assert calls == {"one": 3, "two": 7, "planner": 3}
    assert [row["role"] for row in everything["workers"]] == ["planner", "worker", "worker"]
    tokens = sum(run["usage"]["input_tokens"] + run["usage"]["orchestration_input_tokens"] for run in runs)
    assert sum(row["input_tokens"] for row in everything["workers"]) == tokens
    assert all(0 < row["timed"] <= row["calls"] and row["seconds"] > 0 for row in everything["workers"])
    own = {row["worker"]: round(row["cost"], 9) for row in summed(other)["workers"]}
    assert own == by_worker(runs[3:])
    assert summed(client, model="podium")["days"] == everything["days"]
    later = max(run["created"] for run in runs) + 86400.0
    for nothing in ({"model": "mini"}, {"since": later, "until": later + 1}):
        assert summed(client, **nothing)["workers"] == []
    for query in ({"key": runs[0]["key_id"]}, {"since": 0, "until": 1e9}):
        assert other.get("/sums", params=query).status_code == 400
