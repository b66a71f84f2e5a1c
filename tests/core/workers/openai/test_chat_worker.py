"""What a chat worker sends, and what it makes of good answers."""

import json

import pytest
from servers.chat_call import ask
from servers.chat_server import MODEL, Call, Reply, chunk, completion, events, says, whole

from podium.types import Message, Sampling
from podium.usage import Usage

pytestmark = pytest.mark.anyio

CALL = {"id": "c7", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "oboe"}'}}


def hello(call: Call) -> Reply:
    """Answer in three words."""
    return says(call, "Good day, world")


async def test_posts_a_chat_completion() -> None:
    """The request is a plain chat completion, with the key as a bearer token and one's own headers."""
    asked = await ask(hello, model="tiny", api_key="sk-12345678", headers={"X-Team": "strings"})
    assert asked.call.headers["x-team"] == "strings"
    assert asked.call.path == "/v1/chat/completions"
    assert asked.call.headers["authorization"] == "Bearer sk-12345678"
    assert asked.call.headers["accept-encoding"] == "identity"
    assert asked.body == {"model": "tiny", "messages": [{"role": "user", "content": "why?"}]}


async def test_answers_in_one_piece_where_nobody_reads_along() -> None:
    """Without a reader the answer is asked for whole; without a key, no authorization is sent."""
    asked = await ask(hello)
    assert "authorization" not in asked.call.headers
    assert asked.pieces == []
    assert asked.completion.text == "Good day, world"
    assert asked.completion.finish_reason == "stop"
    assert asked.completion.model == MODEL
    assert asked.completion.usage == Usage(211, 7)


async def test_streams_where_somebody_reads_along() -> None:
    """With a reader the text comes in pieces, with usage at the end."""
    asked = await ask(hello, stream=True)
    assert asked.body["stream"] is True
    assert asked.body["stream_options"] == {"include_usage": True}
    assert asked.pieces == ["Good ", "day, ", "world"]
    assert asked.completion.text == "Good day, world"
    assert asked.completion.usage == Usage(211, 7)


@pytest.mark.parametrize("stream", [False, True])
async def test_returns_tool_calls(*, stream: bool) -> None:
    """Calls the model asks for are returned, with an empty text."""
    asked = await ask(
        lambda call: says(call, "", tool_calls=[CALL], finish_reason="tool_calls"), stream=stream
    )
    assert asked.completion.tool_calls == (CALL,)
    assert asked.completion.finish_reason == "tool_calls"
    assert asked.completion.text == ""


async def test_joins_tool_calls_that_come_in_pieces() -> None:
    """Arguments of several calls are put together by index."""
    pieces = [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "[1"}},
        {"index": 0, "function": {"arguments": '{"x":'}},
        {"index": 0, "function": {"arguments": "1}"}},
        {"index": 1, "function": {"arguments": "]"}},
    ]
    frames = [chunk({"tool_calls": [piece]}) for piece in pieces]
    asked = await ask(lambda _: events(*frames, chunk({}, finish_reason="tool_calls")), stream=True)
    assert [(c["id"], c["function"]) for c in asked.completion.tool_calls] == [
        ("a", {"name": "f", "arguments": '{"x":1}'}),
        ("b", {"name": "g", "arguments": "[1]"}),
    ]


async def test_keeps_reasoning_out_of_the_text() -> None:
    """What a model thinks aloud in a field or part of its own is no part of the answer."""
    deltas = [{"reasoning_content": "hm"}, {"reasoning": "hm"}, {"content": "42"}]
    frames = [chunk(delta) for delta in deltas]
    asked = await ask(lambda _: events(*frames, chunk({}, finish_reason="stop")), stream=True)
    assert asked.completion.text == "42"
    parts = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "4"}, {"type": "text", "text": "2"}]
    assert (await ask(lambda _: whole(completion(parts)))).completion.text == "42"


async def test_passes_messages_through() -> None:
    """Images in a message, and text in any script, reach the server untouched."""
    parts = ({"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:,x"}})
    asked = await ask(hello, messages=[Message("user", parts), Message("user", "為什麼? \N{VIOLIN}")])
    assert [each["content"] for each in asked.body["messages"]] == [list(parts), "為什麼? \N{VIOLIN}"]
    assert json.loads(asked.call.raw) == asked.body


@pytest.mark.parametrize("stream", [False, True])
async def test_makes_text_storable(*, stream: bool) -> None:
    """Lone surrogates and NUL are replaced before anybody sees them."""
    asked = await ask(lambda call: says(call, "a\0b\ud800c", pieces=1), stream=stream)
    assert asked.completion.text == "a\ufffdb\ufffdc"
    assert "".join(asked.pieces) in ("", asked.completion.text)


async def test_joins_a_surrogate_pair_cut_in_two() -> None:
    """A character whose halves come in two events arrives whole, and so does one cut between bytes."""
    asked = await ask(lambda call: says(call, "Grüße 世界 \N{VIOLIN}", pieces=2, slice_size=3), stream=True)
    assert asked.completion.text == "Grüße 世界 \N{VIOLIN}"
    frames = [chunk({"content": half}) for half in ("\ud83c", "\udfbb!")]
    asked = await ask(lambda _: events(*frames, chunk({}, finish_reason="stop")), stream=True)
    assert asked.completion.text == "\N{VIOLIN}!"
    assert "".join(asked.pieces) == "\N{VIOLIN}!"


@pytest.mark.parametrize(
    ("said", "meant"),
    [("max_tokens", "length"), ("MAX_TOKENS", "length"), ("end_turn", "stop"), ("STOP", "stop"),
     ("eos", "stop"), ("stop_sequence", "stop")]
)  # fmt: skip
async def test_understands_words_for_the_end(said: str, meant: str) -> None:
    """Each provider's word for why it stopped is understood."""
    asked = await ask(lambda call: says(call, "so far", finish_reason=said))
    assert asked.completion.finish_reason == meant


@pytest.mark.parametrize("reasons", [("length", "stop"), ("stop", "length")])
async def test_a_stop_unmakes_no_other_finish_reason(reasons: tuple[str, str]) -> None:
    """An answer that was cut stays cut, whatever the stream says besides."""
    ends = [chunk({}, finish_reason=reason) for reason in reasons]
    asked = await ask(lambda _: events(chunk({"content": "so far"}), *ends), stream=True)
    assert asked.completion.finish_reason == "length"


async def test_reads_the_first_choice() -> None:
    """The choice of index 0 counts, wherever it stands."""
    frames = [chunk({"content": "a1"}), chunk({"content": "b1"}), chunk({"content": "a2"}), chunk({})]
    frames[1]["choices"][0]["index"] = 1
    frames[3]["choices"][0] |= {"index": 1, "finish_reason": "length"}
    frames.append(chunk({}, finish_reason="stop"))
    asked = await ask(lambda _: events(*frames), stream=True)
    assert (asked.completion.text, asked.completion.finish_reason) == ("a1a2", "stop")
    body, other = completion("first"), completion("second")["choices"][0] | {"index": 1}
    body["choices"].insert(0, other)
    assert (await ask(lambda _: whole(body))).completion.text == "first"


async def test_a_request_overrides_the_workers_sampling() -> None:
    """The worker's sampling holds where the request does not say."""
    defaults = Sampling(temperature=0.7, max_tokens=100)
    asked = await ask(hello, provider="vllm", defaults=defaults, sampling=Sampling(temperature=0.0))
    assert (asked.body["temperature"], asked.body["max_tokens"]) == (0.0, 100)
