"""Half, misplaced, foreign and refused answers of servers: each ends right or as an error, by each API."""

import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from contracts.odd_answers import ODD_ANSWERS, OF_OTHER_SERVERS, check, check_wrong_url
from core.actors import Actor, yielding
from servers.chat_call import ask
from servers.chat_server import CUT, USAGE, Call, ChatServer, Reply, chunk, completion, events, says, whole

from podium import Conductor, FunctionWorker, Plan, Result, Retry, Step
from podium.errors import PlannerError, WorkerError
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import ChatWorker, Endpoint, ScriptedWorker, Worker

pytestmark = pytest.mark.anyio

PLAN = FixedPlanner(Plan((Step(0, "Say it."),)))
CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
GOOD = {"type": "text", "text": "good"}
FILTERED = {"hate": {"filtered": True, "severity": "high"}}
BROKEN, EMPTY = "worker_broken", "answer_empty"
REFUSED, TOOLS, FAULT = "answer_refused", "answer_tool_calls", "worker_unavailable"
MESSAGES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "text for content": ({"text": "half"}, BROKEN),
    "a part that is a bare text": ({"content": [GOOD, "half"]}, BROKEN),
    "a part with a null text": ({"content": [{"type": "text", "text": None}]}, BROKEN),
    "a part with two texts": ({"content": [GOOD | {"content": "lost"}]}, BROKEN),
    "the role of a user": ({"role": "user", "content": "half"}, BROKEN),
    "calls that are no list": ({"content": "half", "tool_calls": CALL}, TOOLS),
    "a call that is no object": ({"content": "half", "function_call": "look"}, BROKEN),
    "a call without a name": ({"content": "half", "tool_calls": [{"id": "1", "type": "function"}]}, BROKEN),
    "a call of the legacy form": ({"function_call": {"name": "look", "arguments": "{}"}}, TOOLS),
    "a refusal among the parts": ({"content": [GOOD, {"type": "refusal", "refusal": "no"}]}, REFUSED),
    "an error in the message": ({"content": "half", "error": {"message": "sunk"}}, BROKEN),
    "an image among the parts": ({"content": [{"type": "text", "text": "half"}, IMAGE]}, "partial")
}  # fmt: skip
"""A message, or the second piece of one, and the code of its problem."""
CHOICES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "text in the choice": ({"text": "half"}, BROKEN),
    "an error in the choice": ({"error": {"message": "sunk"}}, BROKEN),
    "an overload in the choice": ({"error": {"code": 503, "message": "sunk"}}, FAULT),
    "an index that is no number": ({"index": "0"}, BROKEN),
    "a filter's result beside a stop": ({"content_filter_results": FILTERED}, REFUSED),
    "calls that never came": ({"finish_reason": "tool_calls"}, REFUSED),
    "no end": ({"finish_reason": None}, BROKEN),
    "the token limit": ({"finish_reason": "length"}, "cut"),
}
"""Fields of the choice of a whole answer, or of a piece, and the code of the problem."""
TOPS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "text beside the choices": ({"text": "lost"}, BROKEN),
    "Gemini's answer": ({"candidates": [{"content": {"parts": [{"text": "lost"}]}}]}, BROKEN),
    "errors": ({"errors": [{"message": "boom"}]}, BROKEN),
    "a status of failure": ({"status": "failed"}, BROKEN),
}


