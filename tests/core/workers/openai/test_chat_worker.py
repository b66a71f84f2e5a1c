"""What a chat worker sends, and what it makes of good answers, of streams, and of reports of tokens."""

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from itertools import pairwise, repeat
from typing import Any

import pytest
from contracts.worker_contract import WorkerContract
from hypothesis import example, given, strategies as st
from servers.chat_call import ask
from servers.chat_server import MODEL, STALL, Call, ChatServer, Reply, chunk, completion, events, says, whole

from podium import ChatWorker, Endpoint, Sampling
from podium.errors import WorkerBroken
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Worker
from podium.workers.openai.chat_response import read_usage
from podium.workers.openai.http import MAX_LINE, SseEvent, SseReader

pytestmark = pytest.mark.anyio
OPENAI = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}


def hello(call: Call) -> Reply:
    return says(call, "Good day, world")


async def test_posts_a_chat_completion_and_answers_in_one_piece() -> None:
    asked = await ask(hello, model="tiny", api_key="sk-12345678", headers={"X-Team": "strings"})
    sent = {"x-team": "strings", "authorization": "Bearer sk-12345678", "accept-encoding": "identity"}
    assert sent.items() <= asked.call.headers.items()
    assert asked.call.path == "/v1/chat/completions"
    assert asked.body == {"model": "tiny", "messages": [{"role": "user", "content": "why?"}]}
    assert asked.pieces == []
    assert asked.completion == Completion("Good day, world", "stop", usage=Usage(211, 7), model=MODEL)
    assert "authorization" not in (await ask(hello)).call.headers


async def test_streams_where_somebody_reads_along() -> None:
    asked = await ask(hello, stream=True)
    assert asked.body["stream"] is True
    assert asked.body["stream_options"] == {"include_usage": True}
    assert (asked.pieces, asked.completion.text) == (["Good ", "day, ", "world"], "Good day, world")
    assert asked.completion.usage == Usage(211, 7)


async def test_joins_tool_calls_that_come_in_pieces() -> None:
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
    deltas = [{"reasoning_content": "hm"}, {"reasoning": "hm"}, {"content": "42"}]
    frames = [chunk(delta) for delta in deltas]
    asked = await ask(lambda _: events(*frames, chunk({}, finish_reason="stop")), stream=True)
    assert asked.completion.text == "42"
    parts = [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "4"}, {"type": "text", "text": "2"}]
    assert (await ask(lambda _: whole(completion(parts)))).completion.text == "42"


@pytest.mark.parametrize("stream", [False, True])
async def test_makes_text_storable(*, stream: bool) -> None:
    asked = await ask(lambda call: says(call, "a\0b\ud800c", pieces=1), stream=stream)
    assert asked.completion.text == "a\ufffdb\ufffdc"
    assert "".join(asked.pieces) in ("", asked.completion.text)


async def test_joins_a_surrogate_pair_cut_in_two() -> None:
    """A character whose halves come in two events arrives whole, and so does one cut between bytes."""
    asked = await ask(lambda call: says(call, "Grüße 世界 \N{VIOLIN}", pieces=2, slice_size=3), stream=True)
    assert asked.completion.text == "Grüße 世界 \N{VIOLIN}"
    frames = [chunk({"content": half}) for half in ("\ud83c", "\udfbb!")]
    asked = await ask(lambda _: events(*frames, chunk({}, finish_reason="stop")), stream=True)
    assert (asked.completion.text, "".join(asked.pieces)) == ("\N{VIOLIN}!", "\N{VIOLIN}!")


@pytest.mark.parametrize(
    ("said", "meant"),
    [("max_tokens", "length"), ("MAX_TOKENS", "length"), ("end_turn", "stop"), ("STOP", "stop"),
     ("eos", "stop"), ("stop_sequence", "stop")]
)  # fmt: skip
async def test_understands_words_for_the_end(said: str, meant: str) -> None:
    asked = await ask(lambda call: says(call, "so far", finish_reason=said))
    assert asked.completion.finish_reason == meant


@pytest.mark.parametrize("reasons", [("length", "stop"), ("stop", "length")])
async def test_a_stop_unmakes_no_other_finish_reason(reasons: tuple[str, str]) -> None:
    """An answer that was cut stays cut, whatever the stream says besides."""
    ends = [chunk({}, finish_reason=reason) for reason in reasons]
    asked = await ask(lambda _: events(chunk({"content": "so far"}), *ends), stream=True)
    assert asked.completion.finish_reason == "length"


async def test_a_request_overrides_the_workers_sampling() -> None:
    defaults = Sampling(temperature=0.7, max_tokens=100)
    asked = await ask(hello, provider="vllm", defaults=defaults, sampling=Sampling(temperature=0.0))
    assert (asked.body["temperature"], asked.body["max_tokens"]) == (0.0, 100)


