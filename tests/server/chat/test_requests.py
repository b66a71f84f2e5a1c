"""What a request may ask for, and what is refused."""

import json
import re
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, PLAN, team
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served

ARRAY = {"type": "array"}
FIELDS: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": ASKED},
    "responses": {"input": "Why?"},
    "runs": {"query": "Why?"},
    "messages": {"messages": ASKED, "max_tokens": 9},
}
"""The fields that each API needs."""


def post(served: Served, body: object, **headers: str) -> httpx2.Response:
    """Send a body as it is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"content-type": "application/json", **{name.replace("_", "-"): v for name, v in headers.items()}}
    return httpx2.post(f"{served.url}/chat/completions", content=content, headers=sent, timeout=20)


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
    )
    last = upstream.calls[-1].body
    assert (last["temperature"], last["top_p"], last["seed"], last["stop"]) == (0.5, 0.5, 3, ["END"])
    assert last["max_completion_tokens"] == 77
    assert "temperature" not in upstream.calls[1].body


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"required": ["a"]}}},
            {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"required": ["a"]}, "strict": True},
            },
        ),
    ],
)
def test_json(given: Any, sent: Any, served: Served, upstream: ChatServer) -> None:
    """The format reaches the worker of the answer; an answer in another form says so."""
    upstream.reply = lambda call: says(call, PLAN if call.body["model"] == "planner" else '{"a": 1}')
    client = served.client()
    raw = client.chat.completions.with_raw_response.create(
        model="podium", messages=ASKED, response_format=given
    )
    assert raw.headers["x-podium-status"] == "ok"
    assert upstream.calls[-1].body["response_format"] == sent
    upstream.reply = team
    raw = client.chat.completions.with_raw_response.create(
        model="podium", messages=ASKED, response_format=given
    )
    assert raw.headers["x-podium-status"] == "partial"
    assert raw.parse().podium["problem"]["code"] == "not_json"  # type: ignore[attr-defined]


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
        ({"type": "object", "required": ["b"]}, "not_schema"),
        ({"type": "object", "properties": {"a": {"enum": [1]}}, "additionalProperties": False}, None),
        ({"properties": {"a": {"pattern": "(x+)+$"}}, "patternProperties": {"(x+)+$": False}}, None),
        ({"$ref": "https://example.com/schema"}, "not_checked"),
        ({"$ref": "#"}, "not_checked"),
        (BOMB, "not_checked"),
    ],
    ids=["type", "required", "good", "patterns", "url", "loop", "bomb"],
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


def test_an_invalid_schema(served: Served, upstream: ChatServer) -> None:
    """It is refused before anything is spent."""
    form: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "colour"}}}
    with pytest.raises(openai.BadRequestError, match="the JSON schema of the answer is invalid"):
        served.client().chat.completions.create(model="podium", messages=ASKED, response_format=form)
    assert not upstream.calls


@pytest.mark.parametrize("status", [401, 404, 503])
def test_an_error_has_no_address(
    status: int, served: Served, upstream: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the worker and the code; the log has the address."""
    said = {"error": {"message": f"see {upstream.url}/help or 127.0.0.1"}}
    upstream.reply = lambda call: team(call) if call.body["model"] != "two" else whole(said, status=status)
    with pytest.raises(openai.APIStatusError) as caught:
        served.client().chat.completions.create(model="podium", messages=ASKED)
    told = str(caught.value)
    assert "127.0.0.1" not in told
    assert f"step 1 (two): its server answered {status}" in told
    assert f"{upstream.url} answered {status}" in caplog.text


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


def test_content_parts(served: Served, upstream: ChatServer) -> None:
    """Text parts are read; a picture that no worker can see is refused, before a model is called."""
    parts: Any = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    with pytest.raises(openai.BadRequestError, match="no worker can be shown it") as caught:
        served.client().chat.completions.create(model="podium", messages=[{"role": "user", "content": parts}])
    assert caught.value.code == "query"
    assert not upstream.calls
    served.client().chat.completions.create(model="podium", messages=[{"role": "user", "content": parts[:1]}])
    assert "What is this?" in str(upstream.calls[-1].body["messages"])


