"""What is no whole answer is never taken for one."""

import gzip
import itertools
import json
from typing import Any

import pytest
from servers.chat_call import ask
from servers.chat_server import (
    CUT,
    MODEL,
    RESET,
    USAGE,
    Reply,
    chunk,
    completion,
    events,
    says,
    whole,
)

from podium.errors import AnswerRefused, WorkerBroken, WorkerUnavailable
from podium.usage import Usage

pytestmark = pytest.mark.anyio

PIECE = chunk({"content": "half"})
END = chunk({}, finish_reason="stop")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(whole(""), id="nothing"),
        pytest.param(whole("{"), id="half of json"),
        pytest.param(whole("[1]"), id="not an object"),
        pytest.param(whole("[" * 100_000), id="brackets"),
        pytest.param(whole(b"\xff\xfe\x00"), id="bytes"),
        pytest.param(whole({}), id="an empty object"),
        pytest.param(whole({"choices": []}), id="no choice"),
        pytest.param(whole({"choices": None}), id="null choices"),
        pytest.param(whole({"choices": {"a": 1}}), id="choices of another shape"),
        pytest.param(whole({"choices": [None]}), id="a null choice"),
        pytest.param(whole({"choices": ["hello"]}), id="a text for a choice"),
        pytest.param(whole({"choices": [{"finish_reason": "stop", "message": "hello"}]}), id="text message"),
        pytest.param(whole(completion(None)), id="null content"),
        pytest.param(whole(completion("")), id="empty content"),
        pytest.param(whole(completion(" \n")), id="blank content"),
        pytest.param(whole(completion({"a": 1})), id="content of another shape"),
        pytest.param(whole(completion("half", finish_reason=None)), id="no finish reason"),
        pytest.param(whole(completion("half", finish_reason="error")), id="a finish that is a failure"),
        pytest.param(whole(completion("half", finish_reason="weird")), id="an unknown finish"),
        pytest.param(whole(completion("", finish_reason="length")), id="reasoning used all tokens"),
        pytest.param(Reply((HEAD, json.dumps(completion("x"))[:40].encode(), CUT)), id="cut body"),
        pytest.param(Reply((HEAD, b'{"choices"', RESET)), id="reset body"),
        pytest.param(Reply((b"SSH-2.0-OpenSSH_9.6\r\n\r\n", CUT)), id="not http"),
        pytest.param(whole(b"x" * (33 * 2**20)), id="too long"),
    ],
)
async def test_a_whole_answer_must_be_one(reply: Reply) -> None:
    """A body that is not a whole chat completion is broken, and perhaps paid."""
    with pytest.raises(WorkerBroken) as caught:
        await ask(lambda _: reply)
    assert caught.value.maybe_paid


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(events(PIECE), id="done without a finish reason"),
        pytest.param(events(PIECE, done=False), id="no finish reason"),
        pytest.param(events(PIECE, CUT), id="closed within the stream"),
        pytest.param(events(PIECE, RESET), id="reset within the stream"),
        pytest.param(events(PIECE, b'data: {"choices": [{"del', CUT), id="cut within a frame"),
        pytest.param(events(PIECE, b"data: {half\n\n", END), id="an event that is not json"),
        pytest.param(events(PIECE, b"data: 7\n\n", END), id="an event that is not an object"),
        pytest.param(events(PIECE, {"choices": [7]}, END), id="a choice of another shape"),
        pytest.param(events(chunk({"tool_calls": [7]}), END), id="tool calls of another shape"),
        pytest.param(events(), id="nothing but done"),
        pytest.param(events(done=False), id="nothing"),
        pytest.param(events(END), id="an end without a text"),
        pytest.param(events(PIECE, chunk({}, finish_reason="weird")), id="an unknown finish"),
        pytest.param(events(PIECE, END, {"error": {"message": "boom"}}), id="an error after the end"),
        pytest.param(events(PIECE, {"detail": "boom"}, END), id="an error as detail"),
        pytest.param(events(PIECE, END, {"error": "boom"}), id="an error as text after the end"),
        pytest.param(whole("data: half", content_type="text/event-stream"), id="half of a line"),
        pytest.param(events(b"data: " + b"x" * (10 * 2**20)), id="a line of 10 MiB"),
        pytest.param(events(*itertools.repeat(chunk({"content": "y" * 50_000}), 700)), id="too long"),
    ],
)
async def test_a_stream_must_reach_its_end(reply: Reply) -> None:
    """A stream that breaks off is broken, whatever had come, and perhaps paid."""
    with pytest.raises(WorkerBroken) as caught:
        await ask(lambda _: reply, stream=True)
    assert caught.value.maybe_paid


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(events(PIECE, END, done=False), id="no done"),
        pytest.param(events(PIECE, END, b"data: [DONE]\n\n"), id="done twice"),
        pytest.param(events(PIECE, END, END), id="finish twice"),
        pytest.param(events(PIECE, END, CUT), id="closed after the end"),
        pytest.param(events(PIECE, END, RESET), id="reset after the end"),
        pytest.param(events(PIECE, END, b'data: {"choi', done=False), id="half a frame after the end"),
        pytest.param(events(PIECE, END, b"data: {oops\n\n"), id="garbage after the end"),
        pytest.param(events(b": wait\n\n", PIECE, b": wait\n\ndata:\n\n", END), id="keep-alives"),
        pytest.param(events(PIECE, END, slice_size=1), id="byte by byte"),
        pytest.param(events(b"data: " + json.dumps(PIECE).encode() + b"\r\n\r\n", END), id="crlf"),
        pytest.param(events(PIECE, b"data: " + json.dumps(END).encode(), done=False), id="no last line end"),
    ],
)
async def test_a_stream_whose_end_was_seen_is_whole(frames: Reply) -> None:
    """What servers do after the end of an answer does not unmake it."""
    asked = await ask(lambda _: frames, stream=True)
    assert asked.completion.text == "half"


