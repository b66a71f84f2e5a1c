"""Runs in the background: they are started, approved, changed, cancelled, resumed, replayed and deleted."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from server.runs.test_runs import ask, frames
from server.scene import ASKED, Serve, called, ended, post, stalled, start, team, until
from servers.chat_server import ChatServer
from servers.podium_server import Served

STEPS = [{"worker": "one", "subtask": "Collect facts."}, {"worker": 1, "subtask": "Write it.", "access": [0]}]
APPROVAL = '\n[policy]\napprove = "later"\n'


def test_a_run_of_a_plan(served: Served, upstream: ChatServer) -> None:
    client = served.http()
    run = ended(client, start(client, query="Why?", plan={"steps": STEPS})["id"])
    assert (run["status"], {*called(upstream)}) == ("ok", {"one", "two"})
    again = ended(client, start(client, query="Why?", plan=run["rounds"][0]["plan"])["id"])
    assert again["rounds"][0]["plan"]["steps"] == run["rounds"][0]["plan"]["steps"]


INVALID: list[tuple[dict[str, Any], int, str]] = [
    ({"model": "none"}, 404, "model_not_found"),
    ({"query": ""}, 400, "query"),
    ({"query": [{"role": "assistant", "content": "no question"}]}, 400, "query"),
    ({"plan": {"steps": []}}, 400, "invalid_request"),
    ({"plan": {"steps": [{"worker": "none", "subtask": "Do."}]}}, 400, "unknown_worker"),
    ({"plan": {"steps": [{"worker": 9, "subtask": "Do."}]}}, 400, "unknown_worker"),
    ({"plan": {"steps": [{"worker": 0, "subtask": "Do.", "access": [0]}]}}, 400, "forward_access"),
    ({"plan": {"steps": STEPS, "schema": 7}}, 400, "unknown_schema"),
    ({"limits": {"steps": 1000}}, 400, "invalid_request"),
    ({"limits": {"stepz": 1}}, 400, "invalid_request"),
    ({"context": {"not a name": "x"}}, 400, "config"),
    ({"background": True}, 400, "unknown_parameter"),
]


def test_an_invalid_run_is_refused(keyed: Served, upstream: ChatServer) -> None:
    client = keyed.http(keyed.key())
    for change, status, code in INVALID:
        answer = client.post("/runs", json={"model": "podium", "query": "Why?", **change})
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert (client.get("/runs").json()["data"], upstream.calls) == ([], [])


def test_limits_above_those_of_the_key(keyed: Served) -> None:
    for rules, bound in (({"day_cost": 2.0, "run_cost": 0.25}, "0.25"), ({"day_cost": 0.2}, "0.2")):
        client = keyed.http(keyed.key(**rules))
        answer = client.post("/runs", json={"model": "podium", "query": "Why?", "limits": {"cost": 99999}})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_request", "limits.cost")
        assert error["message"].endswith(f"the model and the API key allow at most {bound}")
        assert client.get("/runs").json()["data"] == []


def test_a_plan_is_approved(serve: Serve) -> None:
    client = serve(models=APPROVAL).http()
    run_id = start(client)["id"]
    run = ended(client, run_id)
    assert (run["status"], run["waits_for"]["plan"]["steps"][0]["subtask"]) == ("waiting", "Collect facts.")
    last = list(frames(client.get(f"/runs/{run_id}/events").text))[-1]["data"]
    assert (last["type"], last["result"]["status"]) == ("run_ended", "waiting")
    post(client, run_id, "approve", why="It is fine.")
    run = ended(client, run_id)
    assert (run["status"], run["answer"], run["waits_for"]) == ("ok", "the answer", None)
    told = frames(client.get(f"/runs/{run_id}/events").text)
    given = [frame["data"] for frame in told if frame["event"] == "approval_given"]
    assert [(each["approved"], each["by"], each["why"]) for each in given] == [(True, "local", "It is fine.")]
    assert post(client, run_id, "approve", 409)["error"]["code"] == "not_waiting"


def test_a_plan_is_edited_or_refused(serve: Serve) -> None:
    client = serve(models=APPROVAL).http()
    run_id, other = start(client)["id"], start(client)["id"]
    plan = ended(client, run_id)["waits_for"]["plan"]
    refused = post(client, run_id, "edit", 400, plan={"steps": [{"worker": "none", "subtask": "Do."}]})
    assert refused["error"]["code"] == "unknown_worker"
    refused = post(client, run_id, "edit", 400, plan={"steps": [{**plan["steps"][0], "each": 300}]})
    assert "Limits.items allows" in refused["error"]["message"]
    plan["steps"][0]["subtask"] = "Collect other facts."
    post(client, run_id, "edit", plan=plan)
    run = ended(client, run_id)
    assert (run["status"], run["rounds"][0]["plan"]["steps"][0]["subtask"]) == ("ok", "Collect other facts.")
    ended(client, other)
    post(client, other, "refuse", why="Too expensive.")
    run = ended(client, other)
    assert (run["status"], run["problem"]["code"]) == ("failed", "refused")
    assert "Too expensive." in run["problem"]["message"]


def test_a_run_is_cancelled_and_resumed(served: Served, upstream: ChatServer) -> None:
    upstream.reply = stalled
    client = served.http()
    run_id = start(client)["id"]
    assert until(lambda: "two" in called(upstream))
    assert post(client, run_id, "cancel", 200)["status"] == "stopped"
    last = list(frames(client.get(f"/runs/{run_id}/events").text))[-1]["data"]
    assert (last["type"], last["problem"]["code"]) == ("run_stopped", "cancelled")
    upstream.reply = team
    assert post(client, run_id, "cancel", 200)["status"] == "stopped"
    post(client, run_id, "resume")
    run = ended(client, run_id)
    assert (run["status"], run["answer"]) == ("ok", "the answer")
    assert called(upstream) == ["planner", "one", "two", "two"]
    assert post(client, run_id, "resume")["status"] == "ok"


def test_a_run_is_replayed(served: Served, upstream: ChatServer) -> None:
    client = served.http()
    run_id = ask(client)
    again = ended(client, post(client, run_id, "replay")["id"])
    assert (again["answer"], again["recalls"], again["cost"]) == ("the answer", run_id, 0)
    plan = again["rounds"][0]["plan"]
    plan["steps"][1]["subtask"] = "Write a poem."
    changed = ended(client, post(client, run_id, "replay", plan=plan)["id"])
    assert (changed["status"], called(upstream)) == ("ok", ["planner", "one", "two", "two"])


def test_only_the_plan_is_made(serve: Serve, upstream: ChatServer) -> None:
    client = serve().http()
    run = ended(client, start(client, only_plans=True)["id"])
    assert run["status"] == "waiting"
    told = post(client, run["id"], "forecast", 200)
    assert told["plan"]["calls"]["low"] == 2 <= told["plan"]["calls"]["high"]
    assert 0 < told["plan"]["cost"]["low"] < told["plan"]["cost"]["high"]
    assert told["plan"]["guessed"] == ["one", "two"]
    assert (told["resumed"]["results"], told["resumed"]["calls"]) == (0, 2)
    steps = run["rounds"][0]["plan"]["steps"]
    cheap = post(client, run["id"], "forecast", 200, plan={"steps": steps[:1]})
    assert cheap["plan"]["cost"]["likely"] < told["plan"]["cost"]["likely"]
    wrong = {"steps": [{**steps[0], "access": [3]}]}
    assert post(client, run["id"], "forecast", 400, plan=wrong)["error"]["code"] == "forward_access"
    assert called(upstream) == ["planner"]
    post(client, run["id"], "approve")
    assert ended(client, run["id"])["status"] == "ok"
    steps[1]["subtask"] = "Write a poem."
    kept = post(client, run["id"], "forecast", 200, plan={"steps": steps})["resumed"]
    assert (kept["results"], kept["calls"]) == (1, 1)


def test_a_run_is_deleted(served: Served, upstream: ChatServer) -> None:
    client = served.http()
    run_id = ask(client)
    assert client.delete(f"/runs/{run_id}").json() == {"id": run_id, "object": "run", "deleted": True}
    assert client.get(f"/runs/{run_id}").status_code == 404
    upstream.reply = stalled
    run_id = start(client)["id"]
    assert client.delete(f"/runs/{run_id}").json()["error"]["code"] == "run_held"
    post(client, run_id, "cancel", 200)


def test_keys_change_their_own_runs(keyed: Served, upstream: ChatServer) -> None:
    """The role `see` sees and replays; `admin` cancels and resumes; the owner pays."""
    upstream.reply = stalled
    owner, other = keyed.http(keyed.key(labels=("eu",), day_cost=10.0)), keyed.http(keyed.key())
    auditor, admin = keyed.http(keyed.key(role="approve")), keyed.http(keyed.key(role="admin"))
    run_id = (run := start(owner))["id"]
    assert run["labels"] == ["eu"]
    assert post(other, run_id, "cancel", 404)["error"]["code"] == "run_unknown"
    assert post(auditor, run_id, "cancel", 403)["error"]["code"] == "role_missing"
    assert post(admin, run_id, "cancel", 200)["status"] == "stopped"
    upstream.reply = team
    for client, status in ((other, 404), (auditor, 403), (admin, 202)):
        post(client, run_id, "resume", status)
    assert ended(owner, run_id)["status"] == "ok"
    (listed,) = admin.get("/runs", params={"key": run["key_id"]}).json()["data"]
    assert listed["id"] == run_id
    assert post(auditor, run_id, "replay")["key_id"] != run["key_id"]


def test_the_run_of_an_open_request_is_cancelled(served: Served, upstream: ChatServer) -> None:
    """The client gets an error, the call of the worker is closed, and the run can be resumed."""
    upstream.reply = stalled
    client, body = served.http(), {"model": "podium", "messages": ASKED}
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(served.http().post, "/chat/completions", json=body)
        assert until(lambda: len(upstream.calls) == 3)
        run_id = client.get("/runs?status=running").json()["data"][0]["id"]
        assert post(client, run_id, "cancel", 200)["status"] == "stopped"
        answer = asked.result(20)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_cancelled")
    assert client.get(f"/runs/{run_id}").json()["cost"] > 2 * (211 * 1.0 + 7 * 2.0) / 1e6
    assert until(upstream.calls[-1].hung_up.is_set)
    upstream.reply = team
    post(client, run_id, "resume")
    assert ended(client, run_id)["answer"] == "the answer"


ANN = '[workers.ann]\ntype = "person"\n'
ASK = {"worker": "ann", "subtask": "May we?"}
WRITE = {"worker": "two", "subtask": "Write it.", "access": [0]}


def test_answers(serve: Serve) -> None:
    """The only question needs no name; the answer must fit; the type may have its short form."""
    client = serve(models=ANN).http()
    form = {"worker": "ann", "subtask": "Who?", "returns": {"name": "string", "tags": ["string"]}}
    run = ended(client, start(client, plan={"steps": [{**form, "returns": ["string"]}]})["id"])
    assert run["waits_for"]["actions"][0]["question"]["returns"]["type"] == "array"
    run = ended(client, start(client, plan={"steps": [form, WRITE]})["id"])
    assert run["status"] == "waiting"
    misfit = "the answer to step 0 does not fit its JSON schema: $: 'Ann' is not of type 'object'"
    for body, told in (
        ({}, "give either `done` or `answer`"),
        ({"done": True}, "`done` needs `action`, its step"),
        ({"answer": "Ann"}, misfit),
    ):
        assert post(client, run["id"], "decide", 400, **body)["error"]["message"] == told
    post(client, run["id"], "decide", answer='{"name": "Ann", "tags": []}')
    assert ended(client, run["id"])["status"] == "ok"
    assert post(client, run["id"], "decide", 409, answer="x")["error"]["code"] == "not_waiting"
    run_id = start(client, plan={"steps": [ASK, ASK, {**WRITE, "access": [0, 1]}]})["id"]
    ended(client, run_id)
    assert "name one" in post(client, run_id, "decide", 409, answer="yes")["error"]["message"]
    assert client.post(f"/runs/{run_id}/decide", json={"answer": "yes", "action": 1}).status_code == 202
    run = ended(client, run_id)
    assert [each["step"] for each in run["waits_for"]["actions"]] == [0]
    post(client, run_id, "refuse", why="no idea")
    assert ended(client, run_id)["status"] == "partial"
