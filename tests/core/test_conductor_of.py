"""A conductor of one worker, such as a hosted conductor, over a real loopback server and in both APIs."""

from typing import Any

import pytest
from servers.chat_server import Call, ChatServer, Reply, events, says, whole

from podium import ChatWorker, Conductor, Endpoint, FunctionWorker, Limits
from podium.errors import LimitExceeded, PlannerError, QueryError
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.policy import Policy, Rule
from podium.types import AnswerDelta, Message, Plan, Sampling, Step
from podium.workers import FREE, Card, Price

pytestmark = pytest.mark.anyio

KEY = "fish_" + "0123456789abcdef" * 4
USAGE = {
    "input_tokens": 20,
    "output_tokens": 7,
    "total_tokens": 63,
    "input_tokens_details": {
        "cached_tokens": 0,
        "orchestration_input_tokens": 30,
        "orchestration_input_cached_tokens": 3,
    },
    "output_tokens_details": {"orchestration_output_tokens": 6},
}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CONVERSATION = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Where is it wet?"},
    {"role": "assistant", "content": "In Oslo."},
    {"role": "user", "content": [{"type": "text", "text": "And this?"}, IMAGE]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
]


def response(text: str, **more: Any) -> dict[str, Any]:
    """Return a whole Responses body."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    body = {"object": "response", "status": "completed", "model": "fugu-ultra-v2.0", "error": None}
    return body | {"output": [message], "usage": USAGE} | more


def reply(call: Call, text: str = "for|ty-two", **more: Any) -> Reply:
    """Answer in the API of the request, whole or streamed."""
    if call.path.endswith("/chat/completions"):
        return says(call, text.replace("|", ""))
    body = response(text.replace("|", ""), **more)
    if not call.body["stream"]:
        return whole(body)
    deltas = [{"type": "response.output_text.delta", "delta": piece} for piece in text.split("|")]
    kind = f"response.{body['status']}"
    return events({"type": "response.created"}, *deltas, {"type": kind, "response": body}, done=False)


def hosted(
    server: ChatServer, api: Any = "responses", sampling: Sampling | None = None, **more: Any
) -> Conductor:
    """Return a conductor of the model that `server` serves."""
    card = Card(name="fugu", price=Price(input=5, output=30), parts=frozenset({"image_url"}))
    endpoint = Endpoint(server.url, api_key=KEY)
    worker = ChatWorker("fugu", endpoint=endpoint, card=card, sampling=sampling or Sampling(), api=api)
    return Conductor.of(worker, **{"retry": Retry(attempts=1), **more})


async def test_an_answer_streams_and_its_tokens_are_whole() -> None:
    """The pieces come as they are written; the server's orchestration tokens are counted and paid."""
    async with ChatServer(reply) as server:
        conductor = hosted(server, sampling=Sampling(effort="xhigh", max_tokens=500))
        seen = [event async for event in conductor.stream("What is six times seven?")]
        (call,) = server.calls
    assert [event.text for event in seen if isinstance(event, AnswerDelta)] == ["for", "ty-two"]
    result = seen[-1].result  # type: ignore[union-attr]  # the last event is the end
    assert (result.answer, result.status) == ("forty-two", "ok")
    assert result.usage.total_tokens == 63
    assert result.usage.orchestration_cached_tokens == 3
    assert result.cost == pytest.approx((50 * 5 + 13 * 30) / 1e6)
    assert call.path.endswith("/responses")
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert (call.body["reasoning"], call.body["max_output_tokens"]) == ({"effort": "xhigh"}, 500)
    assert KEY not in result.explain()


async def test_a_function_is_sent_the_question() -> None:
    """As its subtask; nothing in it is a reference to a step."""
    conductor = Conductor.of(FunctionWorker(lambda given: given.subtask, card=Card(name="f", price=FREE)))
    for context in ({}, {"x": "text"}):
        assert (await conductor.run("Why {{0}}, {{x}}?", context=context)).answer == "Why {{0}}, {{x}}?"


async def test_a_conversation_reaches_the_model_unchanged() -> None:
    """With its system prompt, images and tool results; a question alone without anything about a plan."""
    async with ChatServer(reply) as server:
        for api in ("chat", "responses"):
            await hosted(server, api).run(CONVERSATION, tools=[WEATHER])
            await hosted(server, api).run("Why?")
        chat, question, responses, item = (call.body for call in server.calls)
    assert chat["messages"] == CONVERSATION
    assert question["messages"] == [{"role": "user", "content": "Why?"}]
    assert item["input"] == [{"role": "user", "content": "Why?"}]
    assert responses["input"] == [
        *CONVERSATION[:3],
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    ]


FAILED = {"type": "response.failed", "response": {"error": {"message": f"worker fell over {KEY}"}}}
CUT = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
INNER = {"podium": {"status": "partial", "problem": {"code": "worker_failed", "message": "half of it"}}}


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (
            lambda call: whole({"error": {"message": f"no good: {KEY}"}}, status=401),
            "failed",
            "worker_refused",
        ),
        (lambda call: events(FAILED, done=False), "failed", "worker_broken"),
        (lambda call: reply(call, "for", **CUT), "partial", "cut"),
        (lambda call: reply(call, "for", **INNER), "partial", "partial"),
    ],
)
async def test_an_answer_that_is_none_or_a_part_is_told(answer: Any, status: str, code: str) -> None:
    """As of any worker, also that the run behind another Podium is incomplete; never with the key."""
    async with ChatServer(answer) as server:
        result = await hosted(server).run("hello", on_event=lambda event: None)
        assert len(server.calls) == 1
    assert result.problem is not None
    assert (result.status, result.problem.code) == (status, code)
    assert KEY not in result.explain()


async def test_its_runs_are_recorded_and_limited() -> None:
    """A journal, limits, labels and a policy apply as to any conductor, and other plans run as they are."""
    journal, rules = MemoryJournal(), Policy(rules=[Rule("secret", never="fugu")], labels="secret")
    async with ChatServer(reply) as server:
        conductor = hosted(server, name="hosted", journal=journal)
        first = await conductor.run("hello", run_id="r")
        assert (await conductor.resume("r")).answer == first.answer
        assert conductor.card.name == "hosted"
        assert len(server.calls) == 1
        costly = await hosted(server, limits=Limits(cost=1e-9)).run("hello")
        assert costly.problem is not None
        assert costly.problem.code == LimitExceeded.code
        plan = Plan((Step(0, "Say it."),), query=(Message("user", "hello"),))
        await conductor.run(plan)
        assert "Say it." in server.calls[-1].body["input"][-1]["content"]
        with pytest.raises(QueryError, match="empty"):
            await conductor.run([Message("user", " ")])
        with pytest.raises(PlannerError, match="allows no worker"):
            await hosted(server, policy=rules).run("hello", labels=["secret"])
