"""What a chat worker sends, and what it makes of good answers."""

import json

import pytest
from servers.chat_call import ask
from servers.chat_server import MODEL, Call, Reply, chunk, completion, events, says, whole

from podium.types import Constraint, Message, Sampling
from podium.usage import Usage
from podium.workers import Card, ChatWorker, Endpoint

pytestmark = pytest.mark.anyio

CALL = {"id": "c7", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "oboe"}'}}


def hello(call: Call) -> Reply:
    """Answer in three words."""
    return says(call, "Good day, world")


async def test_posts_a_chat_completion() -> None:
    """The request is a plain chat completion with the key as a bearer token."""
    asked = await ask(hello, model="tiny", api_key="sk-12345678")
    assert asked.call.path == "/v1/chat/completions"
    assert asked.call.headers["authorization"] == "Bearer sk-12345678"
    assert asked.call.headers["accept-encoding"] == "identity"
    assert asked.body == {"model": "tiny", "messages": [{"role": "user", "content": "why?"}]}


async def test_sends_no_key_where_there_is_none() -> None:
    """An endpoint without a key sends no authorization."""
    assert "authorization" not in (await ask(hello)).call.headers


async def test_sends_headers_of_ones_own() -> None:
    """Headers given to the endpoint go along."""
    asked = await ask(hello, headers={"X-Team": "strings"})
    assert asked.call.headers["x-team"] == "strings"


async def test_answers_in_one_piece_where_nobody_reads_along() -> None:
    """Without a reader the answer is asked for whole."""
    asked = await ask(hello)
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
async def test_estimates_usage_nobody_reports(*, stream: bool) -> None:
    """Missing usage is estimated and marked so."""
    asked = await ask(lambda call: says(call, "x" * 40, usage=None), stream=stream)
    assert asked.completion.usage == Usage(2, 10, estimated=True)


async def test_reads_usage_of_the_last_event_that_has_some() -> None:
    """Where every event reports usage, the last report counts."""

    def script(call: Call) -> Reply:
        counted = [
            {**chunk({"content": "a"}), "usage": {"prompt_tokens": 3, "completion_tokens": n}} for n in (1, 2)
        ]
        return events(*counted, chunk({}, finish_reason="stop"))

    assert (await ask(script, stream=True)).completion.usage == Usage(3, 2)


async def test_reads_a_whole_answer_to_a_streaming_request() -> None:
    """A server that cannot stream is understood all the same."""
    asked = await ask(lambda _: whole(completion("all at once")), stream=True)
    assert asked.pieces == ["all at once"]
    assert asked.completion.text == "all at once"


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
    """What a model thinks aloud in its own field is no part of the answer."""
    deltas = [{"reasoning_content": "hm"}, {"reasoning": "hm"}, {"content": "42"}]
    frames = [chunk(delta) for delta in deltas]
    asked = await ask(lambda _: events(*frames, chunk({}, finish_reason="stop")), stream=True)
    assert asked.completion.text == "42"


async def test_joins_content_parts() -> None:
    """Content given as parts is their text."""
    parts = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "4"}, {"type": "text", "text": "2"}]
    assert (await ask(lambda _: whole(completion(parts)))).completion.text == "42"


async def test_passes_content_parts_through() -> None:
    """Images in a message reach the server untouched."""
    parts = ({"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:,x"}})
    asked = await ask(hello, messages=[Message("user", parts)])
    assert asked.body["messages"][0]["content"] == list(parts)


@pytest.mark.parametrize("stream", [False, True])
async def test_makes_text_storable(*, stream: bool) -> None:
    """Lone surrogates and NUL are replaced before anybody sees them."""
    asked = await ask(lambda call: says(call, "a\0b\ud800c", pieces=1), stream=stream)
    assert asked.completion.text == "a\ufffdb\ufffdc"
    assert "".join(asked.pieces) in ("", asked.completion.text)


async def test_joins_a_surrogate_pair_cut_in_two() -> None:
    """A character whose halves come in two events arrives whole."""
    frames = [chunk({"content": half}) for half in ("\ud83c", "\udfbb!")]
    asked = await ask(lambda _: events(*frames, chunk({}, finish_reason="stop")), stream=True)
    assert asked.completion.text == "\N{VIOLIN}!"
    assert "".join(asked.pieces) == "\N{VIOLIN}!"


@pytest.mark.parametrize(
    ("said", "meant"),
    [("length", "length"), ("max_tokens", "length"), ("MAX_TOKENS", "length"), ("end_turn", "stop"),
     ("STOP", "stop"), ("eos", "stop"), ("stop_sequence", "stop")],
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


async def test_reads_the_first_choice_of_a_stream() -> None:
    """Pieces of further answers are left out, wherever they stand."""
    frames = [chunk({"content": "a1"}), chunk({"content": "b1"}), chunk({"content": "a2"}), chunk({})]
    frames[1]["choices"][0]["index"] = 1
    frames[3]["choices"][0] |= {"index": 1, "finish_reason": "length"}
    frames.append(chunk({}, finish_reason="stop"))
    asked = await ask(lambda _: events(*frames), stream=True)
    assert (asked.completion.text, asked.completion.finish_reason) == ("a1a2", "stop")


async def test_reads_the_first_choice_of_a_whole_answer() -> None:
    """The choice of index 0 counts, also where it does not come first."""
    body, other = completion("first"), completion("second")["choices"][0] | {"index": 1}
    body["choices"].insert(0, other)
    assert (await ask(lambda _: whole(body))).completion.text == "first"


async def test_a_request_overrides_the_workers_sampling() -> None:
    """The worker's sampling holds where the request does not say."""
    asked = await ask(
        hello,
        provider="vllm",
        defaults=Sampling(temperature=0.7, max_tokens=100, stop=("END",)),
        sampling=Sampling(temperature=0.0, seed=7),
    )
    assert asked.body["temperature"] == 0.0
    assert asked.body["seed"] == 7
    assert asked.body["max_tokens"] == 100
    assert asked.body["stop"] == ["END"]


async def test_sends_what_is_not_ascii() -> None:
    """Text in any script arrives as it was written."""
    asked = await ask(hello, messages=[Message("user", "為什麼? \N{VIOLIN}")])
    assert asked.body["messages"][0]["content"] == "為什麼? \N{VIOLIN}"
    assert json.loads(asked.call.raw) == asked.body


async def test_leaves_out_a_constraint_the_server_cannot_keep() -> None:
    """A grammar is not sent to a provider that knows none."""
    constraint = Constraint("grammar", 'root ::= "yes"')
    asked = await ask(hello, provider="ollama", sampling=Sampling(constraint=constraint))
    assert set(asked.body) == {"model", "messages"}


def test_card_defaults_to_the_model() -> None:
    """A worker without a card is called as its model, and its price is unknown."""
    worker = ChatWorker("tiny", endpoint=Endpoint("http://localhost:1/v1"))
    assert worker.card == Card(name="tiny")
    assert worker.card.price is None