async def test_usage_after_a_lost_end_is_estimated() -> None:
    """An answer that lost its usage is still an answer."""
    asked = await ask(lambda _: events(PIECE, END, RESET), stream=True)
    assert asked.completion.usage == Usage(2, 1, estimated=True)


async def test_usage_comes_after_the_finish() -> None:
    """A last event without choices is read for its usage."""
    last = {"choices": [], "model": MODEL, "usage": dict(USAGE)}
    asked = await ask(lambda _: events(PIECE, END, last), stream=True)
    assert asked.completion.usage == Usage(211, 7)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_compressed_answer_is_refused(*, stream: bool) -> None:
    """What a few bytes unpack to has no bound, and nobody asked for it."""
    packed = gzip.compress(json.dumps(completion("boo" * 10**6)).encode())
    with pytest.raises(WorkerBroken, match="compressed"):
        await ask(lambda _: whole(packed, headers={"Content-Encoding": "gzip"}), stream=stream)


async def test_multibyte_text_survives_any_cut() -> None:
    """Characters of several bytes are whole however the stream is sliced."""
    asked = await ask(lambda call: says(call, "Grüße 世界 \N{VIOLIN}", pieces=2, slice_size=3), stream=True)
    assert asked.completion.text == "Grüße 世界 \N{VIOLIN}"


async def test_length_without_text_says_what_to_do() -> None:
    """A model that thought until its tokens ran out is told from one that says nothing."""
    reply: Any = whole(completion("", finish_reason="length"))
    with pytest.raises(WorkerBroken, match="raise max_tokens"):
        await ask(lambda _: reply)


LOST = "but only if ann agrees"
IN_PART: tuple[dict[str, Any], ...] = (
    {"output_text": LOST},
    {"value": LOST},
    {"response": LOST},
    {"message": {"content": LOST}},
    {"Content": LOST},
    {"parts": [{"text": LOST}]},
)
IN_CHOICE: tuple[dict[str, Any], ...] = ({"output": LOST}, {"text": LOST}, {"token": {"text": LOST}})
AT_TOP: tuple[dict[str, Any], ...] = (
    {"text": LOST},
    {"content": LOST},
    {"response": LOST},
    {"message": {"role": "assistant", "content": LOST}},
    {"token": {"text": LOST}},
    {"candidates": [{"content": {"parts": [{"text": LOST}]}}]},
    {"type": "response.output_text.delta", "delta": LOST},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": LOST}},
    {"errors": [{"message": "boom"}]},
    {"error": {}},
    {"status": "failed"},
    {"status": "incomplete"},
    {"success": False},
)


@pytest.mark.parametrize("extra", AT_TOP, ids=str)
@pytest.mark.parametrize("where", ["alone", "beside", "whole"])
async def test_text_and_failures_outside_the_choices_are_not_dropped(
    extra: dict[str, Any], where: str
) -> None:
    """An answer of which a part is where no client looks, or that the server calls failed, is none."""
    piece = {"beside": PIECE | extra, "alone": extra, "whole": {}}[where]
    reply = events(PIECE, piece, END) if piece else whole(completion("half") | extra)
    await _is_broken(reply, stream=bool(piece))


@pytest.mark.parametrize("extra", IN_PART, ids=str)
@pytest.mark.parametrize("stream", [False, True])
async def test_text_in_unknown_fields_of_a_message_is_not_dropped(
    extra: dict[str, Any], *, stream: bool
) -> None:
    """Half an answer is none."""
    body = completion("half")
    body["choices"][0]["message"] |= extra
    await _is_broken(events(PIECE, chunk(extra), END) if stream else whole(body), stream=stream)


