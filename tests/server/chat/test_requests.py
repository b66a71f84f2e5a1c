"""What a request may ask for, and what is refused."""

import json
import re
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, BODIES, PLAN, Serve, team
from servers.chat_server import ChatServer, says, whole
from servers.podium_server import Served


def test_the_answer_has_the_sampling_of_the_request(served: Served, upstream: ChatServer) -> None:
    asked: Any = {"temperature": 0.5, "top_p": 0.5, "max_completion_tokens": 77, "seed": 3, "stop": ["END"]}
    asked["response_format"] = {"type": "json_object"}
    served.client().chat.completions.create(model="podium", messages=ASKED, **asked)
    assert asked.items() <= upstream.calls[-1].body.items()
    assert "temperature" not in upstream.calls[1].body


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "not_schema"),
        ({"type": "object", "properties": {"a": {"enum": [1]}}, "additionalProperties": False}, None),
        ({"$ref": "https://example.com/schema"}, "not_checked"),
        ({"$ref": "#"}, "not_checked"),
    ],
    ids=["type", "good", "url", "loop"],
)
def test_a_schema(schema: Any, code: str | None, served: Served, upstream: ChatServer) -> None:
    """An answer that does not fit, or cannot be checked, is not `ok`; also in streams and Responses."""
    upstream.reply = lambda call: says(call, PLAN if call.body["model"] == "planner" else '{"a": 1}')
    client = served.client()
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    answer: Any = client.chat.completions.create(model="podium", messages=ASKED, response_format=form)
    assert answer.podium["status"] == ("ok" if code is None else "partial")
    assert (answer.podium["problem"] or {"code": None})["code"] == code
    asked: Any = {"model": "podium", "messages": ASKED, "response_format": form, "stream": True}
    *_, last = client.chat.completions.create(**asked)
    assert last.podium == {**answer.podium, "run_id": last.podium["run_id"]}
    text: Any = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    response: Any = client.responses.create(model="podium", input="Why?", text=text)
    assert response.podium["status"] == answer.podium["status"]


FIELDS: dict[str, dict[str, Any]] = {**BODIES, "runs": {"query": "Why?"}}
ORPHAN = {"role": "tool", "tool_call_id": "call_9", "content": "3"}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "call_9", "content": "3"}
OUTPUT = {"type": "function_call_output", "call_id": "call_9", "output": "3"}
PICTURE = {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
INVALID = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "colour"}}}
WRONG: list[tuple[str, dict[str, Any], str | None, str]] = [
    # the API, its fields, the `param` of the error, and what it says
    ("chat/completions", {"n": 2}, "n", "n must be 1"),
    ("chat/completions", {"temperature": 3}, "temperature", "temperature must be at most 2"),
    ("chat/completions", {"temperature": "hot"}, "temperature", "temperature must be a number"),
    ("chat/completions", {"messages": []}, "messages", "messages must not be empty"),
    ("chat/completions", {"messages": [*ASKED, {"role": "king", "content": "x"}]}, "messages[1]", "king"),
    ("chat/completions", {"messages": [*ASKED, ORPHAN]}, None, "'call_9'"),
    ("chat/completions", {"messages": [{**PICTURE, "role": "assistant"}, *ASKED]}, None, "image_url"),
    ("chat/completions", {"stop": ["a", 5]}, "stop[1]", "stop[1] must be a text"),
    ("chat/completions", {"tools": [{"type": "web_search"}]}, "tools[0]", "it must be a function"),
    ("chat/completions", {"tool_choice": "required"}, "tool_choice", "tool"),
    ("chat/completions", {"response_format": INVALID}, None, "the JSON schema of the answer is invalid"),
    ("chat/completions", {"reasoning_effort": "huge"}, "reasoning_effort", "must be 'none', 'minimal'"),
    ("responses", {"input": 5}, "input", "input must be a text or a list"),
    ("responses", {"input": [*ASKED, OUTPUT]}, None, "'call_9'"),
    ("runs", {"limits": {"cost": "x"}}, "limits.cost", "limits.cost must be a number"),
    ("runs", {"query": [*ASKED, ORPHAN]}, None, "'call_9'"),
    ("messages", {"thinking": {"type": "x"}}, None, "thinking.type must be 'enabled', 'adaptive' or"),
    ("messages", {"messages": [*ASKED, {"role": "user", "content": [TOOL_RESULT]}]}, None, "'call_9'"),
]


def test_a_wrong_field(served: Served, upstream: ChatServer) -> None:
    foreign = "Input should|valid (string|number|integer|list)|validation|pydantic|items after"
    with served.http() as client:
        for path, change, param, told in WRONG:
            answer = client.post(f"/{path}", json={"model": "podium", **FIELDS[path], **change})
            error = answer.json()["error"]
            assert (answer.status_code, error["type"]) == (400, "invalid_request_error"), change
            assert told in error["message"], error
            assert param is None or error["param"] == param
            assert not re.search(foreign, answer.text)
    assert not upstream.calls