def test_parallel_calls(served: Served, upstream: ChatServer) -> None:
    """All calls are returned; with `parallel_tool_calls` false, only the first."""
    tools: Any = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "add", "arguments": "{}"}} for n in (1, 2)
    ]

    def reply(call: Call) -> Reply:
        if call.body["model"] != "two":
            return team(call)
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")

    upstream.reply = reply
    client = served.client()
    stream = client.chat.completions.create(model="podium", messages=ASKED, tools=tools, stream=True)
    deltas = [chunk.choices[0].delta for chunk in stream]
    found = [(call.index, call.id) for delta in deltas for call in delta.tool_calls or ()]
    assert found == [(0, "c1"), (1, "c2")]
    one = client.chat.completions.create(
        model="podium", messages=ASKED, tools=tools, parallel_tool_calls=False
    )
    assert [call.id for call in one.choices[0].message.tool_calls or ()] == ["c1"]


def test_a_required_call_that_is_missing(served: Served) -> None:
    """It is an error, not an answer without a call."""
    tools: Any = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    with pytest.raises(openai.APIStatusError) as caught:
        served.client().chat.completions.create(
            model="podium", messages=ASKED, tools=tools, tool_choice="required"
        )
    assert caught.value.status_code == 502


@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"n": 2}, "invalid_request", "n"),
        ({"frequency_penalty": 0.5}, "invalid_request", "frequency_penalty"),
        ({"logprobs": True}, "invalid_request", "logprobs"),
        ({"temperature": 3}, "invalid_request", "temperature"),
        ({"temperature": "hot"}, "invalid_request", "temperature"),
        ({"max_tokens": 0}, "invalid_request", "max_tokens"),
        ({"colour": "red"}, "unknown_parameter", "colour"),
        ({"messages": []}, "invalid_request", "messages"),
        ({"messages": "hello"}, "invalid_request", "messages"),
        ({"messages": [*ASKED, {"role": "king", "content": "x"}]}, "query", "messages[1]"),
        ({"messages": [{"role": "user", "content": ""}]}, "query", None),
        ({"messages": [{"role": "user", "content": 5}]}, "query", "messages[0]"),
        ({"model": ""}, "invalid_request", "model"),
        ({"tools": [{"type": "web_search"}]}, "invalid_request", "tools[0]"),
        ({"tool_choice": "required"}, "invalid_request", "tool_choice"),
        ({"response_format": {"type": "xml"}}, "invalid_request", "response_format"),
        ({"stream_options": {"include_usage": True}}, "invalid_request", "stream_options"),
        ({"reasoning_effort": "huge"}, "invalid_request", "reasoning_effort"),
        ({"stop": [1]}, "invalid_request", None),
    ],
)
def test_a_wrong_field(change: Any, code: str, param: str | None, served: Served) -> None:
    """A 400 in OpenAI's form names the field."""
    answer = post(served, {"model": "podium", "messages": ASKED, **change})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert (error["code"], error["param"] if param else None) == (code, param)
    assert error["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"model": NaN}', b'{"model": 1e999}']
)
def test_a_body_that_is_no_request(body: bytes, served: Served) -> None:
    """A 400, whatever the bytes are."""
    answer = post(served, body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"


def test_a_body_of_another_type(served: Served) -> None:
    """A web page could send it from a browser of this machine."""
    answer = post(served, {"model": "podium", "messages": ASKED}, content_type="text/plain")
    assert answer.status_code == 415


def test_a_request_to_another_name(served: Served) -> None:
    """A web page could point its name at this machine."""
    answer = post(served, {"model": "podium", "messages": ASKED}, host="evil.example")
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "host_not_allowed"


def test_other_paths_and_methods(served: Served) -> None:
    """They are errors in OpenAI's form."""
    assert httpx2.get(f"{served.url}/nothing").json()["error"]["code"] == "unknown_url"
    answer = httpx2.get(f"{served.url}/chat/completions")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    error = answer.json()["error"]
    assert (error["code"], error["type"]) == ("method_not_allowed", "invalid_request_error")


def test_health(served: Served) -> None:
    """The process lives, and the journal works."""
    assert httpx2.get(f"{served.root}/healthz").json() == {"status": "ok"}
    assert httpx2.get(f"{served.root}/readyz").json() == {"status": "ok"}


def test_an_error_in_a_stream(serve: Callable[..., Served], upstream: ChatServer) -> None:
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


def test_an_error_before_the_stream(serve: Callable[..., Served], upstream: ChatServer) -> None:
    """It is an HTTP error."""
    upstream.reply = lambda _: whole({"error": {"message": "bad key"}}, status=401)
    with pytest.raises(openai.APIStatusError) as caught:
        serve().client().chat.completions.create(model="podium", messages=ASKED, stream=True)
    assert caught.value.status_code == 502
    assert caught.value.code == "planner_refused"


ORPHANS: list[tuple[str, dict[str, Any]]] = [
    ("/chat/completions", {"messages": [*ASKED, {"role": "tool", "tool_call_id": "call_9", "content": "3"}]}),
    ("/runs", {"query": [*ASKED, {"role": "tool", "tool_call_id": "call_9", "content": "3"}]}),
    (
        "/messages",
        {
            "max_tokens": 9,
            "messages": [
                *ASKED,
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "call_9", "content": "3"}],
                },
            ],
        },
    ),
    (
        "/responses",
        {
            "input": [
                {"role": "user", "content": "Why?"},
                {"type": "function_call_output", "call_id": "call_9", "output": "3"},
            ]
        },
    ),
]


