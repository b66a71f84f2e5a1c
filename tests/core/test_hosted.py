"""A hosted conductor over a real loopback server, in both of the APIs it speaks."""

from typing import Any

import pytest
from servers.chat_server import STALL, Call, ChatServer, Reply, events, says, whole

from podium.errors import ConfigError, QueryError
from podium.hosted import HostedConductor
from podium.types import AnswerDelta, Message, RunEnded, RunStarted
from podium.workers import Endpoint, Price

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


def response(text: str, **more: Any) -> dict[str, Any]:
    """Return a whole Responses body."""
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    body = {"object": "response", "status": "completed", "model": "fugu-ultra-v2.0", "error": None}
    return body | {"output": [message], "usage": USAGE} | more


def streams(text: str, **more: Any) -> Reply:
    """Stream a response as semantic events."""
    deltas = [{"type": "response.output_text.delta", "delta": piece} for piece in text.split("|")]
    kind = "response.incomplete" if more.get("status") == "incomplete" else "response.completed"
    whole_text = text.replace("|", "")
    return events(
        {"type": "response.created", "response": {"status": "in_progress", "error": None}},
        *deltas,
        {"type": kind, "response": response(whole_text, **more)},
        done=False,
    )


def hosted(server: ChatServer, **more: Any) -> HostedConductor:
    """Return a conductor hosted by `server`."""
    return HostedConductor("fugu-ultra", endpoint=Endpoint(server.url, api_key=KEY, provider="fugu"), **more)


async def test_responses_answer_streams_and_usage_is_whole() -> None:
    """The answer comes as it is written; orchestration tokens are counted on top."""
    async with ChatServer(lambda _: streams("for|ty-two")) as server:
        conductor = hosted(server, effort="xhigh", max_tokens=500, price=Price(input=5, output=30))
        seen = [event async for event in conductor.stream("What is six times seven?")]
    assert isinstance(seen[0], RunStarted)
    assert [event.text for event in seen if isinstance(event, AnswerDelta)] == ["for", "ty-two"]
    assert isinstance(seen[-1], RunEnded)
    result = seen[-1].result
    assert (result.answer, result.status) == ("forty-two", "ok")
    assert result.usage.total_tokens == 63
    assert result.usage.orchestration_cached_tokens == 3
    assert result.cost == pytest.approx((50 * 5 + 13 * 30) / 1e6)
    assert result.rounds == ()
    assert "returns neither" in result.explain()
    (call,) = server.calls
    assert call.path.endswith("/responses")
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert call.body["reasoning"] == {"effort": "xhigh"}
    assert call.body["max_output_tokens"] == 500


async def test_chat_completions_answer() -> None:
    """The same conductor speaks chat completions."""
    async with ChatServer(lambda call: says(call, "forty-two")) as server:
        result = await hosted(server, api="chat", effort="max").run("What is six times seven?")
    assert (result.answer, result.status, result.cost) == ("forty-two", "ok", None)
    assert server.calls[0].path.endswith("/chat/completions")
    assert server.calls[0].body["reasoning_effort"] == "max"


async def test_history_images_and_tool_results_are_translated() -> None:
    """Messages reach Responses as the input items they are there."""
    asked = [
        {"role": "system", "content": "Be short."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "And this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ],
        },
    ]
    async with ChatServer(lambda _: streams("wet")) as server:
        await hosted(server).run(asked)
    assert server.calls[0].body["input"] == [
        {"role": "system", "content": "Be short."},
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
            ],
        },
    ]


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_tools_pass_through_and_calls_come_back(api: str) -> None:
    """A tool is offered as it is, and a call of it is the caller's to make."""
    wanted = {"id": "c7", "type": "function", "function": {"name": "weather", "arguments": '{"at":"Oslo"}'}}
    item = {"type": "function_call", "call_id": "c7", "name": "weather", "arguments": '{"at":"Oslo"}'}

    def reply(call: Call) -> Reply:
        if api == "chat":
            return says(call, "", tool_calls=[wanted], finish_reason="tool_calls")
        return streams("", output=[item])

    async with ChatServer(reply) as server:
        result = await hosted(server, api=api, tools=[WEATHER]).run("Is it raining in Oslo?")
    assert result.tool_calls == (wanted,)
    assert result.status == "ok"
    sent = server.calls[0].body["tools"][0]
    assert sent == (WEATHER if api == "chat" else {"type": "function", **WEATHER["function"]})


