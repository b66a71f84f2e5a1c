"""What a call is charged whose usage is not reported, cannot be right, or lacks the end of its answer."""

import asyncio
from typing import Any

import pytest
from core.actors import Actor, plan_of, problem_of, yielding
from servers.chat_server import CUT, RESET, Call, ChatServer, Reply, chunk, completion, events, says, whole

from podium import Conductor, Limits, Plan, Result, Retry, Sampling, Step
from podium.journal import MemoryJournal
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Completion
from podium.usage import Usage, estimate_tokens
from podium.workers import Card, ChatWorker, Endpoint, Price

pytestmark = pytest.mark.anyio

PER_TOKEN = Price(input=0.0, output=1_000_000.0)
"""A dollar for each token written, so that the cost is the count the ledger charged."""
BOUND = 500
ONE = Plan((Step(0, "go"),))
TWO = plan_of((0, "one", ()), (0, "two", (0,)))
PIECE = chunk({"content": "half of it"})
GARBAGE = "The proxy has no answer."
UNREPORTED = completion("half of it", finish_reason=None, usage=None)
OPEN = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
WORDS = "several words " * 500


def worker(url: str, *, effort: str | None = None) -> ChatWorker:
    card = Card(name="m", price=PER_TOKEN, parts=frozenset({"image_url"}))
    sampling = Sampling(max_tokens=BOUND, effort=effort)
    return ChatWorker("m", endpoint=Endpoint(url, provider="vllm"), card=card, sampling=sampling)


async def run(reply: Any, question: Any = "What?", *, stream: bool = False, **options: Any) -> Result:
    plan, effort = options.pop("plan", ONE), options.pop("effort", None)
    async with ChatServer(reply if callable(reply) else lambda _: reply) as server:
        pool = [worker(server.url, effort=effort)]
        conductor = Conductor(FixedPlanner(plan), pool, retry=Retry(attempts=1), **options)
        return await conductor.run(question, on_event=(lambda _: None) if stream else None)


def reporting(usage: Any, text: str = "forty-two") -> Reply:
    return whole({**completion(text), "usage": usage})


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"prompt_tokens": 9},
        {"prompt_tokens": 9, "completion_tokens": 0},
        {"prompt_tokens": 9, "completion_tokens": -9},
        {"prompt_tokens": 9, "completion_tokens": 10**30},
        "9 tokens",
    ],
)
async def test_usage_that_cannot_be_right_is_estimated_and_charged_at_the_reservation(usage: Any) -> None:
    result = await run(reporting(usage))
    assert (result.status, result.usage.estimated, result.cost) == ("ok", True, BOUND)
    assert result.usage.output_tokens == estimate_tokens("forty-two")
    assert result.estimated_usage == result.usage


async def test_too_few_tokens_for_a_long_text_are_not_believed() -> None:
    written = await run(reporting({"prompt_tokens": 9, "completion_tokens": 1}, WORDS * 10))
    assert written.usage.estimated
    assert written.cost >= 17_500
    read = await run(reporting({"prompt_tokens": 1, "completion_tokens": 3}), WORDS)
    assert read.usage.estimated
    assert read.usage.input_tokens >= 1750
    believed = await run(reporting({"prompt_tokens": 1100, "completion_tokens": 3}), WORDS)
    assert believed.usage == Usage(1100, 3)


async def test_pictures_need_no_tokens_for_the_text_of_their_data() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    question = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}]
    result = await run(reporting({"prompt_tokens": 85, "completion_tokens": 3}), question)
    assert result.usage == Usage(85, 3)


async def test_measured_and_estimated_calls_are_told_apart_in_a_total() -> None:
    reported = iter([{"prompt_tokens": 9, "completion_tokens": 3}, None])
    result = await run(lambda call: says(call, "forty-two", usage=next(reported)), plan=TWO)
    first, second = result.outcomes
    assert (first.usage.estimated, second.usage.estimated) == (False, True)
    assert result.estimated_usage == second.usage
    assert "of them estimated" in result.explain()


async def test_an_answer_beyond_its_bound_is_charged_and_assumed_again() -> None:
    """The server ignores max_tokens once, so the next call reserves as much, and does not fit."""
    reply = reporting({"prompt_tokens": 9, "completion_tokens": 800}, "long")
    first, second = (await run(reply, plan=TWO, limits=Limits(output_tokens=1400))).outcomes
    assert (first.status, first.usage.output_tokens, first.cost) == ("ok", 800, 800)
    assert problem_of(second).code == "limit"


