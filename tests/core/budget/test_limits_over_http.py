"""Limits over real connections: what does not fit is never sent, and bills are held against forecasts."""

import pytest
from core.actors import plan_of, rows
from servers.chat_server import STALL, Call, ChatServer, Reply, says

from podium.budget import Limits
from podium.conductor import Conductor
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner
from podium.workers import Card, ChatWorker, Endpoint, Price

pytestmark = pytest.mark.anyio

PRICE = Price(input=1.0, output=10.0)
WIDE = plan_of((0, "one", ()), (0, "two", ()), (0, "three", ()), (0, "four", (0, 1, 2)))
LONG = {"prompt_tokens": 40, "completion_tokens": 100}
CHAIN = plan_of((0, "one", ()), (0, "two", (0,)), (0, "three", (1,)), (0, "four", (2,)))


def _worker(server: ChatServer, name: str = "m", price: Price | None = PRICE) -> ChatWorker:
    endpoint = Endpoint(server.url, provider="vllm")
    return ChatWorker(name, endpoint=endpoint, card=Card(name=name, price=price))


def _answer(call: Call) -> Reply:
    return says(call, "fine", usage={"prompt_tokens": 40, "completion_tokens": 10})


async def test_what_does_not_fit_is_never_sent() -> None:
    """The server sees the calls that fit, each with its answer bounded, and no other."""
    async with ChatServer(lambda call: says(call, "fine", usage=LONG)) as server:
        # four calls with 64 tokens each fit, and each answer has 100
        limits = Limits(cost=0.004)
        result = await Conductor(FixedPlanner(WIDE), [_worker(server)], limits=limits).run("What?")
        assert len(server.calls) == 3
        assert all(64 <= call.body["max_tokens"] < 100 for call in server.calls)
    assert result.cost == pytest.approx(0.00104 * 3)
    assert (result.status, result.answer) == ("failed", "")
    assert result.problem is not None
    assert result.problem.code == "limit"
    assert "Limits.cost" in result.problem.message


async def test_a_plan_whose_calls_do_not_fit_costs_nothing() -> None:
    """The problem names the amount that the plan needs."""
    async with ChatServer(_answer) as server:
        limits = Limits(cost=0.0016, answer_tokens=100)
        result = await Conductor(FixedPlanner(CHAIN), [_worker(server)], limits=limits).run("What?")
        assert not server.calls
    assert (result.status, result.answer, result.cost) == ("failed", "", 0.0)
    assert result.problem is not None
    assert result.problem.code == "limit"
    assert "the plan needs at least $0.00" in result.problem.message


async def test_a_planner_is_held_to_the_same_limits() -> None:
    """Its plan text is capped at its share, and it is told what is left."""
    plan = rows((0, "one", ()))
    async with ChatServer(
        lambda call: says(call, plan) if call.body["model"] == "boss" else _answer(call)
    ) as server:
        conductor = Conductor(
            ChatPlanner(_worker(server, "boss")), [_worker(server)], limits=Limits(output_tokens=9000)
        )
        result = await conductor.run("What?")
        first = server.calls[0].body
    assert result.status == "ok"
    assert first["max_tokens"] == 1500
    assert "9,000 tokens for all that they write" in first["messages"][1]["content"]


async def test_a_call_that_hangs_counts_as_the_most_it_may_come_to() -> None:
    """What it cost nobody knows; the run goes on with what is left for certain."""
    async with ChatServer(lambda _: Reply((STALL,))) as server:
        limits = Limits(cost=0.0012, answer_tokens=100, attempt_seconds=0.2, seconds=5)
        retry = Retry(attempts=3, first_wait=0.001)
        result = await Conductor(
            FixedPlanner(plan_of((0, "one", ()))), [_worker(server)], limits=limits, retry=retry
        ).run("What?")
        assert len(server.calls) == 1
    assert result.outcomes[0].maybe_paid
    assert result.problem is not None
    assert result.problem.code == "worker_timeout"
    assert "no further call fits the limits" in result.problem.message