def _body(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop", **choice}], "usage": dict(USAGE)}


def _chat_reply(message: Any, choice: Any, top: Any) -> Callable[[Call], Reply]:
    """Return an answer whose message, choice and body have these fields; a stream has a good piece before."""

    def reply(call: Call) -> Reply:
        if not call.body.get("stream"):
            return whole(_body(**{"message": {"role": "assistant", **message}, **choice}) | top)
        good, last = chunk({"role": "assistant", "content": "good "}), chunk({}, finish_reason="stop")
        if "finish_reason" in choice:
            last["choices"][0] |= choice
            return events(good, chunk(message), last)
        odd = chunk(message) | top
        odd["choices"][0] |= choice
        return events(good, odd, last)

    return reply


HALF = {"content": "half"}
CHAT: dict[str, tuple[Callable[[Call], Reply], str]] = {
    **{name: (_chat_reply(message, {}, {}), code) for name, (message, code) in MESSAGES.items()},
    **{
        name: (_chat_reply(HALF if "finish_reason" in choice else {}, choice, {}), code)
        for name, (choice, code) in CHOICES.items()
    },
    **{name: (_chat_reply(HALF, {}, top), code) for name, (top, code) in TOPS.items()},
}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
PACKED = gzip.compress(json.dumps(completion("boo" * 10**6)).encode())
WHOLE: Mapping[str, tuple[Reply, str]] = {
    "nothing": (whole(""), BROKEN),
    "no choices": (whole({"choices": [], "usage": dict(USAGE)}), BROKEN),
    "two first choices": (whole({"choices": [_body(message=HALF)["choices"][0]] * 2}), BROKEN),
    "null content": (whole(completion(None)), EMPTY),
    "only reasoning": (whole(_body(message={"content": None, "reasoning_content": "hm"})), EMPTY),
    "an image alone": (whole(completion([IMAGE])), "worker_failed"),
    "a body that was cut": (Reply((HEAD, json.dumps(completion("x"))[:40].encode(), CUT)), BROKEN),
    "too long": (whole(b"x" * (33 * 2**20)), BROKEN),
    "compressed": (whole(PACKED, headers={"Content-Encoding": "gzip"}), BROKEN),
}
PIECE, END = chunk(HALF), chunk({}, finish_reason="stop")
FOUR_PIECE = chunk({"content": "four"})
NAMELESS = json.dumps(chunk({"content": "a"})).encode() + b"\n\n"
STREAMS: Mapping[str, tuple[Reply, str]] = {
    "done without an end": (events(PIECE), BROKEN),
    "no end": (events(PIECE, done=False), BROKEN),
    "a stream that was closed": (events(PIECE, CUT), BROKEN),
    "a cut within a character": (events(PIECE, b'data: {"choices": "caf\xc3', done=False), BROKEN),
    "an event that is not json": (events(PIECE, b"data: {half\n\n", END), BROKEN),
    "tool calls of another shape": (events(chunk({"tool_calls": [7]}), END), BROKEN),
    "an end without a text": (events(END), EMPTY),
    "an error after the end": (events(PIECE, END, {"error": {"message": "boom"}}), BROKEN),
    "another message at the end": (events(FOUR_PIECE, _body(message={"content": "five"})), BROKEN),
    "a piece without the name of its field": (events(PIECE, NAMELESS, END), BROKEN),
    "the whole message at the end": (events(FOUR_PIECE, _body(message={"content": "four"})), "ok"),
    "no done": (events(FOUR_PIECE, END, done=False), "ok"),
    "half a frame after the end": (events(FOUR_PIECE, END, b'data: {"choi', done=False), "ok"),
    "keep-alives": (events(b": wait\n\n", FOUR_PIECE, b": wait\n\ndata:\n\n", END), "ok"),
    "byte by byte": (events(FOUR_PIECE, END, slice_size=1), "ok"),
    "a whole answer": (whole(completion("four")), "ok"),
}


def _response(parts: object, **more: Any) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "content": parts}
    return {"object": "response", "status": "completed", "error": None, "output": [message], **more}


def _incomplete(reason: str) -> dict[str, Any]:
    return _response([FOUR], status="incomplete", incomplete_details={"reason": reason})