OPENAI |= {"prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0}}
OPENAI |= {"completion_tokens_details": {"reasoning_tokens": 30}}
TOO_MUCH = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 9}}
TOO_MUCH |= {"completion_tokens_details": {"reasoning_tokens": 9}}
DEEPSEEK = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}
ANTHROPIC = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90}
ANTHROPIC |= {"cache_creation_input_tokens": 20}
GEMINI = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}
GROK = {**GEMINI, "completion_tokens_details": {"reasoning_tokens": 25}}
FUGU_READ = {"cached_tokens": 2, "orchestration_input_tokens": 30, "orchestration_input_cached_tokens": 3}
FUGU_RESPONSES = {"input_tokens": 20, "output_tokens": 7, "total_tokens": 66}
FUGU_RESPONSES |= {"input_tokens_details": FUGU_READ}
FUGU_RESPONSES |= {"output_tokens_details": {"orchestration_output_tokens": 6, "reasoning_tokens": 1}}
ORCHESTRATION = {"orchestration_input_tokens": 30, "orchestration_output_tokens": 6}
FUGU_FLAT = {"prompt_tokens": 20, "completion_tokens": 7} | ORCHESTRATION
FUGU_NESTED = {"prompt_tokens": 20, "completion_tokens": 7, "token_details": ORCHESTRATION}


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        pytest.param(OPENAI, Usage(100, 50, 64, 30), id="openai"),
        pytest.param(DEEPSEEK, Usage(9, 2, 4), id="deepseek"),
        pytest.param(ANTHROPIC, Usage(120, 5, 90), id="anthropic counts cached input apart"),
        pytest.param(GEMINI, Usage(10, 30, 0, 25), id="gemini counts reasoning in the total alone"),
        pytest.param(GROK, Usage(10, 30, 0, 25), id="grok counts reasoning apart"),
        pytest.param(FUGU_RESPONSES, Usage(20, 7, 2, 1, 30, 6, 3), id="fugu responses"),
        pytest.param(FUGU_FLAT, Usage(20, 7, 0, 0, 30, 6), id="fugu flat"),
        pytest.param(FUGU_NESTED, Usage(20, 7, 0, 0, 30, 6), id="fugu nested"),
        pytest.param(TOO_MUCH, Usage(3, 11, 0, 9), id="parts above the whole: no discount, reasoning apart"),
        pytest.param(TOO_MUCH | {"total_tokens": 5}, None, id="the total says that reasoning is in it"),
    ],
)
def test_reads_a_dialect(raw: dict[str, Any], usage: Usage | None) -> None:
    assert read_usage(raw) == usage


STREAM = (
    "\ufeff: keep-alive\n\n"
    'data: {"text": "Grüße, 世界 \N{VIOLIN}"}\n\n'
    "event: error\r\ndata: one\r\ndata: two\r\n\r\n"
    "id: 7\rretry: 10\rdata:bare\r\r"
    "event: nothing\n\n"
    "data\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = [SseEvent("", '{"text": "Grüße, 世界 \N{VIOLIN}"}'), SseEvent("error", "one\ntwo")]
EVENTS += [SseEvent("", data) for data in ("bare", "", "[DONE]")]


def read(pieces: Iterable[bytes]) -> list[SseEvent]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


@given(st.lists(st.integers(0, len(STREAM))))
@example([])
@example(list(range(len(STREAM))))
def test_cuts_do_not_matter(cuts: list[int]) -> None:
    """However a stream is cut, inside characters and line ends too, its events are the same."""
    edges = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in pairwise(edges)]) == EVENTS


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_survives_any_bytes(pieces: list[bytes]) -> None:
    with suppress(WorkerBroken):
        assert all(isinstance(event.data, str) for event in read(pieces))


def test_bounds_a_line() -> None:
    with pytest.raises(WorkerBroken, match="too long for an answer"):
        read(repeat(b"x" * 2**16, MAX_LINE // 2**16 + 2))


def _echo(call: Call) -> Reply:
    return says(call, f"You asked: {call.body['messages'][-1]['content']}")


class TestChatWorker(WorkerContract):
    @pytest.fixture
    async def worker(self) -> AsyncIterator[Worker]:
        async with ChatServer(_echo) as server:
            yield ChatWorker("m", endpoint=Endpoint(server.url))

    @pytest.fixture
    async def slow_worker(self) -> AsyncIterator[Worker]:
        async with ChatServer(lambda _: events(STALL)) as server:
            yield ChatWorker("m", endpoint=Endpoint(server.url))