@pytest.mark.parametrize(("path", "body"), ORPHANS, ids=[path for path, _ in ORPHANS])
def test_a_result_of_an_unknown_call(path: str, body: Any, served: Served, upstream: ChatServer) -> None:
    """It is refused before anything is spent, and the error names the call."""
    answer = httpx2.post(served.url + path, json={"model": "podium", **body})
    assert answer.status_code == 400
    assert "'call_9'" in answer.json()["error"]["message"]
    assert not upstream.calls


def test_a_result_without_a_call(served: Served) -> None:
    """It is refused, too."""
    answer = post(served, {"model": "podium", "messages": [*ASKED, {"role": "tool", "content": "3"}]})
    assert answer.status_code == 400
    assert "without tool_call_id" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "change", "param", "told"),
    [
        ("chat/completions", {"n": 2}, "n", "n must be 1"),
        ("chat/completions", {"logprobs": True}, "logprobs", "logprobs must be false"),
        ("chat/completions", {"temperature": 3}, "temperature", "temperature must be at most 2"),
        ("chat/completions", {"temperature": "hot"}, "temperature", "temperature must be a number"),
        ("chat/completions", {"max_tokens": 0}, "max_tokens", "max_tokens must be greater than 0"),
        ("chat/completions", {"model": ""}, "model", "model must not be empty"),
        ("chat/completions", {"messages": []}, "messages", "messages must not be empty"),
        ("chat/completions", {"messages": 5}, "messages", "messages must be a list"),
        ("chat/completions", {"messages": [5]}, "messages[0]", "messages[0] must be an object"),
        ("chat/completions", {"stop": 5}, "stop", "stop must be a text or a list"),
        ("chat/completions", {"stop": ["a", 5]}, "stop[1]", "stop[1] must be a text"),
        ("chat/completions", {"stop": ["a"] * 99}, "stop", "stop must have at most 16 entries"),
        ("chat/completions", {"logit_bias": {"a": 1}}, "logit_bias", "logit_bias must be empty"),
        ("chat/completions", {"stream": 1}, "stream", "stream must be true or false"),
        ("chat/completions", {"seed": 1.5}, "seed", "seed must be a whole number"),
        ("chat/completions", {"stream_options": {"a": 1}}, "stream_options.a", "stream_options.a is not a"),
        ("responses", {"input": 5}, "input", "input must be a text or a list"),
        ("responses", {"truncation": "x"}, "truncation", "truncation must be 'auto' or 'disabled'"),
        ("runs", {"limits": {"cost": "x"}}, "limits.cost", "limits.cost must be a number"),
        ("messages", {"thinking": {"type": "x"}}, None, "thinking.type must be 'enabled', 'adaptive' or"),
    ],
)
def test_the_sentence_about_a_wrong_field(
    path: str, change: Any, param: str | None, told: str, served: Served
) -> None:
    """It says what the field must be, in no words of a library."""
    answer = httpx2.post(f"{served.url}/{path}", json={"model": "podium", **FIELDS[path], **change})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"] in ("invalid_request", "unknown_parameter")) == (400, True)
    assert told in error["message"]
    assert param is None or error["param"] == param
    assert not re.search("Input should|valid |validation|pydantic|items after", answer.text)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "the body is empty: send a JSON object"),
        (b"{", "the body is not JSON: the error is at line 1, column 1"),
        (b'{"a":1,\n}', "the body is not JSON: the error is at line 2, column 1"),
        (b"\xff", "the body is not JSON: the error is at line 1, column 1"),
        (b"[]", "the body is not a JSON object"),
    ],
)
def test_the_sentence_about_a_malformed_body(raw: bytes, told: str, served: Served) -> None:
    """It says where the error is."""
    headers = {"content-type": "application/json"}
    answer = httpx2.post(f"{served.url}/chat/completions", content=raw, headers=headers)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, told)


