"""Calls without a complete answer and without usage: a response that was received bounds the charge."""

import asyncio
from typing import Any

import pytest
from servers.chat_server import CUT, RESET, Call, ChatServer, Reply, chunk, completion, events, says, whole

from podium.budget import Limits
from podium.conductor import Conductor
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Outcome, Plan, Sampling, Step
from podium.usage import Usage
from podium.workers import Card, ChatWorker, Endpoint, Price

pytestmark = pytest.mark.anyio

PER_TOKEN = Price(input=0.0, output=1_000_000.0)
"""A dollar for each token written, so that the cost is the count the ledger charged."""
BOUND = 500
ONE = Plan((Step(0, "go"),))
PIECE = chunk({"content": "half of it"})
GARBAGE = "The proxy has no answer."
OPEN = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "
UNREPORTED = completion("half of it", finish_reason=None, usage=None)


def worker(url: str, *, effort: str | None = None, name: str = "m") -> ChatWorker:
    """Return a worker with a price and a longest answer."""
    sampling = Sampling(max_tokens=BOUND, effort=effort)
    endpoint = Endpoint(url, provider="vllm")
    return ChatWorker(name, endpoint=endpoint, card=Card(name=name, price=PER_TOKEN), sampling=sampling)


async def one_call(reply: Any, *, stream: bool = False, effort: str | None = None) -> Outcome:
    """Return the outcome of a step whose only call got this reply."""
    async with ChatServer(lambda _: reply) as server:
        conductor = Conductor(FixedPlanner(ONE), [worker(server.url, effort=effort)], retry=Retry(attempts=1))
        if not stream:
            return (await conductor.run("What?")).outcomes[0]
        ended = [event async for event in conductor.stream("What?") if event.type == "step_ended"]
        return ended[0].outcome  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reply", "stream"),
    [
        pytest.param(whole(GARBAGE, content_type="text/plain"), False, id="text"),
        pytest.param(whole(UNREPORTED), False, id="no finish reason"),
        pytest.param(events(PIECE), True, id="done without a finish reason"),
        pytest.param(events(chunk({"reasoning_content": "hm"})), True, id="reasoning"),
        pytest.param(
            Reply(
                (
                    OPEN + b"text/event-stream\r\n\r\n",
                    b'data: {"choices": [{"delta": {"content": "a b"}}]}\n\n',
                    b"data: [DONE]\n\n",
                    CUT,
                )
            ),
            True,
            id="done and closed",
        ),
    ],
)
async def test_a_response_that_was_received_bounds_the_charge(reply: Any, *, stream: bool) -> None:
    """The call costs at most the tokens of what was received."""
    outcome = await one_call(reply, stream=stream)
    assert (outcome.status, outcome.charged, outcome.maybe_paid) == ("failed", "received", True)
    assert outcome.usage.estimated
    assert outcome.cost == outcome.usage.output_tokens
    assert 0 < outcome.usage.output_tokens < 40
    assert outcome.usage.input_tokens > 32


@pytest.mark.parametrize(
    ("reply", "stream"),
    [
        pytest.param(events(PIECE, RESET), True, id="reset within the stream"),
        pytest.param(events(chunk({"role": "assistant"})), True, id="perhaps reasoning"),
        pytest.param(Reply((OPEN + b"text/plain\r\n\r\n" + GARBAGE.encode(), CUT)), False, id="closed"),
        pytest.param(
            Reply(
                (
                    OPEN + b"text/event-stream\r\n\r\n",
                    b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n',
                    CUT,
                )
            ),
            True,
            id="a stream that was closed",
        ),
    ],
)
async def test_a_response_without_its_end_is_charged_at_the_reservation(reply: Any, *, stream: bool) -> None:
    """The server may have written more than was received."""
    outcome = await one_call(reply, stream=stream)
    assert (outcome.status, outcome.charged, outcome.maybe_paid) == ("failed", "reservation", True)
    assert outcome.cost == BOUND


