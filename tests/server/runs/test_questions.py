"""Questions of steps for persons: answered over HTTP, and continued at their deadlines."""

import httpx2
import pytest
from server.scene import Serve, ended, post, start

ANN = '[workers.ann]\ntype = "person"\n'
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
