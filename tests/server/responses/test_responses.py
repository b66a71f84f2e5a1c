"""Responses with OpenAI's client, and what is stored of them."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from server.keys.test_http import budget
from server.responses.test_events import check
from server.scene import Serve, called, team, until
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.podium_server import Served

from podium.aio import run_sync
from podium.journal import SqlJournal
from podium_server.keys import KeyStore
from podium_server.keys.ledger import Housekeeping, Ledger

ASKED = "Why is the sky blue?"
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS: Any = [{"type": "function", "name": "add", "parameters": PARAMETERS, "strict": False}]
ADD = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def test_a_whole_response(served: Served) -> None:
    raw = served.client().responses.with_raw_response.create(model="podium", input=ASKED, metadata={"a": "b"})
    answer: Any = raw.parse()
    assert answer.id == f"resp_{raw.headers['x-podium-run-id']}"
    assert (answer.status, answer.output_text) == ("completed", "the answer")
    assert (answer.model.startswith("podium-"), answer.metadata) == (True, {"a": "b"})
    assert [item.type for item in answer.output] == ["reasoning", "message"]
    assert "0. one: Collect facts." in answer.output[0].summary[0].text
    usage = answer.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (211, 7, 3 * 218)
    assert usage.input_tokens_details.orchestration_input_tokens == 2 * 211


def test_a_streamed_response(served: Served) -> None:
    client = served.client()
    events = list(client.responses.create(model="podium", input=ASKED, stream=True))
    check([event.to_dict() for event in events])
    texts = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(texts) > 1
    assert "".join(texts) == "the answer"
    last: Any = events[-1]
    kept = client.responses.retrieve(last.response.id)
    assert kept.completed_at  # of the journal's record, which may be in the next second
    assert kept.model_copy(update={"completed_at": last.response.completed_at}) == last.response


def test_a_conversation(served: Served, upstream: ChatServer) -> None:
    client = served.client()
    first = client.responses.create(model="podium", input=ASKED, instructions="Be short.")
    more: Any = {"instructions": "Be long.", "previous_response_id": first.id}
    second = client.responses.create(model="podium", input="And at night?", **more)
    third = client.responses.create(model="podium", input="And on Mars?", previous_response_id=second.id)
    asked = json.dumps([call.body["messages"] for call in upstream.calls[-3:]])
    texts = (ASKED, "the answer", "And at night?", "And on Mars?", "Be short.", "Be long.")
    assert [text in asked for text in texts] == [True] * 4 + [False] * 2
    items: Any = client.responses.input_items.list(third.id, limit=2, order="asc").data
    assert [item.content[0].text for item in items if item.type == "message"] == [ASKED]
    every = list(client.responses.input_items.list(third.id, limit=2))
    assert [item.type for item in every].count("message") == 5
    assert len({item.id for item in every}) == len(every) == 7


def test_a_run_that_fails(served: Served, upstream: ChatServer) -> None:
    refusal = whole({"error": {"message": "no"}}, status=400)
    upstream.reply = lambda call: team(call) if call.body["model"] == "planner" else refusal
    client = served.client()
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(model="podium", input=ASKED)
    assert (caught.value.status_code, caught.value.code) == (502, "worker_refused")
    *_, last = client.responses.create(model="podium", input=ASKED, stream=True)
    found: Any = last
    assert (found.type, found.response.error.code) == ("response.failed", "worker_refused")
    assert client.responses.retrieve(found.response.id).status == "failed"


def test_a_deleted_response(served: Served) -> None:
    client = served.client()
    answer = client.responses.create(model="podium", input=ASKED)
    client.responses.delete(answer.id)
    check_unknown(client, answer.id)


def check_unknown(client: openai.OpenAI, response_id: str) -> None:
    """Check that a client can neither read, delete nor continue a response."""
    for call in (client.responses.retrieve, client.responses.delete, client.responses.input_items.list):
        with pytest.raises(openai.NotFoundError):
            call(response_id)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="podium", input="More?", previous_response_id=response_id)
    told = (caught.value.code, caught.value.param)
    assert told == ("previous_response_not_found", "previous_response_id")


def test_an_idempotency_key_with_tool_calls(served: Served, upstream: ChatServer) -> None:
    def reply(call: Call) -> Reply:
        has_result = any(message["role"] == "tool" for message in call.body["messages"])
        if call.body["model"] == "two" and not has_result:
            return says(call, "", tool_calls=[ADD], finish_reason="tool_calls")
        return team(call)

    upstream.reply = reply
    client = served.client()

    def ask(key: str, **asked: Any) -> Any:
        options: Any = {"model": "podium", "tools": TOOLS, "extra_headers": {"Idempotency-Key": key}, **asked}
        return client.responses.create(**options)

    first = ask("k1", input=ASKED)
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    assert ask("k1", input=ASKED).output == first.output
    result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "1"}
    second = ask("k2", input=[result], previous_response_id=first.id)
    assert second.output_text == "the answer"
    assert ask("k2", input=[result], previous_response_id=first.id).output == second.output
    assert called(upstream) == ["planner", "one", "two", "two"]


def test_the_request_of_codex(served: Served) -> None:
    body: Any = {"model": "podium", "instructions": "You are a coding agent.", "store": False, "stream": True}
    body |= {"tool_choice": "auto", "parallel_tool_calls": False, "prompt_cache_key": "k"}
    body |= {"reasoning": {"effort": "medium", "summary": "auto"}, "text": {"verbosity": "low"}}
    body["include"] = ["reasoning.encrypted_content"]
    body["tools"] = [*TOOLS, {"type": "web_search", "external_web_access": False}]
    body["input"] = [
        {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
        for role, text in (("developer", "Rules."), ("user", "Say hello"))
    ]
    more = {"client_metadata": {"x": "y"}}  # OpenAI's client does not know it
    *_, last = served.client().responses.create(**body, extra_body=more)
    assert (last.type, last.response.podium["ignored_tools"]) == ("response.completed", ["web_search"])


WRONG: list[tuple[dict[str, Any], str | None]] = [
    ({"input": []}, None),
    ({"input": [{"type": "magic"}]}, "input[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content"),
    ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].arguments"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    ({"tools": [{"type": "file_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "custom", "name": 5}]}, "tools[0].name"),
    ({"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]}, "tools[0].tools[0].type"),
    ({"tools": [*TOOLS, {"type": "custom", "name": "add"}]}, "tools"),
    ({"input": [{"type": "custom_tool_call", "call_id": "c", "name": "f"}]}, "input[0].input"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "file_search"}}, "tool_choice"),
    ({"text": {"format": {"type": "xml"}}}, "text.format"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]"),
    ({"background": True, "store": False}, "background"),
    ({"conversation": "c"}, "conversation"),
]


def test_a_wrong_request(served: Served, upstream: ChatServer) -> None:
    client = served.client()
    for change, param in WRONG:
        body = {"model": "podium", "input": ASKED, **change}
        with pytest.raises(openai.BadRequestError) as caught:
            client.post("/responses", body=body, cast_to=object)
        assert caught.value.param == param
    assert not upstream.calls
    answer = client.responses.create(model="podium", input=ASKED)
    wrong = [f"/input_items?{query}" for query in ("limit=0", "order=up", "after=nothing")]
    for rest in (*wrong, "?stream=maybe", "?stream=true", "?starting_after=1"):
        with pytest.raises(openai.BadRequestError) as caught:
            client.get(f"/responses/{answer.id}{rest}", cast_to=object)
        assert caught.value.param == rest.partition("?")[2].partition("=")[0]
    with pytest.raises(openai.BadRequestError) as caught:  # it does not run in the background
        client.responses.cancel(answer.id)
    assert caught.value.param == "response_id"


def test_without_store(serve: Serve, upstream: ChatServer, tmp_path: Path) -> None:
    """The client sends the earlier output; neither the database nor its log has the texts."""
    client = serve().client()
    first = client.responses.create(model="podium", input="What is xyzzy?", store=False)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.retrieve(first.id)
    assert caught.value.code == "response_not_found"
    asked: Any = [{"role": "user", "content": ASKED}, *(item.model_dump() for item in first.output)]
    asked.append({"role": "user", "content": [{"type": "input_text", "text": "And at night?"}]})
    second = client.responses.create(model="podium", input=asked, store=False)
    assert (second.output_text, (second.model_extra or {})["store"]) == ("the answer", False)
    assert "the answer" in json.dumps(upstream.calls[-1].body["messages"])
    assert not is_in(tmp_path, b"xyzzy")
    client.responses.create(model="podium", input="What is plugh?")
    assert is_in(tmp_path, b"plugh")


def is_in(folder: Path, text: bytes) -> bool:
    """Return whether the database or its log has a text."""
    return any(text in path.read_bytes() for path in folder.glob("runs.db*"))


def test_a_response_belongs_to_its_key(keyed: Served) -> None:
    own, other = keyed.client(keyed.key()), keyed.client(keyed.key())
    answer = own.responses.create(model="podium", input=ASKED)
    assert own.responses.retrieve(answer.id).output_text == "the answer"
    check_unknown(other, answer.id)
    reference: Any = [{"type": "item_reference", "id": answer.output[-1].id}]
    with pytest.raises(openai.BadRequestError) as caught:
        other.responses.create(model="podium", input=reference)
    assert caught.value.code == "item_not_found"


def test_responses_that_are_not_kept(serve: Serve, tmp_path: Path) -> None:
    served = serve(keys=True)
    client = served.client(served.key(retention_days=0))
    answer = client.responses.create(model="podium", input="What is xyzzy?")
    assert (answer.model_extra or {})["store"] is False
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)
    assert not is_in(tmp_path, b"xyzzy")
    key = served.key(day_cost=1.0, retention_days=1)
    client = served.client(key)
    kept = client.responses.create(model="podium", input=ASKED)
    assert until(lambda: budget(served, key) > 0)
    once = budget(served, key)
    client.responses.create(model="podium", input=ASKED, store=False)
    assert until(lambda: budget(served, key) > once)
    assert budget(served, key) == pytest.approx(2 * once)
    assert client.responses.retrieve(kept.id).id == kept.id
    assert served.app.journal is not None
    url = served.app.journal.url
    assert len(run_sync(lambda: SqlJournal(url).runs())) == 1
    keys = KeyStore(url)
    held = "SELECT turn_id FROM podium_turns WHERE holder IS NOT NULL"
    later = "UPDATE podium_turns SET forget_at = forget_at - 86401"
    assert until(lambda: not run_sync(lambda: keys.transaction(lambda each: each.fetch(held))))
    run_sync(lambda: keys.transaction(lambda each: each.execute(later)))
    assert run_sync(Housekeeping(keys, Ledger(keys), SqlJournal(url)).forget_expired) >= 1
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(kept.id)