@pytest.mark.parametrize("extra", [*IN_CHOICE, {"delta": {"content": LOST}}], ids=str)
@pytest.mark.parametrize("stream", [False, True])
async def test_text_in_unknown_fields_of_a_choice_is_not_dropped(
    extra: dict[str, Any], *, stream: bool
) -> None:
    """Also if a choice has two texts."""
    body, piece = completion("half"), chunk({})
    body["choices"][0] |= extra
    piece["choices"][0] |= {"message": {"content": LOST}} if "delta" in extra else extra
    await _is_broken(events(PIECE, piece, END) if stream else whole(body), stream=stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_second_text_in_a_part_is_not_dropped(*, stream: bool) -> None:
    """A part has one text."""
    parts = [{"type": "text", "text": "half", "content": LOST}]
    await _is_broken(
        events(chunk({"content": parts}), END) if stream else whole(completion(parts)), stream=stream
    )


async def _is_broken(reply: Reply, *, stream: bool) -> None:
    with pytest.raises((WorkerBroken, WorkerUnavailable)) as caught:
        await ask(lambda _: reply, stream=stream)
    assert caught.value.maybe_paid


@pytest.mark.parametrize("stream", [False, True])
async def test_a_filter_beside_a_stop_is_a_refusal(*, stream: bool) -> None:
    """The results of Azure's filters count, whatever the finish reason says."""
    filtered = {"content_filter_results": {"hate": {"filtered": True, "severity": "high"}}}
    body, end = completion("half"), chunk({}, finish_reason="stop")
    body["choices"][0] |= filtered
    end["choices"][0] |= filtered
    with pytest.raises(AnswerRefused):
        await ask(lambda _: events(PIECE, end) if stream else whole(body), stream=stream)


FILTERS = {
    "hate": {"filtered": False, "severity": "safe"},
    "jailbreak": {"filtered": False, "detected": False},
}
TOKEN = {"token": "half", "logprob": -0.1, "bytes": [104], "top_logprobs": []}
KNOWN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "vllm": (
        {"prompt_logprobs": None, "prompt_token_ids": [1, 2], "kv_transfer_params": None},
        {"stop_reason": 128009, "token_ids": [7], "logprobs": {"content": [TOKEN], "refusal": None}},
        {"reasoning_content": "hm", "reasoning": "hm", "tool_calls": [], "refusal": None, "audio": None},
    ),
    "llama.cpp": (
        {"timings": {"prompt_n": 1}, "__verbose": {"content": "half", "index": 0}},
        {},
        {"reasoning_content": "hm"},
    ),
    "openrouter": (
        {"provider": "Together", "citations": ["https://example.com"]},
        {"native_finish_reason": "completed", "logprobs": None, "error": None},
        {
            "reasoning": "hm",
            "reasoning_details": [{"type": "reasoning.text", "text": "hm", "format": "unknown", "index": 0}],
            "annotations": [{"type": "url_citation", "url_citation": {"content": "page", "title": "t"}}],
        },
    ),
    "groq": (
        {"x_groq": {"id": "r1"}, "service_tier": "on_demand", "usage_breakdown": None},
        {},
        {"executed_tools": [{"name": "search", "output": "found"}], "channel": "final"},
    ),
    "azure": (
        {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTERS}]},
        {"content_filter_results": FILTERS, "content_filter_offsets": {"check_offset": 1}},
        {"context": {"citations": [{"content": "a document"}], "intent": "[]"}, "annotations": []},
    ),
    "together": ({"prompt": [], "warnings": None}, {"text": "half", "seed": 7}, {"token_id": 7}),
    "spark": ({"code": 0, "message": "Success", "sid": "s1"}, {}, {"plugins_content": None}),
    "minimax": (
        {"base_resp": {"status_code": 0, "status_msg": ""}, "output_sensitive": False},
        {},
        {"name": "MiniMax AI", "audio_content": ""},
    ),
    "gemini": ({"status": "completed"}, {}, {"extra_content": {"google": {"thought_signature": "c2ln"}}}),
    "openai": ({"obfuscation": "xxxx", "service_tier": "default", "moderation": None}, {}, {"refusal": None}),
    "perplexity": ({"search_results": [{"title": "t", "snippet": "s"}], "errors": []}, {}, {}),
}  # fmt: skip


@pytest.mark.parametrize("server", KNOWN)
@pytest.mark.parametrize("stream", [False, True])
async def test_fields_of_known_servers_are_no_faults(server: str, *, stream: bool) -> None:
    """What servers add to whole answers hides no text."""
    top, beside, inside = KNOWN[server]
    body, piece, end = (
        completion("half"),
        chunk({"content": "half"} | inside),
        chunk({}, finish_reason="stop"),
    )
    if server == "perplexity":  # the piece and the text so far; the text and an empty piece
        body["choices"][0]["delta"] = {"role": "assistant", "content": ""}
        piece["choices"][0]["message"] = end["choices"][0]["message"] = {
            "role": "assistant",
            "content": "half",
        }
    body["choices"][0] |= beside
    body["choices"][0]["message"] |= inside
    piece["choices"][0] |= beside
    reply = events(piece | top, end | top) if stream else whole(body | top)
    asked = await ask(lambda _: reply, stream=stream)
    assert (asked.completion.text, asked.completion.missing) == ("half", None)
