"""Conductors that code inside of a worker asks: the bill is exactly that of their runs."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from servers.chat_server import ChatServer, says

from langchain_podium import ChatPodium, as_worker
from podium import ChatWorker, Conductor, Plan, Price, Step
from podium.planners import FixedPlanner
from podium.workers import Card, Endpoint, Worker

pytestmark = pytest.mark.anyio

PRICE = Price(input=1, output=2)
KINDS: dict[str, Callable[[ChatPodium], Any]] = {
    "lambda": lambda chat: RunnableLambda(chat.invoke),
    "chain": lambda chat: RunnableLambda(lambda text: text) | chat,
    "agent": lambda chat: pytest.importorskip("langchain.agents").create_agent(chat, []),
}


def _langchain(url: str) -> Worker:
    model = ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0)
    return as_worker(model, name="writer", price=PRICE)


def _own(url: str) -> Worker:
    return ChatWorker("m", endpoint=Endpoint(url), card=Card(name="writer", price=PRICE))


@pytest.mark.long
@pytest.mark.parametrize("writer", [_langchain, _own])
@pytest.mark.parametrize("price", [None, PRICE], ids=["unpriced", "priced"])
@pytest.mark.parametrize("kind", list(KINDS))
async def test_a_chat_model_inside_is_billed_as_its_run(
    kind: str, price: Price | None, writer: Callable[[str], Worker]
) -> None:
    """Nothing of it is estimated, and its cost is known although the worker has no price."""
    async with ChatServer(lambda call: says(call, "done")) as server:
        plan = Plan((Step(0, "one"), Step(0, "two", (0,))))
        inner = Conductor(FixedPlanner(plan), [writer(server.url)])
        worker = as_worker(KINDS[kind](ChatPodium(conductor=inner)), name="inner", price=price)
        result = await Conductor(FixedPlanner(Plan((Step(0, "ask"),))), [worker]).run("Q?")
        assert len(server.calls) == 2
    assert result.status == "ok"
    assert (result.usage.total_input_tokens, result.usage.total_output_tokens) == (422, 14)
    assert not result.usage.estimated
    assert result.cost == pytest.approx((422 + 2 * 14) * 1e-6)
