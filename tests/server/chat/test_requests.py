"""What a request may ask for, and what is refused."""

import json
import re
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, PLAN, Serve, team
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served

ARRAY = {"type": "array"}


def test_the_answer_has_the_sampling_of_the_request(served: Served, upstream: ChatServer) -> None:
    """Only the worker of the answer gets it."""
    served.client().chat.completions.create(
        model="podium",
        messages=ASKED,
        temperature=0.5,
        top_p=0.5,
        max_completion_tokens=77,
        seed=3,
        stop=["END"],
        response_format={"type": "json_object"},
    )
    last = upstream.calls[-1].body
    assert (last["temperature"], last["top_p"], last["seed"], last["stop"]) == (0.5, 0.5, 3, ["END"])
    assert (last["max_completion_tokens"], last["response_format"]) == (77, {"type": "json_object"})
    assert "temperature" not in upstream.calls[1].body


BOMB = {
    "$defs": {
        **{
            f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
            for n in range(40)
        },
        "d40": True,
    },
    "$ref": "#/$defs/d0",
}


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "not_schema"),
        ({"type": "object", "properties": {"a": {"enum": [1]}}, "additionalProperties": False}, None),
        ({"properties": {"a": {"pattern": "(x+)+$"}}, "patternProperties": {"(x+)+$": False}}, None),
        ({"$ref": "https://example.com/schema"}, "not_checked"),
        ({"$ref": "#"}, "not_checked"),
        (BOMB, "not_checked"),
    ],
    ids=["type", "good", "patterns", "url", "loop", "bomb"],
)
def test_an_answer_is_checked_with_its_schema(
    schema: Any, code: str | None, served: Served, upstream: ChatServer
) -> None:
    """An answer that does not fit, or cannot be checked, is not `ok`; also in streams and Responses."""
    upstream.reply = lambda call: says(call, PLAN if call.body["model"] == "planner" else '{"a": 1}')
    client = served.client()
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    answer: Any = client.chat.completions.create(model="podium", messages=ASKED, response_format=form)
    assert answer.podium["status"] == ("ok" if code is None else "partial")
    assert (answer.podium["problem"] or {"code": None})["code"] == code
    *_, last = client.chat.completions.create(
        model="podium", messages=ASKED, response_format=form, stream=True
    )
    assert last.podium == {**answer.podium, "run_id": last.podium["run_id"]}  # type: ignore[attr-defined]
    text: Any = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    response: Any = client.responses.create(model="podium", input="Why?", text=text)
    assert response.podium["status"] == answer.podium["status"]


@pytest.mark.parametrize(
    ("path", "asked", "end"),
    [
        (
            "/chat/completions",
            {"messages": ASKED, "response_format": {"type": "json_schema", "json_schema": {"schema": ARRAY}}},
            {"finish_reason": "stop"},
        ),
        (
            "/messages",
            {
                "messages": ASKED,
                "max_tokens": 99,
                "output_config": {"format": {"type": "json_schema", "schema": ARRAY}},
            },
            {"stop_reason": "end_turn"},
        ),
        (
            "/responses",
            {"input": "Why?", "text": {"format": {"type": "json_schema", "name": "n", "schema": ARRAY}}},
            {"status": "completed", "incomplete_details": None},
        ),
    ],
)
def test_an_answer_of_another_form_ends_as_it_was_written(
    path: str, asked: Any, end: Any, served: Served
) -> None:
    """In a stream and without: the text ended by itself, so clients read it; `podium` has its problem."""
    body = {"model": "podium", **asked}
    whole_answer = httpx2.post(served.url + path, json=body, timeout=20).json()
    text = httpx2.post(served.url + path, json={**body, "stream": True}, timeout=20).text
    datas = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    last = next(data for data in reversed(datas) if "podium" in data or "podium" in data.get("response", {}))
    last = last.get("response", last)
    facts: Any = (whole_answer, whole_answer.get("choices", [{}])[0])
    streamed: Any = (last, last.get("delta", {}), last.get("choices", [{}])[0])
    for name, value in end.items():
        assert next(each[name] for each in facts if name in each) == value
        assert next(each[name] for each in streamed if name in each) == value
    for podium in (whole_answer["podium"], last["podium"]):
        assert (podium["status"], podium["problem"]["code"]) == ("partial", "not_json")


def test_a_cut_answer(served: Served, upstream: ChatServer) -> None:
    """Its finish reason is `length`, and its status partial, also in a stream."""

    def reply(call: Call) -> Reply:
        is_last = call.body["model"] == "two"
        return says(call, "half", finish_reason="length") if is_last else team(call)

    upstream.reply = reply
    answer = served.client().chat.completions.create(model="podium", messages=ASKED)
    assert answer.choices[0].finish_reason == "length"
    assert answer.podium["status"] == "partial"  # type: ignore[attr-defined]
    *_, last = served.client().chat.completions.create(model="podium", messages=ASKED, stream=True)
    assert last.choices[0].finish_reason == "length"
    assert last.podium["problem"]["code"] == "cut"  # type: ignore[attr-defined]


def test_an_error_in_a_stream(serve: Serve, upstream: ChatServer) -> None:
    """After the stream has begun, the client gets the error as an event, with its code."""

    def reply(call: Call) -> Reply:
        if call.body["model"] == "two":
            return says(call, "", finish_reason="content_filter")
        return team(call)

    upstream.reply = reply
    stream = serve().client().chat.completions.create(model="podium", messages=ASKED, stream=True)
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code is not None


