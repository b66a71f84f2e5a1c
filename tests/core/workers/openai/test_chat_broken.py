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

from podium.errors import WorkerBroken
from podium.usage import Usage

pytestmark = pytest.mark.anyio

PIECE = chunk({"content": "half"})
END = chunk({}, finish_reason="stop")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(whole("<html><body>Welcome</body></html>", content_type="text/html"), id="html"),
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
        pytest.param(events(PIECE, END, {"error": "boom"}), id="an error as text after the end"),
        pytest.param(whole("<html>hello</html>", content_type="text/html"), id="html"),
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