async def test_a_call_that_was_stopped_before_it_was_sent_costs_nothing() -> None:
    """The server does not answer the TLS handshake, so it has no request."""
    writers = list[asyncio.StreamWriter]()
    async with await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1") as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        conductor = Conductor(FixedPlanner(ONE), [worker(url)], retry=Retry(attempts=1))
        result = await conductor.run("What?", limits=Limits(attempt_seconds=0.1))
        for writer in writers:
            writer.close()
    assert result.outcomes[0].status == "failed"
    assert (result.usage, result.cost, result.maybe_paid, result.usage_note) == (Usage(), 0.0, False, "")


async def test_an_effort_may_hide_reasoning() -> None:
    """The received text then bounds nothing."""
    outcome = await one_call(events(PIECE), stream=True, effort="high")
    assert (outcome.charged, outcome.cost) == ("reservation", BOUND)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(whole(completion("half", finish_reason=None)), id="whole"),
        pytest.param(events({**PIECE, "usage": {"prompt_tokens": 211, "completion_tokens": 7}}), id="stream"),
    ],
)
async def test_usage_of_a_cut_answer_is_reported(reply: Reply) -> None:
    """An answer without its end may have its usage, for each piece or at once."""
    outcome = await one_call(reply, stream=True)
    assert (outcome.usage, outcome.cost, outcome.charged) == (Usage(211, 7), 7, "usage")


@pytest.mark.parametrize(("times", "stream"), [(0.6, False), (3, True)])
async def test_answers_without_usage_do_not_exceed_a_limit(*, times: float, stream: bool) -> None:
    """An estimate is not above what the request allowed: these numbers have more tokens by the estimate."""

    def reply(call: Call) -> Reply:
        text = " ".join(["1234"] * (min(call.body["max_tokens"], 300) // 2))
        if call.body.get("stream"):
            return events(chunk({"content": text}), chunk({}, finish_reason="stop"))
        return whole(completion(text, usage=None))

    plan, limit = Plan((Step(0, "go"), Step(0, "check", (0,)), Step(0, "end", (1,)))), times * 0.01
    async with ChatServer(reply) as server:
        card = Card(name="m", price=Price(input=1.0, output=10.0))
        one = ChatWorker("m", endpoint=Endpoint(server.url, provider="vllm"), card=card)
        conductor = Conductor(FixedPlanner(plan), [one], limits=Limits(cost=limit))
        result = await conductor.run("What?", on_event=(lambda _: None) if stream else None)
    assert result.status == "ok"
    assert result.usage.estimated
    assert 0 < (result.cost or 0.0) <= limit


async def test_the_result_says_what_was_charged() -> None:
    """Each kind of charge is counted, with the calls of the planner."""
    plan = '{"worker": 0, "subtask": "go", "access": []}'
    broken = {
        "boss": [whole("{")],
        "m": [Reply((b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", CUT)), whole(GARBAGE)],
    }

    def reply(call: Call) -> Reply:
        name = call.body["model"]
        return broken[name].pop() if broken[name] else says(call, plan if name == "boss" else "good")

    async with ChatServer(reply) as server:
        planner = ChatPlanner(worker(server.url, name="boss"))
        conductor = Conductor(planner, [worker(server.url)], retry=Retry(first_wait=0.01))
        result = await conductor.run("What?")
    assert result.status == "ok"
    note = (
        "1 call charged at the reservation: no usage reported, at most $500.0000; "
        "2 calls charged by the received text: no usage reported, at most $21.0000"
    )
    assert result.usage_note == note
    assert note in result.explain()


async def test_a_resumed_run_counts_the_same() -> None:
    """Its ledger has what was received, not the reservation."""
    journal, limits = MemoryJournal(), Limits(output_tokens=BOUND + 100)
    async with ChatServer(lambda _: whole(GARBAGE)) as server:
        conductor = Conductor(
            FixedPlanner(ONE), [worker(server.url)], retry=Retry(attempts=1), journal=journal, limits=limits
        )
        failed = await conductor.run("What?", run_id="r")
        server.reply = lambda call: says(call, "good")
        resumed = await conductor.resume("r")
    assert failed.status == "failed"
    assert (resumed.status, resumed.answer) == ("ok", "good")
    assert [call.charged for call in resumed.outcomes[0].calls] == ["received", "usage"]