def test_two_idempotency_keys(served: Served, upstream: ChatServer) -> None:
    """They are refused."""
    headers = [("idempotency-key", "a"), ("idempotency-key", "b")]
    refused = httpx2.post(
        f"{served.url}/chat/completions", json={"model": "podium", "messages": ASKED}, headers=headers
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_idempotency_key")
    assert not upstream.calls


PNG = "data:image/png;base64,AAAA"
USED: Any = {"type": "tool_use", "id": "c", "name": "add", "input": {}}
SHOWN = [{"type": "image_url", "image_url": {"url": PNG}}]
SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
}
WITH_IMAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "a tool": (
        "/chat/completions",
        {"messages": [*ASKED, CALLED, {"role": "tool", "tool_call_id": "c", "content": SHOWN}]},
    ),
    "the assistant": (
        "/chat/completions",
        {"messages": [*ASKED, {"role": "assistant", "content": SHOWN}, *ASKED]},
    ),
    "a tool result of the Messages API": (
        "/messages",
        {
            "max_tokens": 9,
            "messages": [
                *ASKED,
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c", "name": "add", "input": {}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c",
                            "content": [{"type": "image", "source": SOURCE}],
                        }
                    ],
                },
            ],
        },
    ),
    "an output of the Responses API": (
        "/responses",
        {
            "input": [
                *ASKED,
                {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": PNG}],
                },
            ]
        },
    ),
}


@pytest.mark.parametrize("model", ["podium", "raw"])
def test_images_that_no_worker_sees(model: str, serve: Callable[..., Served], upstream: ChatServer) -> None:
    """They are refused before a call, wherever they are in the conversation."""
    url = serve(models='[models.podium]\n[models.raw]\nworker = "two"\n').url
    for path, body in WITH_IMAGES.values():
        refused = httpx2.post(f"{url}{path}", json={"model": model, **body}, timeout=20)
        assert (refused.status_code, upstream.calls) == (400, []), path
        assert "image_url" in refused.json()["error"]["message"]
