"""Models of the Responses API, which the SDK uses by default."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
from agents_speaking import ModelServer
from contracts.worker_contract import question
from openai import AsyncOpenAI
from servers.capable import capable
from servers.chat_server import Call, Reply, events, whole

from openai_agents_podium import ConductorModel, as_worker
from podium.errors import WorkerBroken
from podium.types import Message
from podium.usage import Usage
from podium.workers import Request, complete

pytestmark = pytest.mark.anyio


def response(text: str, **changed: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    details = {
        "input_tokens_details": {"cached_tokens": 11},
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    usage = {"input_tokens": 211, "output_tokens": 7, "total_tokens": 218, **details}
    body = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
    more = {"output": [item], "usage": usage, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    return {**body, **more, **changed}


def answers(call: Call, body: dict[str, Any], kind: str = "response.completed") -> Reply:
    if not call.body.get("stream"):
        return whole(body)
    text = body["output"][0]["content"][0]["text"]
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    delta = {"type": "response.output_text.delta", **at, "delta": text, "logprobs": [], "sequence_number": 1}
    started = {"type": "response.created", "response": {**body, "output": []}, "sequence_number": 0}
    return events(started, delta, {"type": kind, "response": body, "sequence_number": 2}, done=False)


@asynccontextmanager
async def responses_model(reply: Any) -> AsyncIterator[tuple[OpenAIResponsesModel, ModelServer]]:
    async with (
        ModelServer(reply) as server,
        AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        yield OpenAIResponsesModel("m", client), server


BOTH = pytest.mark.parametrize(("kind", "stream"), [("agent", True), ("model", False)])


@BOTH
async def test_it_answers(kind: str, *, stream: bool) -> None:
    async with responses_model(lambda call: answers(call, response("Forty-two."))) as (model, server):
        worker = as_worker(model if kind == "model" else Agent(name="one", model=model))
        done = await complete(worker, question("?", stream=stream))
        assert server.calls[0].path == "/v1/responses"
    assert (done.text, done.finish_reason) == ("Forty-two.", "stop")
    assert done.usage == Usage(211, 7, cached_tokens=11, reasoning_tokens=3)


@BOTH
async def test_an_answer_that_was_cut_fails(kind: str, *, stream: bool) -> None:
    body = response("Forty", status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    async with responses_model(lambda call: answers(call, body, "response.incomplete")) as (model, _):
        worker = as_worker(model if kind == "model" else Agent(name="one", model=model))
        with pytest.raises(WorkerBroken, match="max_output_tokens"):
            await complete(worker, question("?", stream=stream))


async def test_messages_have_the_form_of_the_api() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    called = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    asked = (
        Message("system", "Be short."),
        Message("user", ({"type": "text", "text": "What is it?"}, image)),
        Message("assistant", "Let me see.", (called,)),
        Message("tool", "a cat", (), "call-1"),
    )
    async with responses_model(lambda call: answers(call, response("A cat."))) as (model, server):
        assert (await complete(as_worker(model), Request(messages=asked))).text == "A cat."
        sent = server.calls[0].body["input"]
    assert sent[0] == {"role": "system", "content": "Be short."}
    assert [part["type"] for part in sent[1]["content"]] == ["input_text", "input_image"]
    assert "__fake_id__" not in json.dumps(sent)
    assert sent[3] == {"type": "function_call", "call_id": "call-1", "name": "look", "arguments": "{}"}
    assert sent[4] == {"type": "function_call_output", "call_id": "call-1", "output": "a cat"}


async def test_what_a_conductor_keeps_in_a_session_is_not_sent_to_the_api() -> None:
    look = function_tool(lambda: "rain", name_override="look")
    session = SQLiteSession("s")
    async with (
        ModelServer(capable) as chat,
        responses_model(lambda call: answers(call, response("Indeed."))) as (model, server),
    ):
        workers = [as_worker(chat.model(), name=name) for name in ("one", "two")]
        model_of_lead = ConductorModel(workers=workers, planner=chat.model())
        lead = Agent[Any](name="lead", model=model_of_lead, tools=[look])
        assert (await Runner.run(lead, "How is it?", session=session)).final_output == "The tools say rain."
        other = Agent[Any](name="other", model=model)
        assert (await Runner.run(other, "Really?", session=session)).final_output == "Indeed."
        sent = json.dumps(server.calls[0].body["input"])
    assert "The tools say rain." in sent
    assert "podium" not in sent
    assert not [item for item in server.calls[0].body["input"] if "id" in item]
    session.close()