@pytest.mark.parametrize(
    ("status", "code"), [(401, "worker_refused"), (400, "worker_refused"), (503, "worker_unavailable")]
)
async def test_refusals_are_results_and_show_no_key(status: int, code: str) -> None:
    """A refused key, a bad request, a server that is down: a failed result that says why."""
    body = {"error": {"message": f"no good: {KEY}", "type": "invalid_request_error"}}
    async with ChatServer(lambda _: whole(body, status=status)) as server:
        result = await hosted(server).run("hello")
    assert result.status == "failed"
    assert result.problem is not None
    assert result.problem.code == code
    assert "no good" in result.problem.message
    assert KEY not in result.explain()


async def test_a_failed_response_says_why_without_the_key() -> None:
    """A failure event in a stream that began well is no answer."""
    failed = {"type": "response.failed", "response": {"error": {"message": f"worker fell over {KEY}"}}}
    async with ChatServer(lambda _: events(failed, done=False)) as server:
        result = await hosted(server).run("hello")
    assert result.status == "failed"
    assert "fell over" in result.explain()
    assert KEY not in result.explain()


async def test_a_cut_stream_is_a_part_of_an_answer() -> None:
    """What had arrived is kept, and marked as not whole."""
    delta = {"type": "response.output_text.delta", "delta": "forty"}
    async with ChatServer(lambda _: events(delta, done=False)) as server:
        result = await hosted(server).run("hello")
    assert (result.answer, result.status) == ("forty", "partial")
    assert result.usage.estimated


async def test_an_incomplete_response_is_partial() -> None:
    """An answer that met its token limit is marked so."""
    details = {"reason": "max_output_tokens"}
    async with ChatServer(
        lambda _: streams("for", status="incomplete", incomplete_details=details)
    ) as server:
        result = await hosted(server).run("hello")
    assert (result.answer, result.status) == ("for", "partial")


async def test_leaving_the_stream_closes_the_connection() -> None:
    """A caller who stops reading stops the server's work too."""
    delta = {"type": "response.output_text.delta", "delta": "forty"}
    async with ChatServer(lambda _: events(delta, STALL, done=False)) as server:
        stream = hosted(server).stream("hello")
        async for event in stream:
            if isinstance(event, AnswerDelta):
                break
        await stream.aclose()
        await server.calls[0].hung_up.wait()


async def test_its_time_is_bounded() -> None:
    """A server that never answers ends in a timeout that may be paid for."""
    async with ChatServer(lambda _: Reply((STALL,))) as server:
        result = await hosted(server, seconds=0.2).run("hello")
    assert result.problem is not None
    assert result.problem.code == "worker_timeout"


def test_runs_from_code_that_is_not_async() -> None:
    """The same answer without a loop."""
    with ChatServer(lambda _: streams("yes")).in_thread() as server:
        assert hosted(server).run_sync("hello").answer == "yes"


async def test_bad_input_is_refused_before_anything_is_sent() -> None:
    """An unknown effort and an empty question cost nothing."""
    async with ChatServer(lambda _: streams("yes")) as server:
        with pytest.raises(ConfigError, match="xhigh"):
            hosted(server, effort="low")
        with pytest.raises(QueryError, match="empty"):
            await hosted(server).run([Message("user", " ")])
    assert server.calls == []


async def test_a_call_that_was_never_sent_is_not_billed() -> None:
    """A server that cannot be reached costs nothing."""
    nowhere = Endpoint("http://127.0.0.1:9", provider="fugu")
    result = await HostedConductor(endpoint=nowhere, price=Price(input=1e6, output=1e6)).run("hello")
    assert (result.status, result.cost, result.usage.total_tokens) == ("failed", 0.0, 0)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.completed", "response": 5},
        {"type": "response.completed", "response": {"status": "completed", "output": 5}},
        {"type": "response.completed", "response": {"status": "completed", "output": [{"type": "message"}]}},
        {
            "type": "response.completed",
            "response": {"status": "completed", "output": [{"type": "message", "content": [5]}]},
        },
        {"type": "response.completed", "response": {"status": "completed", "incomplete_details": 5}},
        {"type": "response.failed", "response": "boom"},
        {"type": "response.failed", "response": {"error": "boom"}},
    ],
)
async def test_an_odd_body_is_a_broken_answer(event: dict[str, Any]) -> None:
    """Whatever a server sends, a run ends in a result."""
    async with ChatServer(lambda _: events(event)) as server:
        result = await hosted(server).run("hello")
    assert result.status == "failed"
    assert result.problem is not None
    assert result.problem.code == "worker_broken"


async def test_it_waits_for_hours_by_itself() -> None:
    """The provider's row knows that an answer may take an hour; nobody has to say so."""
    assert Endpoint("https://example.org/v1", provider="fugu").timeouts.first_byte == 3600
    assert Endpoint("https://example.org/v1").timeouts.first_byte == 120