FOUR = {"type": "output_text", "text": "four"}
OF_USER = {"type": "message", "role": "user", "content": [FOUR]}
TOOL = {"type": "function_call", "name": "look", "arguments": "{}"}
NO = {"type": "refusal", "refusal": "I would rather not"}
RESPONSES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "a part that is a bare text": (_response([FOUR, "half"]), BROKEN),
    "a part with a null text": (_response([FOUR | {"text": None}]), BROKEN),
    "content that is a text": (_response("half"), BROKEN),
    "the role of a user": (_response([], output=[OF_USER]), BROKEN),
    "a refusal": (_response([FOUR, NO]), REFUSED),
    "a filter": (_incomplete("content_filter"), REFUSED),
    "an error": (_response([FOUR], error={"message": "sunk"}), BROKEN),
    "the token limit": (_incomplete("max_output_tokens"), "cut"),
    "an image among the parts": (_response([FOUR, {"type": "output_image", "url": "data:,"}]), "partial"),
    "a call of no tool that was offered": (_response([], output=[TOOL]), TOOLS),
    "a call without a name": (_response([], output=[{"type": "function_call", "arguments": "{}"}]), BROKEN),
    "only reasoning": (_response([], output=[{"type": "reasoning", "summary": []}]), EMPTY),
    "an answer of the other API": (completion("half"), BROKEN),
    "a whole answer": (_response([FOUR]), "ok"),
}
DELTA = {"type": "response.output_text.delta", "delta": "four"}
COMPLETED = {"type": "response.completed", "response": _response([FOUR])}
EMPTY_END = {"type": "response.completed", "response": _response([], output=[])}
RESPONSE_EVENTS: Mapping[str, tuple[Reply, str]] = {
    "a piece that is an object": (events(DELTA, DELTA | {"delta": {"text": "x"}}, EMPTY_END), BROKEN),
    "a refusal in pieces": (events(DELTA, DELTA | {"type": "response.refusal.delta"}, EMPTY_END), REFUSED),
    "pieces that differ from the whole": (events(DELTA | {"delta": "five"}, COMPLETED), BROKEN),
    "no end": (events(DELTA), BROKEN),
    "pieces of the other API": (events(PIECE, COMPLETED), "ok"),
    "an end without the text": (events(DELTA, EMPTY_END), "ok"),
}


async def _check(reply: Callable[[Call], Reply], code: str, *, stream: bool, responses: bool = False) -> None:
    """Check how a run ends whose worker's server answers with `reply`."""
    options: dict[str, Any] = {"on_event": lambda event: None} if stream else {}
    async with ChatServer(reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url), api="responses" if responses else "chat")
        retry = Retry(attempts=1)
        conductor = Conductor.of(worker, retry=retry) if responses else Conductor(PLAN, [worker], retry=retry)
        result: Result = await conductor.run("What?", **options)
        assert len(server.calls) == 1
    if code == "ok":
        assert (result.status, result.answer, result.problem) == ("ok", "four", None)
        return
    assert result.problem.code == code, result.problem
    assert result.status != "ok"
    assert code in ("partial", "cut") or result.usage.total_tokens > 0


@pytest.mark.parametrize("case", CHAT)
async def test_a_chat_completion_is_right_or_an_error(case: str) -> None:
    reply, code = CHAT[case]
    for stream in (False, True):
        await _check(reply, code, stream=stream)


FIXED = {f"whole: {name}": (*case, {"stream": False}) for name, case in WHOLE.items()}
FIXED |= {f"stream: {name}": (*case, {"stream": True}) for name, case in STREAMS.items()}
OF_EVENTS = {"stream": True, "responses": True}
FIXED |= {f"response: {name}": (*case, OF_EVENTS) for name, case in RESPONSE_EVENTS.items()}


@pytest.mark.parametrize("case", FIXED)
async def test_an_answer_must_be_one_and_a_stream_must_reach_its_end(case: str) -> None:
    """What is none is perhaps paid."""
    reply, code, how = FIXED[case]
    await _check(lambda _: reply, code, **how)


@pytest.mark.parametrize("case", RESPONSES)
async def test_a_response_is_right_or_an_error(case: str) -> None:
    body, code = RESPONSES[case]
    kind = "response.incomplete" if body.get("status") == "incomplete" else "response.completed"
    await _check(lambda _: whole(body), code, stream=False, responses=True)
    last = events({"type": kind, "response": body}, done=False)
    await _check(lambda _: last, code, stream=True, responses=True)


def _worker(url: str) -> Worker:
    return ChatWorker("m", endpoint=Endpoint(url))


@pytest.mark.parametrize("stream", [False, True])
async def test_the_answers_of_the_contract_have_their_codes(*, stream: bool) -> None:
    for odd in ODD_ANSWERS:
        await check(_worker, odd, stream=stream)
    await check_wrong_url(_worker, stream=stream)


