"""Chat completions with OpenAI's client, and what clients of all APIs are told of charges."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
from server.scene import ASKED, BODIES, Serve, team
from servers.chat_server import CUT, Call, ChatServer, Reply, says, whole
from servers.podium_server import Served


def test_a_whole_answer(served: Served) -> None:
    client = served.client()
    raw = client.chat.completions.with_raw_response.create(model="podium", messages=ASKED)
    answer: Any = raw.parse()
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("the answer", "stop")
    assert answer.model.startswith("podium-")
    assert client.chat.completions.create(model=answer.model, messages=ASKED).model == answer.model
    assert answer.id == f"chatcmpl-{raw.headers['x-podium-run-id']}"
    told = answer.choices[0].message.reasoning_content
    assert "0. one: Collect facts." in told
    assert "Step 0: ok" in told
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (211, 7, 3 * 218)
    assert usage.prompt_tokens_details.orchestration_input_tokens == 2 * 211


def test_a_streamed_answer(served: Served) -> None:
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(served.client().chat.completions.create(model="podium", messages=ASKED, **options))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert (deltas[0].role, "".join(delta.content or "" for delta in deltas)) == ("assistant", "the answer")
    assert "Collect facts." in "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert [reason for reason in reasons if reason] == ["stop"]
    assert chunks[-1].usage.total_tokens == 3 * 218
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_worker_as_itself(serve: Serve, upstream: ChatServer) -> None:
    served = serve(models='[models.raw]\nworker = "two"\n')
    asked: Any = [{"role": "system", "content": "Be short."}, *ASKED]
    answer: Any = served.client().chat.completions.create(model="raw", messages=asked)
    assert (answer.choices[0].message.content, answer.usage.total_tokens) == ("the answer", 218)
    assert [call.body["messages"] for call in upstream.calls] == [asked]


def test_a_planner_that_speaks_turn_by_turn(serve: Serve, upstream: ChatServer) -> None:
    call = '<tool_call>{"name": "two", "arguments": {"request": "Say it."}}</tool_call>'

    def reply(asked: Call) -> Reply:
        if asked.body["model"] == "planner":
            return says(asked, "so it is" if len(asked.body["messages"]) > 2 else call)
        return team(asked)

    upstream.reply = reply
    client = serve(planner="turns = 4").client()
    answer: Any = client.chat.completions.create(model="podium", messages=ASKED)
    options: Any = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(model="podium", messages=ASKED, **options))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert (answer.choices[0].message.content, streamed) == ("so it is", "so it is")
    for usage in (answer.usage, chunks[-1].usage):
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (211, 7, 3 * 218)
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with pytest.raises(openai.BadRequestError, match="leave out tools"):
        client.chat.completions.create(model="podium", messages=ASKED, tools=tools)


def test_the_list_of_models(served: Served) -> None:
    """Without `[models]`, the conductor of the file and two presets; an unknown one is a 404."""
    client = served.client()
    assert [model.id for model in client.models.list()] == ["podium", "mini", "ultra"]
    assert client.models.retrieve("mini").id == "mini"
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nothing", messages=ASKED)
    assert caught.value.code == "model_not_found"


RETRY = "[retry]\nfirst_wait = 0.01\n"
CUT_OFF = Reply((b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"choices"', CUT))
GARBAGE = whole("The proxy has no answer.", content_type="text/plain")
AT_RESERVATION = "charged at the reservation: no valid usage reported"
BY_TEXT = "charged by the received text: no valid usage reported"


def broken(*replies: Reply) -> Callable[[Call], Reply]:
    """Return a script whose last worker first gives these replies, and then answers."""
    left: Iterator[Reply] = iter(replies)
    return lambda call: next(left, team(call)) if call.body["model"] == "two" else team(call)


def post(served: Served, path: str) -> httpx2.Response:
    body = {"model": "podium", **BODIES[path]}
    return httpx2.post(f"{served.url}/{path}", json=body, timeout=20)


def test_an_answer_after_a_broken_call_says_what_was_charged(serve: Serve, upstream: ChatServer) -> None:
    served = serve(models=RETRY)
    for path in BODIES:
        upstream.reply = broken(CUT_OFF, GARBAGE)
        answer = post(served, path)
        body = answer.json()
        note = body["podium"]["usage_note"]
        assert re.sub(r", at most \$[\d.]+", "", note) == f"1 call {AT_RESERVATION}; 1 call {BY_TEXT}"
        assert (body["podium"]["status"], body["usage"]["estimated"]) == ("ok", True)
        assert answer.headers["x-podium-usage"] == "estimated"
        if path == "chat/completions":
            told = body["choices"][0]["message"]["reasoning_content"]
            assert f"a call of two failed (worker_broken), {AT_RESERVATION}." in told
            assert f"a call of two failed (worker_broken), {BY_TEXT}." in told
        measured = post(served, path)
        assert measured.json()["usage"]["estimated"] is False
        assert measured.json()["podium"]["usage_note"] is None
        assert measured.headers["x-podium-usage"] == "measured"
    run_id = answer.headers["x-podium-run-id"]
    run = httpx2.get(f"{served.url}/runs/{run_id}").json()
    assert run["usage_note"] == note
    step = run["rounds"][0]["steps"][1]
    assert step["charged"] == "reservation"
    assert [call["charged"] for call in step["calls"]] == ["reservation", "received", "usage"]
    assert step["calls"][0]["cost"] > step["calls"][1]["cost"] > 0
    events = httpx2.get(f"{served.url}/runs/{run_id}/events").text
    failed = [json.loads(line[6:]) for line in events.splitlines() if '"type":"attempt_failed"' in line]
    assert [each["call"]["charged"] for each in failed] == ["reservation", "received"]
