"""Half, misplaced and foreign answers of servers: each ends right or as an error, by each API and client."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Literal

import pytest
from servers.chat_server import USAGE, Call, ChatServer, Reply, chunk, completion, events, whole

from podium import Conductor
from podium.errors import PlannerError
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner, Planner, PlanRequest, PlanText
from podium.types import Completion, Plan, Result, Step
from podium.workers import ChatWorker, Endpoint, Request, ScriptedWorker, Worker
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio

PLAN = FixedPlanner(Plan((Step(0, "Say it."),)))
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
GOOD = {"type": "text", "text": "good"}
HM = {"role": "assistant", "content": None, "reasoning_content": "hm"}
Face = Literal["worker", "streamed worker"]

BROKEN, EMPTY = "worker_broken", "answer_empty"
REFUSED, TOOLS, FAULT = "answer_refused", "answer_tool_calls", "worker_unavailable"
MESSAGES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "text for content": ({"text": "half"}, BROKEN),
    "parts for content": ({"parts": [{"text": "half"}]}, BROKEN),
    "a part that is a bare text": ({"content": [GOOD, "half"]}, BROKEN),
    "a part without type and text": ({"content": [GOOD, {"content": "half"}]}, BROKEN),
    "a part with a null text": ({"content": [{"type": "text", "text": None}]}, BROKEN),
    "a part with a null type": ({"content": [{"type": None, "text": "half"}]}, BROKEN),
    "a part without its text": ({"content": [{"type": "output_text"}]}, BROKEN),
    "a part that is a list": ({"content": [[{"type": "text", "text": "half"}]]}, BROKEN),
    "a part that is null": ({"content": [GOOD, None]}, BROKEN),
    "content that is an object": ({"content": {"type": "text", "text": "half"}}, BROKEN),
    "the role of a user": ({"role": "user", "content": "half"}, BROKEN),
    "the role of a tool": ({"role": "tool", "content": "half"}, BROKEN),
    "calls that are no list": ({"content": "half", "tool_calls": CALL}, TOOLS),
    "a call that is no object": ({"content": "half", "function_call": "look"}, BROKEN),
    "a call without a name": ({"content": "half", "tool_calls": [{"id": "1", "type": "function"}]}, BROKEN),
    "a call of no tool that was offered": ({"content": "half", "tool_calls": [CALL]}, TOOLS),
    "a refusal": ({"content": "half", "refusal": "I would rather not"}, REFUSED),
    "a refusal that is no text": ({"content": "half", "refusal": {"text": "no"}}, REFUSED),
    "an error in the message": ({"content": "half", "error": {"message": "sunk"}}, BROKEN),
    "an image beside the text": ({"content": "half", "images": [IMAGE]}, "partial"),
    "sound beside the text": ({"content": "half", "audio": {"data": "AA=="}}, "partial"),
    "an image among the parts": ({"content": [{"type": "text", "text": "half"}, IMAGE]}, "partial"),
}  # fmt: skip
"""A message, or the first piece of one, and the code of its problem."""
CHOICES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "text in the choice": ({"text": "half"}, BROKEN),
    "content in the choice": ({"content": "half"}, BROKEN),
    "an error in the choice": ({"error": {"message": "sunk"}}, BROKEN),
    "an overload in the choice": ({"error": {"code": 503, "message": "sunk"}}, FAULT),
    "an error without a text": ({"error": True}, BROKEN),
    "a message that is a text": ({"delta": "half", "message": "half"}, BROKEN),
    "an index that is no number": ({"index": "0"}, BROKEN),
    "a filter": ({"finish_reason": "content_filter"}, REFUSED),
    "calls that never came": ({"finish_reason": "tool_calls"}, REFUSED),
    "an unknown end": ({"finish_reason": "weird"}, BROKEN),
    "an end that is no text": ({"finish_reason": True}, BROKEN),
    "the token limit": ({"finish_reason": "length"}, "cut"),
}
"""Fields of the choice of a whole answer, or of a piece, and the code of the problem."""


def _body(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop", **choice}], "usage": dict(USAGE)}


def _chat_reply(message: Mapping[str, Any], choice: Mapping[str, Any]) -> Callable[[Call], Reply]:
    """Return an answer whose message and choice have these fields; a stream has a good piece before them."""

    def reply(call: Call) -> Reply:
        if not call.body.get("stream"):
            return whole(_body(**{"message": {"role": "assistant", **message}, **choice}))
        good, last = chunk({"role": "assistant", "content": "good "}), chunk({}, finish_reason="stop")
        if "finish_reason" in choice:
            last["choices"][0] |= choice
            return events(good, chunk(message), last)
        odd = chunk(message)
        odd["choices"][0] |= choice
        return events(good, odd, last)

    return reply


def _whole_chat(call: Call, body: Mapping[str, Any]) -> Reply:
    return events(chunk({"content": "good "}), body) if call.body.get("stream") else whole(body)


CHAT: dict[str, tuple[Callable[[Call], Reply], str]] = {
    **{name: (_chat_reply(message, {}), code) for name, (message, code) in MESSAGES.items()},
    **{
        name: (_chat_reply({"content": "half"} if "finish_reason" in choice else {}, choice), code)
        for name, (choice, code) in CHOICES.items()
    },
    "only reasoning": (
        lambda c: events(chunk(HM), _body(delta={})) if c.body.get("stream") else whole(_body(message=HM)),
        EMPTY,
    ),
    "two first choices": (lambda c: _whole_chat(c, {"choices": [_body()["choices"][0]] * 2}), BROKEN),
    "no choices": (lambda c: _whole_chat(c, {"choices": [], "usage": dict(USAGE)}), BROKEN),
    "only usage": (lambda c: _whole_chat(c, {"usage": dict(USAGE)}), BROKEN),
    "a list of answers": (lambda c: whole(json.dumps([completion("a"), completion("b")])), BROKEN),
    "an answer of the other API": (lambda c: _whole_chat(c, _response([GOOD])), BROKEN),
}
STREAMS: Mapping[str, tuple[Reply, str]] = {
    "the whole message at the end": (
        events(chunk({"content": "four"}), _body(message={"role": "assistant", "content": "four"})),
        "ok",
    ),
    "another message at the end": (
        events(chunk({"content": "four"}), _body(message={"role": "assistant", "content": "five"})),
        BROKEN,
    ),
    "the text twice in a piece": (
        events({"choices": [{"index": 0, "delta": {"content": "four"}, "text": "four"}]}, _body()),
        "ok",
    ),
    "a piece without the name of its field": (
        events(chunk({"content": "good"}), json.dumps(chunk({"content": "a"})).encode() + b"\n\n", _body()),
        BROKEN,
    ),
    "a piece of a second answer": (
        events(chunk({"content": "four"}), {"choices": [{"index": 1, "delta": {"content": "x"}}]}, _body()),
        "ok",
    ),
}


def _response(parts: object, **more: Any) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "content": parts}
    return {"object": "response", "status": "completed", "error": None, "output": [message], **more}


FOUR = {"type": "output_text", "text": "four"}
RESPONSES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a part that is a bare text": (_response([FOUR, "half"]), BROKEN),
    "a part without a type": (_response([FOUR, {"text": "half"}]), BROKEN),
    "a part with a null text": (_response([{"type": "output_text", "text": None}]), BROKEN),
    "a part without its text": (_response([FOUR, {"type": "output_text"}]), BROKEN),
    "content that is a text": (_response("half"), BROKEN),
    "no content": (_response(None), BROKEN),
    "the role of a user": (
        _response([], output=[{"type": "message", "role": "user", "content": [FOUR]}]),
        BROKEN,
    ),
    "an item that is no object": (_response([], output=["half"]), BROKEN),
    "items that are no list": (_response([], output={"text": "half"}), BROKEN),
    "a refusal": (_response([FOUR, {"type": "refusal", "refusal": "I would rather not"}]), REFUSED),
    "a filter": (
        _response([FOUR], status="incomplete", incomplete_details={"reason": "content_filter"}),
        REFUSED,
    ),
    "an error": (_response([FOUR], error={"message": "sunk"}), BROKEN),
    "a failure": (_response([FOUR], status="failed"), BROKEN),
    "no status": (_response([FOUR], status=None), BROKEN),
    "the token limit": (
        _response([FOUR], status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        "cut",
    ),
    "a message that was cut": (
        _response(
            [],
            output=[{"type": "message", "role": "assistant", "status": "incomplete", "content": [FOUR]}],
        ),
        "cut",
    ),
    "an image among the parts": (_response([FOUR, {"type": "output_image", "url": "data:,"}]), "partial"),
    "a call of no tool that was offered": (
        _response([FOUR], output=[{"type": "function_call", "name": "look", "arguments": "{}"}]),
        TOOLS,
    ),
    "a call without a name": (_response([], output=[{"type": "function_call", "arguments": "{}"}]), BROKEN),
    "only reasoning": (_response([], output=[{"type": "reasoning", "summary": []}]), EMPTY),
    "no output": (_response([], output=[]), EMPTY),
    "an answer of the other API": (completion("half"), BROKEN),
    "a whole answer": (_response([FOUR]), "ok"),
}
DELTA = {"type": "response.output_text.delta", "delta": "four"}
END = {"type": "response.completed", "response": _response([FOUR])}
EMPTY_END = {"type": "response.completed", "response": _response([], output=[])}
RESPONSE_EVENTS: Mapping[str, tuple[Reply, str]] = {
    "a piece with a null text": (events(DELTA | {"delta": None}, DELTA, EMPTY_END), BROKEN),
    "a piece that is an object": (events(DELTA, DELTA | {"delta": {"text": "x"}}, EMPTY_END), BROKEN),
    "a refusal in pieces": (
        events(DELTA, {"type": "response.refusal.delta", "delta": "I would rather not"}, EMPTY_END),
        REFUSED,
    ),
    "pieces that differ from the whole": (events(DELTA | {"delta": "five"}, END), BROKEN),
    "no end": (events(DELTA), BROKEN),
    "pieces of the other API": (events(chunk({"content": "half"}), END), "ok"),
    "an end without the text": (events(DELTA, EMPTY_END), "ok"),
    "an error in the end": (
        events(DELTA, END | {"response": _response([FOUR], error={"message": "sunk"})}),
        BROKEN,
    ),
}


async def _ended(result: Result, code: str, calls: int) -> None:
    if code == "ok":
        assert (result.status, result.answer, result.problem) == ("ok", "four", None)
        return
    assert result.problem is not None
    assert result.problem.code == code, result.problem
    assert result.status != "ok"
    assert calls == 1
    assert code in ("partial", "cut") or result.usage.total_tokens > 0


async def _ask(reply: Callable[[Call], Reply], face: Face) -> tuple[Result, int]:
    async with ChatServer(reply) as server:
        endpoint = Endpoint(server.url)
        options: dict[str, Any] = {} if face == "worker" else {"on_event": lambda event: None}
        conductor = Conductor(PLAN, [ChatWorker("m", endpoint=endpoint)], retry=Retry(attempts=1))
        return await conductor.run("What?", **options), len(server.calls)


@pytest.mark.parametrize("face", ["worker", "streamed worker"])
@pytest.mark.parametrize("case", CHAT)
async def test_a_chat_completion_is_right_or_an_error(case: str, face: Face) -> None:
    """No part of it is dropped without a word."""
    reply, code = CHAT[case]
    await _ended(*_and(await _ask(reply, face), code))


@pytest.mark.parametrize("case", STREAMS)
async def test_a_stream_of_chat_completions_is_right_or_an_error(case: str) -> None:
    """No piece of it is dropped without a word, and none counts twice."""
    reply, code = STREAMS[case]
    await _ended(*_and(await _ask(lambda call: reply, "streamed worker"), code))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", RESPONSES)
async def test_a_response_is_right_or_an_error(case: str, *, stream: bool) -> None:
    """The same by the Responses API, whole or as the last event of a stream."""
    body, code = RESPONSES[case]
    kind = "response.incomplete" if body.get("status") == "incomplete" else "response.completed"
    reply = events({"type": kind, "response": body}, done=False) if stream else whole(body)
    await _ended(*_and(await _respond(reply, stream=stream), code))


@pytest.mark.parametrize("case", RESPONSE_EVENTS)
async def test_a_streamed_response_is_right_or_an_error(case: str) -> None:
    """Also if a piece of it is odd."""
    reply, code = RESPONSE_EVENTS[case]
    await _ended(*_and(await _respond(reply, stream=True), code))


async def _respond(reply: Reply, *, stream: bool) -> tuple[Result, int]:
    async with ChatServer(lambda call: reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url), api="responses")
        conductor, options = Conductor.of(worker, retry=Retry(attempts=1)), {"on_event": lambda event: None}
        return await conductor.run("What?", **(options if stream else {})), len(server.calls)


def _and(asked: tuple[Result, int], code: str) -> tuple[Result, str, int]:
    return asked[0], code, asked[1]


class _Filtered(Worker):
    """A worker of a user, whose completion has a finish reason."""

    def __init__(self, reason: Any) -> None:
        self.card = ScriptedWorker("own", "x").card
        self._reason = reason

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        yield "half"
        yield Completion("half", finish_reason=self._reason)


@pytest.mark.parametrize("reason", ["content_filter", "tool_calls"])
@pytest.mark.parametrize("kind", ["function", "own"])
async def test_a_completion_that_is_no_answer_is_a_refusal(kind: str, reason: Any) -> None:
    """Whatever worker returns it: the step fails, and a fallback may answer."""
    made = _Filtered(reason)
    if kind == "function":
        made = FunctionWorker(lambda _: Completion("half", finish_reason=reason), card=made.card)  # type: ignore[assignment]
    result = await Conductor(PLAN, [made]).run("What?")
    assert result.problem is not None
    assert (result.status, result.problem.code, result.outcomes[0].attempts) == ("failed", REFUSED, 1)
    pool, retry = [made, ScriptedWorker("other", "four")], Retry(fallbacks={"own": ("other",)})
    assert (await Conductor(PLAN, pool, retry=retry).run("What?")).answer == "four"


@pytest.mark.parametrize("reason", ["content_filter", "tool_calls"])
@pytest.mark.parametrize("kind", ["own", "model"])
async def test_a_plan_that_ends_so_is_none(kind: str, reason: Any) -> None:
    """A planner is a worker in this."""
    text = '{"worker": 0, "subtask": "Say it.", "access": []}'

    class Own(Planner):
        name = "own"

        async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
            yield PlanText(text=text, finish_reason=reason)

    body = completion(text, finish_reason=reason)
    async with ChatServer(lambda call: whole(body)) as server:
        planner = Own() if kind == "own" else ChatPlanner(ChatWorker("m", endpoint=Endpoint(server.url)))
        with pytest.raises(PlannerError) as caught:
            await Conductor(planner, [ScriptedWorker("a", "A")]).run("What?")
    assert caught.value.calls[-1].problem.code == REFUSED
