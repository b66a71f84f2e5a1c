"""Questions of steps for persons: answered over HTTP, and continued at their deadlines."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from server.scene import ASKED, CONFIG, Serve, ended, post, start, team, until
from servers.chat_server import ChatServer, says
from servers.podium_server import serving

ANN = '[workers.ann]\ntype = "person"\n'
LATE = ANN + 'deadline = 1.5\notherwise = "no"\n'
ASK = {"worker": "ann", "subtask": "May we?"}
WRITE = {"worker": "two", "subtask": "Write it.", "access": [0]}


@pytest.fixture
def client(serve: Serve) -> httpx2.Client:
    return serve(models=ANN).http()


def test_a_typed_answer(client: httpx2.Client) -> None:
    """The only question needs no name; the answer must fit; the type may have its short form."""
    form = {"worker": "ann", "subtask": "Who?", "returns": {"name": "string", "tags": ["string"]}}
    run = ended(client, start(client, plan={"steps": [{**form, "returns": ["string"]}]})["id"])
    assert run["waits_for"]["actions"][0]["question"]["returns"]["type"] == "array"
    run = ended(client, start(client, plan={"steps": [form, WRITE]})["id"])
    assert run["status"] == "waiting"
    for body, told in (
        ({}, "give either `done` or `answer`"),
        ({"done": True}, "`done` needs `action`, its step"),
        (
            {"answer": "Ann"},
            "the answer to step 0 does not fit its JSON schema: $: 'Ann' is not of type 'object'",
        ),
    ):
        assert post(client, run["id"], "decide", 400, **body)["error"]["message"] == told
    post(client, run["id"], "decide", answer='{"name": "Ann", "tags": []}')
    run = ended(client, run["id"])
    assert run["status"] == "ok"
    assert post(client, run["id"], "decide", 409, answer="x")["error"]["code"] == "not_waiting"


def test_two_questions(client: httpx2.Client) -> None:
    run_id = start(client, plan={"steps": [ASK, ASK, {**WRITE, "access": [0, 1]}]})["id"]
    ended(client, run_id)
    assert "name one" in post(client, run_id, "decide", 409, answer="yes")["error"]["message"]
    assert client.post(f"/runs/{run_id}/decide", json={"answer": "yes", "action": 1}).status_code == 202
    run = ended(client, run_id)
    assert [each["step"] for each in run["waits_for"]["actions"]] == [0]
    post(client, run_id, "refuse", why="no idea")
    assert ended(client, run_id)["status"] == "partial"


def _chat(client: httpx2.Client) -> str:
    answer = client.post("/chat/completions", json={"model": "podium", "messages": ASKED})
    assert answer.json()["error"]["code"] == "waiting"
    return answer.headers["x-podium-run-id"]


def _run(client: httpx2.Client) -> str:
    return str(start(client)["id"])


def _response(client: httpx2.Client) -> str:
    body = {"model": "podium", "input": ASKED, "background": True}
    return str(client.post("/responses", json=body).json()["id"].removeprefix("resp_"))


@pytest.mark.long
@pytest.mark.parametrize("begin", [_chat, _run, _response])
def test_the_deadline(upstream: ChatServer, tmp_path: Path, begin: Callable[[httpx2.Client], str]) -> None:
    """A server continues the run, also after a restart, and only one of two; nobody else has to."""
    rows = "".join(json.dumps({"access": [], **step}) + "\n" for step in (ASK, WRITE))
    upstream.reply = lambda call: says(call, rows) if call.body["model"] == "planner" else team(call)
    text = CONFIG.format(url=upstream.url, models=LATE, server="")
    with serving(text, tmp_path) as first:
        client = first.http()
        run_id = begin(client)
        assert until(lambda: client.get(f"/runs/{run_id}").json().get("status") == "waiting")
    with serving(text, tmp_path) as second, serving(text, tmp_path) as third:
        client = second.http()
        assert until(lambda: client.get(f"/runs/{run_id}").json()["status"] == "ok")
        run = third.http().get(f"/runs/{run_id}").json()
    assert [step["text"] for step in run["rounds"][0]["steps"]] == ["no", "the answer"]
    assert [call.body["model"] for call in upstream.calls] == ["planner", "two"]