def test_a_malformed_body(served: Served) -> None:
    cases = {
        b"": "the body is empty: send a JSON object",
        b'{"a":1,\n}': "the body is not JSON: the error is at line 2, column 1",
        b"[]": "the body is not a JSON object",
        b"[" * 100_000: "the body is not JSON",
    }
    for raw, told in cases.items():
        headers = {"content-type": "application/json"}
        answer = served.http().post("/chat/completions", content=raw, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
        assert told in answer.json()["error"]["message"]


def test_refused_requests(served: Served, upstream: ChatServer) -> None:
    named = [("idempotency-key", "a"), ("idempotency-key", "b")]
    cases: list[tuple[str, str, Any, int, str | None]] = [
        ("POST", "/chat/completions", {"content-type": "text/plain"}, 415, None),
        ("POST", "/chat/completions", {"host": "evil.example"}, 403, "host_not_allowed"),
        ("POST", "/chat/completions", named, 400, "invalid_idempotency_key"),
        ("POST", "/chat/completions", {"idempotency-key": ""}, 400, "invalid_idempotency_key"),
        ("POST", "/chat/completions", {"idempotency-key": "x" * 300}, 400, "invalid_idempotency_key"),
        ("GET", "/nothing", {}, 404, "unknown_url"),
        ("GET", "/chat/completions", {}, 405, "method_not_allowed"),
    ]
    content = json.dumps({"model": "podium", "messages": ASKED}).encode()
    for method, path, headers, status, code in cases:
        sent = [*dict(headers).items()] if isinstance(headers, dict) else headers
        kind = [] if "content-type" in dict(sent) else [("content-type", "application/json")]
        answer = httpx2.request(method, served.url + path, content=content, headers=[*kind, *sent])
        assert answer.status_code == status, answer.text
        assert code is None or answer.json()["error"]["code"] == code
    assert answer.headers["allow"] == "POST"
    assert not upstream.calls


@pytest.mark.parametrize("status", [401, 503])
def test_an_error_has_no_address(
    status: int, serve: Serve, upstream: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    said = {"error": {"message": f"see {upstream.url}/help or 127.0.0.1"}}
    upstream.reply = lambda call: team(call) if call.body["model"] != "two" else whole(said, status=status)
    client = serve(models="[retry]\nfirst_wait = 0.01\n").client()
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="podium", messages=ASKED)
    told = str(caught.value)
    assert "127.0.0.1" not in told
    assert f"step 1 (two): its server answered {status}" in told
    assert f"{upstream.url} answered {status}" in caplog.text
    upstream.reply = lambda _: whole(said, status=401)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="podium", messages=ASKED, stream=True)
    assert (caught.value.status_code, caught.value.code) == (502, "planner_refused")


def test_the_record_of_a_run_names_the_user(served: Served) -> None:
    """So that an audit finds who asked behind a gateway with one key."""
    named: dict[str, dict[str, Any]] = {
        "chat/completions": {"safety_identifier": "u-7", "user": "other"},
        "responses": {"user": "u-7"},
        "messages": {"metadata": {"user_id": "u-7"}},
    }
    client = served.http()
    for path, body in BODIES.items():
        answer = client.post(path, json={"model": "podium", **body, **named[path]})
        assert client.get(f"/runs/{answer.headers['x-podium-run-id']}").json()["user"] == "u-7"


@pytest.mark.long
@pytest.mark.parametrize("path", BODIES)
def test_the_key_of_a_run_that_waits(path: str, serve: Serve) -> None:
    """A key names the run, until it is decided; without a key, each request has a run of its own."""
    client = serve(models='[policy]\napprove = "later"\n').http()

    def ask(key: str | None) -> httpx2.Response:
        headers = {} if key is None else {"idempotency-key": key}
        return client.post(f"/{path}", json={"model": "podium", **FIELDS[path]}, headers=headers)

    def waiting(key: str | None) -> str:
        answer = ask(key)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (409, "waiting")
        assert answer.headers["x-should-retry"] == "false"
        run_id: str = answer.headers["x-podium-run-id"]
        assert f"/v1/runs/{run_id}/approve" in error["message"]
        return run_id

    first = waiting("a")
    assert waiting("a") == first
    assert len({first, waiting(None), waiting(None)}) == 3
    assert client.post(f"/runs/{first}/approve", json={}).is_success
    answer = ask("a")
    assert (answer.status_code, "the answer" in answer.text) == (200, True)