async def test_a_planner_whose_url_leads_to_another_server_has_no_plan() -> None:
    async with ChatServer(lambda _: OF_OTHER_SERVERS[0]) as server:
        conductor = Conductor(ChatPlanner(_worker(server.url)), [ScriptedWorker("a", "A")])
        with pytest.raises(PlannerError, match="does the base URL lead to an OpenAI-compatible server"):
            await conductor.run("What?")


async def test_usage_may_come_late_or_never() -> None:
    """A last event without choices is read for it; without any it is estimated, and the answer stands."""
    for stream in (False, True):
        asked = await ask(lambda call: says(call, "x" * 40, usage=None), stream=stream)
        assert asked.completion.usage == Usage(2, 10, estimated=True)
    last = {"choices": [], "usage": dict(USAGE)}
    assert (await ask(lambda _: events(PIECE, END, last), stream=True)).completion.usage == Usage(211, 7)


async def test_length_without_text_says_what_to_do() -> None:
    """A model that thought until its tokens ran out is told from one that says nothing."""
    with pytest.raises(WorkerError, match="raise max_tokens"):
        await ask(lambda _: whole(completion("", finish_reason="length")))


@pytest.mark.parametrize("reason", ["content_filter", "tool_calls"])
@pytest.mark.parametrize("kind", ["function", "own"])
async def test_a_completion_that_is_no_answer_is_a_refusal(kind: str, reason: Any) -> None:
    """Whatever worker returns it: the step fails, and a fallback may answer."""
    answer = Completion("half", finish_reason=reason)
    made: Worker = Actor("own", yielding("half", answer))
    if kind == "function":
        made = FunctionWorker(lambda _: answer, card=made.card)
    result = await Conductor(PLAN, [made]).run("What?")
    assert (result.status, result.problem.code, result.outcomes[0].attempts) == ("failed", REFUSED, 1)
    pool, retry = [made, ScriptedWorker("other", "four")], Retry(fallbacks={"own": ("other",)})
    assert (await Conductor(PLAN, pool, retry=retry).run("What?")).answer == "four"


OFF = {"filtered": False}
FILTERS = {"hate": OFF | {"severity": "safe"}, "jailbreak": OFF | {"detected": False}}
TOKEN = {"token": "half", "logprob": -0.1, "bytes": [104], "top_logprobs": []}
KNOWN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "vllm": (
        {"prompt_logprobs": None, "prompt_token_ids": [1, 2], "kv_transfer_params": None},
        {"stop_reason": 128009, "token_ids": [7], "logprobs": {"content": [TOKEN], "refusal": None}},
        {"reasoning_content": "hm", "reasoning": "hm", "tool_calls": [], "refusal": None, "audio": None}
    ),
    "openrouter": (
        {"provider": "Together", "citations": ["https://example.com"]},
        {"native_finish_reason": "completed", "logprobs": None, "error": None},
        {
            "reasoning_details": [{"type": "reasoning.text", "text": "hm", "format": "unknown", "index": 0}],
            "annotations": [{"type": "url_citation", "url_citation": {"content": "page", "title": "t"}}]
        }
    ),
    "azure": (
        {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERS}]},
        {"content_filter_results": FILTERS, "content_filter_offsets": {"check_offset": 1}},
        {"context": {"citations": [{"content": "a document"}], "intent": "[]"}, "annotations": []}
    ),
    "together": ({"prompt": [], "warnings": None}, {"text": "half", "seed": 7}, {"token_id": 7}),
}  # fmt: skip


@pytest.mark.parametrize("server", KNOWN)
async def test_fields_of_known_servers_are_no_faults(server: str) -> None:
    top, beside, inside = KNOWN[server]
    body, piece, end = completion("half"), chunk(HALF | inside), chunk({}, finish_reason="stop")
    body["choices"][0] |= beside
    body["choices"][0]["message"] |= inside
    piece["choices"][0] |= beside
    for stream, reply in ((False, whole(body | top)), (True, events(piece | top, end | top))):
        asked = await ask(lambda _, reply=reply: reply, stream=stream)
        assert (asked.completion.text, asked.completion.missing) == ("half", None)
