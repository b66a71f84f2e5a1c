"""Limits over real connections: what does not fit is never sent, and bills are held against forecasts."""

import pytest
from core.actors import plan_of
from servers.chat_server import Call, ChatServer, Reply, says

from podium.budget import Limits
from podium.conductor import Conductor
from podium.planners import FixedPlanner
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