FIELDS: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": ASKED},
    "responses": {"input": "Why?"},
    "runs": {"query": "Why?"},
    "messages": {"messages": ASKED, "max_tokens": 9},
}
"""The fields that each API needs."""
ORPHAN = {"role": "tool", "tool_call_id": "call_9", "content": "3"}
TOOL_RESULT = {"type": "tool_result", "tool_use_id": "call_9", "content": "3"}
OUTPUT = {"type": "function_call_output", "call_id": "call_9", "output": "3"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
INVALID = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "colour"}}}
WRONG: list[tuple[str, dict[str, Any], str | None, str]] = [
    # the API, its fields, the `param` of the error, and what it says
    ("chat/completions", {"n": 2}, "n", "n must be 1"),
    ("chat/completions", {"logprobs": True}, "logprobs", "logprobs must be false"),
    ("chat/completions", {"temperature": 3}, "temperature", "temperature must be at most 2"),
    ("chat/completions", {"temperature": "hot"}, "temperature", "temperature must be a number"),
    ("chat/completions", {"max_tokens": 0}, "max_tokens", "max_tokens must be greater than 0"),
    ("chat/completions", {"model": ""}, "model", "model must not be empty"),
    ("chat/completions", {"messages": []}, "messages", "messages must not be empty"),
    ("chat/completions", {"messages": 5}, "messages", "messages must be a list"),
    ("chat/completions", {"messages": [*ASKED, {"role": "king", "content": "x"}]}, "messages[1]", "king"),
    ("chat/completions", {"messages": [*ASKED, ORPHAN]}, None, "'call_9'"),
    ("chat/completions", {"messages": [*ASKED, {"role": "tool", "content": "3"}]}, None, "tool_call_id"),
    (
        "chat/completions",
        {"messages": [{"role": "assistant", "content": [IMAGE]}, *ASKED]},
        None,
        "image_url",
    ),
    ("chat/completions", {"stop": ["a", 5]}, "stop[1]", "stop[1] must be a text"),
    ("chat/completions", {"stop": ["a"] * 99}, "stop", "stop must have at most 16 entries"),
    ("chat/completions", {"tools": [{"type": "web_search"}]}, "tools[0]", "it must be a function"),
    ("chat/completions", {"tool_choice": "required"}, "tool_choice", "tool"),
    ("chat/completions", {"response_format": INVALID}, None, "the JSON schema of the answer is invalid"),
    ("chat/completions", {"reasoning_effort": "huge"}, "reasoning_effort", "must be 'none', 'minimal'"),
    ("chat/completions", {"stream_options": {"a": 1}}, "stream_options.a", "stream_options.a is not a"),
    ("responses", {"input": 5}, "input", "input must be a text or a list"),
    ("responses", {"truncation": "x"}, "truncation", "truncation must be 'auto' or 'disabled'"),
    ("responses", {"input": [*ASKED, OUTPUT]}, None, "'call_9'"),
    ("runs", {"limits": {"cost": "x"}}, "limits.cost", "limits.cost must be a number"),
    ("runs", {"query": [*ASKED, ORPHAN]}, None, "'call_9'"),
    ("messages", {"thinking": {"type": "x"}}, None, "thinking.type must be 'enabled', 'adaptive' or"),
    ("messages", {"messages": [*ASKED, {"role": "user", "content": [TOOL_RESULT]}]}, None, "'call_9'"),
]


LIBRARY = "Input should|valid (string|number|integer|list)|validation|pydantic|items after"


def test_a_wrong_field(served: Served, upstream: ChatServer) -> None:
    """It is refused before a call; the error says what the field must be, in no words of a library."""
    with served.http() as client:
        for path, change, param, told in WRONG:
            answer = client.post(f"/{path}", json={"model": "podium", **FIELDS[path], **change})
            error = answer.json()["error"]
            assert (answer.status_code, error["type"]) == (400, "invalid_request_error"), change
            assert told in error["message"], error
            assert param is None or error["param"] == param
            assert not re.search(
                "Input should|valid (string|number|integer|list)|validation|pydantic|items after", answer.text
            )
    assert not upstream.calls


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "the body is empty: send a JSON object"),
        (b'{"a":1,\n}', "the body is not JSON: the error is at line 2, column 1"),
        (b"\xff", "the body is not JSON: the error is at line 1, column 1"),
        (b"[]", "the body is not a JSON object"),
        (b"[" * 100_000, "the body is not JSON"),
        (b'{"model": NaN}', "model must be a text"),
        (b'{"model": 1e999}', ""),
    ],
    ids=["empty", "cut", "bytes", "list", "deep", "NaN", "large number"],
)
def test_a_malformed_body(raw: bytes, told: str, served: Served) -> None:
    """The error says where it is wrong."""
    headers = {"content-type": "application/json"}
    answer = httpx2.post(f"{served.url}/chat/completions", content=raw, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert told in answer.json()["error"]["message"]


def test_refused_requests(served: Served, upstream: ChatServer) -> None:
    """What a web page could send from this machine, and unclear idempotency keys and paths."""
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
    """It names the worker and the code; the log has the address. An error of the planner is not streamed."""
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
