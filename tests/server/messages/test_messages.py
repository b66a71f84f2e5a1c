"""The Messages API with Anthropic's client."""

from typing import Any

import anthropic
import pytest
from anthropic import Anthropic
from server.scene import ASKED, Serve, called, team
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served

THINKING: Any = {"type": "enabled", "budget_tokens": 2048}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD: Any = [{"name": "add", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}]
RESULT = {"type": "tool_result", "tool_use_id": "call_1"}
ADD_CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def calling(call: Call) -> Reply:
    """Reply as `team`; the second worker first calls a tool."""
    if call.body["model"] != "two" or call.body["messages"][-1]["role"] == "tool":
        return team(call)
    return says(call, "", tool_calls=[ADD_CALL], finish_reason="tool_calls")


def client_of(served: Served, **options: Any) -> Anthropic:
    """Return Anthropic's client, which is closed with the server; it repeats no request."""
    client = Anthropic(base_url=served.root, api_key="no-key", max_retries=0, timeout=20, **options)
    served.clients.append(client)
    return client


def ask(served: Served, **changes: Any) -> Any:
    body: dict[str, Any] = {"model": "podium", "max_tokens": 100, "messages": ASKED, **changes}
    return client_of(served).messages.create(**body)


def test_a_whole_message(served: Served, upstream: ChatServer) -> None:
    raw = client_of(served).messages.with_raw_response.create(model="podium", max_tokens=100, messages=ASKED)
    message: Any = raw.parse()
    assert [(block.type, block.text) for block in message.content] == [("text", "the answer")]
    assert (message.stop_reason, message.model.startswith("podium-")) == ("end_turn", True)
    assert message.id == f"msg_{raw.headers['x-podium-run-id']}"
    assert raw.headers["request-id"] == raw.headers["x-podium-run-id"]
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens, usage.orchestration_input_tokens) == (211, 7, 2 * 211)
    assert upstream.calls[-1].body["max_completion_tokens"] == 100


def test_the_plan_is_a_thinking_block(served: Served, upstream: ChatServer) -> None:
    message = ask(served, thinking=THINKING)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert "0. one: Collect facts." in message.content[0].thinking
    assert message.content[0].signature
    for thinking in ({"type": "disabled"}, {"type": "adaptive", "display": "omitted"}):
        assert [block.type for block in ask(served, thinking=thinking).content] == ["text"]


def test_a_streamed_message(served: Served, upstream: ChatServer) -> None:
    asked: Any = {"model": "podium", "max_tokens": 100, "messages": ASKED, "thinking": THINKING}
    with client_of(served).messages.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        message: Any = stream.get_final_message()
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert "Collect facts." in message.content[0].thinking
    assert message.content[0].signature
    assert (message.content[1].text, message.stop_reason) == ("the answer", "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (211, 7)


def test_what_a_worker_gets(serve: Serve, upstream: ChatServer) -> None:
    eyes = '[workers.eyes]\nendpoint = "here"\nmodel = "two"\nparts = ["image_url"]\n'
    served = serve(models=eyes + '[models.raw]\nworker = "eyes"\n')
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    source = {"type": "text", "media_type": "text/plain", "data": "A page."}
    page = {"type": "document", "source": source, "title": "Page 1"}
    ask(
        served,
        model="raw",
        system=[{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": [{"type": "text", "text": "What is it?"}, page, picture]}],
        stop_sequences=["END"],
        extra_body={"temperature": 0.5, "top_p": 0.9},
        metadata={"user_id": "u"},
    )
    body = upstream.calls[0].body
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert body["messages"][0] == {"role": "system", "content": "Be short."}
    *texts, last = body["messages"][1]["content"]
    assert ("\n\n".join(part["text"] for part in texts), last) == ("What is it?\n\nPage 1\n\nA page.", image)
    assert (body["stop"], body["temperature"], body["top_p"]) == (["END"], 0.5, 0.9)


def test_an_alias(serve: Serve, upstream: ChatServer) -> None:
    served = serve(models='[models.team]\naliases = ["claude-*"]\n[models.raw]\nworker = "two"\n')
    assert ask(served, model="claude-opus-9-20990101").model.startswith("team-")
    assert [model.id for model in client_of(served).models.list().data] == ["team", "raw"]
    assert client_of(served).models.retrieve("raw").display_name == "raw"


def test_tokens_are_estimated(served: Served) -> None:
    client = client_of(served)
    short: int = client.messages.count_tokens(model="podium", messages=ASKED).input_tokens
    assert 5 < short < 20
    system = client.messages.count_tokens(model="podium", messages=ASKED, system="Be short. " * 1000)
    assert 2000 < system.input_tokens < 3500
    assert client.messages.count_tokens(model="podium", messages=ASKED, tools=ADD).input_tokens > short + 20
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="nothing", messages=ASKED)


def test_a_loop_of_tools(served: Served, upstream: ChatServer) -> None:
    upstream.reply = calling
    first = ask(served, tools=ADD)
    call = first.content[-1]
    assert (first.stop_reason, call.name, call.input) == ("tool_use", "add", {"a": 1})
    offered = upstream.calls[-1].body["tools"][0]["function"]
    assert (offered["name"], offered["parameters"]) == ("add", SCHEMA)
    before = len(upstream.calls)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "3"}]}
    reminder = {"type": "text", "text": "<reminder>Be short.</reminder>"}
    said = {"role": "assistant", "content": first.content}
    more = [*ASKED, said, {"role": "user", "content": [result, reminder]}]
    assert ask(served, messages=more, tools=ADD).content[-1].text == "the answer"
    assert called(upstream)[before:] == ["two"]
    told = upstream.calls[-1].body["messages"][-1]
    assert (told["role"], told["tool_call_id"]) == ("tool", "call_1")
    assert told["content"] == "3\n\n<reminder>Be short.</reminder>"