async def test_a_planner_is_held_to_the_same_rule() -> None:
    text = '{"worker": 0, "subtask": "go", "access": []}'
    async with ChatServer(lambda call: says(call, text, usage=None)) as server:
        result = await Conductor(ChatPlanner(worker(server.url)), [worker(server.url)]).run("What?")
    (proposal,) = result.proposals
    assert (proposal.usage.estimated, proposal.cost) == (True, BOUND)
    assert proposal.usage.input_tokens > 100  # the planner's whole prompt, and not the question alone


@pytest.mark.parametrize("usage", [Usage(-1, 3), "10 and 3", Usage(9, 9, 99)])
async def test_a_worker_of_one_s_own_is_held_to_the_same_rule(usage: Any) -> None:
    own = Actor(Card(name="a", price=PER_TOKEN), yielding(Completion("good", usage=usage)))
    result = await Conductor(FixedPlanner(ONE), [own], journal=MemoryJournal()).run("What?")
    assert (result.answer, result.usage.estimated, result.cost) == ("good", True, Limits().answer_tokens)


@pytest.mark.parametrize(
    ("reply", "stream"),
    [
        pytest.param(whole(GARBAGE, content_type="text/plain"), False, id="text"),
        pytest.param(whole(UNREPORTED), False, id="no finish reason"),
        pytest.param(events(PIECE), True, id="done without a finish reason"),
        pytest.param(events(chunk({"reasoning_content": "hm"})), True, id="reasoning"),
    ],
)
async def test_a_response_that_was_received_bounds_the_charge(reply: Any, *, stream: bool) -> None:
    (outcome,) = (await run(reply, stream=stream)).outcomes
    assert (outcome.status, outcome.charged, outcome.maybe_paid) == ("failed", "received", True)
    assert outcome.usage.estimated
    assert outcome.cost == outcome.usage.output_tokens
    assert 0 < outcome.usage.output_tokens < 40
    assert outcome.usage.input_tokens > 32


@pytest.mark.parametrize(
    ("reply", "stream", "effort"),
    [
        pytest.param(events(PIECE, RESET), True, None, id="reset within the stream"),
        pytest.param(events(chunk({"role": "assistant"})), True, None, id="perhaps reasoning"),
        pytest.param(Reply((OPEN + GARBAGE.encode(), CUT)), False, None, id="closed"),
        pytest.param(events(PIECE), True, "high", id="an effort may hide reasoning"),
    ],
)
async def test_a_response_without_its_end_is_charged_at_the_reservation(
    reply: Any, effort: Any, *, stream: bool
) -> None:
    (outcome,) = (await run(reply, stream=stream, effort=effort)).outcomes
    assert (outcome.status, outcome.charged, outcome.maybe_paid) == ("failed", "reservation", True)
    assert outcome.cost == BOUND


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(whole(completion("half", finish_reason=None)), id="whole"),
        pytest.param(events({**PIECE, "usage": {"prompt_tokens": 211, "completion_tokens": 7}}), id="stream"),
    ],
)
async def test_usage_of_a_cut_answer_is_reported(reply: Reply) -> None:
    (outcome,) = (await run(reply, stream=True)).outcomes
    assert (outcome.usage, outcome.cost, outcome.charged) == (Usage(211, 7), 7, "usage")


async def test_a_call_that_was_stopped_before_it_was_sent_costs_nothing() -> None:
    writers = list[asyncio.StreamWriter]()
    async with await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1") as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        conductor = Conductor(FixedPlanner(ONE), [worker(url)], retry=Retry(attempts=1))
        result = await conductor.run("What?", limits=Limits(attempt_seconds=0.1))
        for writer in writers:
            writer.close()
    assert result.outcomes[0].status == "failed"
    assert (result.usage, result.cost, result.maybe_paid, result.usage_note) == (Usage(), 0.0, False, "")


@pytest.mark.parametrize(
    ("status", "free", "is_charged"), [(503, False, True), (503, True, False), (429, False, False)]
)
async def test_an_error_of_a_server_may_cost_the_prompt(status: int, *, free: bool, is_charged: bool) -> None:
    """Unless its status or the card says that it does not; the server sees the configured calls."""

    def reply(call: Call) -> Reply:
        error = {"error": {"message": "no"}}
        return whole(error, status=status) if len(server.calls) < 3 else says(call, "hello")

    async with ChatServer(reply) as server:
        card = Card(name="m", price=Price(input=1.0, output=1.0), free_errors=free)
        one = ChatWorker("m", endpoint=Endpoint(server.url), card=card)
        retry = Retry(attempts=3, first_wait=0.01)
        result = await Conductor(FixedPlanner(ONE), [one], retry=retry).run("What?")
    assert (result.answer, len(server.calls)) == ("hello", 3)
    *failed, last = result.outcomes[0].calls
    assert last.cost == pytest.approx(218e-6)
    for call in failed:
        assert (call.maybe_paid, call.cost > 0, call.charged == "received") == (is_charged,) * 3