def test_the_effort(served: Served) -> None:
    create = client_of(served).messages.with_raw_response.create
    thinking = [{"thinking": {**THINKING, "budget_tokens": tokens}} for tokens in (1024, 10_000)]
    efforts = ("low", "medium", "high")
    for asked, effort in zip((*thinking, {"output_config": {"effort": "max"}}), efforts, strict=True):
        given: Any = {"model": "ultra", "max_tokens": 100, "messages": ASKED, **asked}
        assert create(**given).headers["x-podium-effort"] == effort


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"model": "nothing"}, 404, "model_not_found"),
    ({"max_tokens": 0}, 400, "max_tokens"),
    ({"messages": [{"role": "user", "content": ""}]}, 400, "empty"),
    ({"messages": [*ASKED, {"role": "assistant", "content": "It"}]}, 400, "prefill_unsupported"),
    ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, 400, "video"),
    ({"messages": [{"role": "assistant", "content": [RESULT]}, *ASKED]}, 400, "tool_result"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, 400, "tool_unsupported"),
    ({"tool_choice": {"type": "any"}}, 400, "tool_choice"),
    ({"tools": ADD, "tool_choice": {"type": "tool", "name": "sub"}}, 400, "sub"),
    ({"tools": ADD, "tool_choice": {"type": "tool"}}, 400, "tool_choice.name"),
    ({"top_k": 3}, 400, "unknown_parameter"),
    ({"mcp_servers": [{"type": "url"}]}, 400, "mcp_servers"),
]


def test_wrong_requests(served: Served) -> None:
    """They get Anthropic's form of an error, also below the path of the API."""
    client = served.http()
    for changes, status, told in WRONG:
        body = {"model": "podium", "max_tokens": 100, "messages": ASKED, **changes}
        answer = client.post("/messages", json=body)
        assert (answer.status_code, answer.json()["type"]) == (status, "error")
        error = answer.json()["error"]
        assert error["type"] == {404: "not_found_error", 400: "invalid_request_error"}[status]
        assert told in error["message"]
    answer = client.get("/messages")
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
    answer = client.post("/messages/batches", json={})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


def test_a_run_that_fails(served: Served, upstream: ChatServer) -> None:
    refusal = whole({"error": {"message": "no"}}, status=400)
    upstream.reply = lambda call: team(call) if call.body["model"] == "planner" else refusal
    with pytest.raises(anthropic.APIStatusError) as caught:
        ask(served)
    error: Any = caught.value
    assert (error.status_code, error.body["error"]["code"]) == (502, "worker_refused")
    assert error.response.headers["x-should-retry"] == "false"
