"""Calls counted where they arrive: a server sees as many as were configured, and none after a cancel."""

import asyncio
import socket

import anyio
import pytest
from core.actors import plan_of
from servers.chat_server import CUT, RESET, STALL, Call, ChatServer, Reply, chunk, events, says, whole

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import PlannerError
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Result, Sampling
from podium.workers import Card, ChatWorker, Endpoint, Price

pytestmark = pytest.mark.anyio

PLAN = plan_of((0, "do it", ()))
PRICE = Price(input=1.0, output=1.0)
LIMITS = Limits(attempt_seconds=0.5)


def _status(status: int, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole({"error": {"message": "no"}}, status=status, headers=named)


FAULTS = {
    "500": (_status(500), "worker_unavailable", True),
    "503": (_status(503, Retry_After="0"), "worker_unavailable", True),
    "504": (_status(504), "worker_unavailable", True),
    "429": (_status(429), "worker_unavailable", False),
    "429 with Retry-After": (_status(429, Retry_After="0"), "worker_unavailable", False),
    "hangs": (Reply((STALL,)), "worker_timeout", True),
    "hangs in mid-body": (events(chunk({"content": "half"}), STALL), "worker_timeout", True),
    "reset": (Reply((RESET,)), "worker_unavailable", True),
    "cut": (events(chunk({"content": "half"}), CUT), "worker_broken", True),
    "no end": (whole({"choices": [{"message": {"content": "x"}}]}), "worker_broken", True),
}


def _worker(name: str, server: ChatServer) -> ChatWorker:
    return ChatWorker(name, endpoint=Endpoint(server.url), card=Card(name=name, price=PRICE))


async def _run(workers: list[ChatWorker], retry: Retry) -> Result:
    conductor = Conductor(FixedPlanner(PLAN), workers, retry=retry, limits=LIMITS)
    async with conductor:
        return await conductor.run(PLAN)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("attempts", [1, 3])
async def test_a_server_that_fails_sees_the_configured_number_of_calls(fault: str, attempts: int) -> None:
    reply, code, maybe_paid = FAULTS[fault]
    async with ChatServer(lambda call: reply) as server:
        result = await _run([_worker("a", server)], Retry(attempts=attempts, first_wait=0.01))
        assert len(server.calls) == attempts
    (outcome,) = result.outcomes
    assert (outcome.attempts, outcome.maybe_paid) == (attempts, maybe_paid)
    assert outcome.problem is not None
    assert outcome.problem.code == code
    assert (outcome.cost != 0) is maybe_paid


@pytest.mark.parametrize("fault", FAULTS)
async def test_stand_ins_add_no_calls(fault: str) -> None:
    reply, _, _ = FAULTS[fault]

    def bad(call: Call) -> Reply:
        return reply

    async with ChatServer(bad) as first, ChatServer(bad) as second, ChatServer(bad) as third:
        workers = [_worker(name, server) for name, server in zip("abc", (first, second, third), strict=True)]
        retry = Retry(attempts=3, first_wait=0.01, fallbacks={"a": ["b", "c"]})
        await _run(workers, retry)
        assert [len(server.calls) for server in (first, second, third)] == [1, 1, 1]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(max_tokens=20_000)])
async def test_a_server_that_recovers_is_paid_for_what_it_did(sampling: Sampling, *, free: bool) -> None:
    def reply(call: Call) -> Reply:
        return _status(500) if len(server.calls) < 3 else says(call, "hello")

    async with ChatServer(reply) as server:
        card = Card(name="a", price=PRICE, free_errors=free)
        worker = ChatWorker("a", endpoint=Endpoint(server.url), card=card, sampling=sampling)
        result = await _run([worker], Retry(first_wait=0.01))
    assert result.answer == "hello"
    first, second, last = result.outcomes[0].calls
    assert last.cost == pytest.approx(218e-6)
    assert first.cost == second.cost
    assert first.cost is not None
    assert (first.cost > 0, first.maybe_paid, first.charged == "received") == (not free,) * 3
    assert first.cost < 1e-3


@pytest.mark.parametrize("free", [False, True])
async def test_a_planner_whose_server_fails_may_be_billed(*, free: bool) -> None:
    async with ChatServer(lambda call: _status(500)) as server:
        card = Card(name="boss", price=PRICE, free_errors=free)
        planner = ChatPlanner(ChatWorker("boss", endpoint=Endpoint(server.url), card=card))
        with pytest.raises(PlannerError) as caught:
            await Conductor(planner, [_worker("a", server)], retry=Retry(attempts=1)).run("What?")
    (proposal,) = caught.value.calls
    assert (proposal.cost > 0, proposal.maybe_paid, proposal.usage.input_tokens > 100) == (not free,) * 3
    assert caught.value.cost == proposal.cost


@pytest.mark.parametrize(("most", "paid"), [(None, 4096), (64, 64), (20_000, 20_000)])
async def test_a_lost_call_costs_what_was_asked_for_without_a_limit(most: int | None, paid: int) -> None:
    async with ChatServer(lambda call: Reply((RESET,))) as server:
        card = Card(name="a", price=Price(input=0.0, output=1e6))
        worker = ChatWorker("a", endpoint=Endpoint(server.url), card=card, sampling=Sampling(max_tokens=most))
        planner = ChatPlanner(worker)
        result = await _run([worker], Retry(attempts=1))
        with pytest.raises(PlannerError) as caught:
            await Conductor(planner, [worker], retry=Retry(attempts=1)).run("What?")
    assert (result.cost, caught.value.cost) == (paid, paid)


@pytest.mark.parametrize("script", [Reply((STALL,)), _status(503, Retry_After="20")], ids=["call", "wait"])
async def test_nothing_is_called_after_a_cancel(script: Reply) -> None:
    async with ChatServer(lambda call: script) as server:
        tasks = asyncio.all_tasks()
        conductor = Conductor(FixedPlanner(PLAN), [_worker("a", server)], retry=Retry())
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(conductor.run, PLAN)
                while not server.calls:  # noqa: ASYNC110  (the server announces nothing)
                    await anyio.sleep(0.001)
                await anyio.sleep(0.05)
                group.cancel_scope.cancel()
            while server.open_connections or asyncio.all_tasks() - tasks - server.tasks:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        assert len(server.calls) == 1
        await anyio.sleep(0.05)
        assert len(server.calls) == 1


async def test_a_server_that_is_down_is_not_waited_for() -> None:
    endpoint = Endpoint(f"http://127.0.0.1:{_closed_port()}/v1")
    worker = ChatWorker("m", endpoint=endpoint, card=Card(name="only", price=PRICE))
    retry, results = Retry(first_wait=0.01, break_after=2, break_seconds=29.0), list[Result]()
    with anyio.fail_after(10):
        async with Conductor(FixedPlanner(plan_of((0, "answer", ()))), [worker], retry=retry) as conductor:
            results += [await conductor.run("Why?") for _ in range(2)]
        conductor = Conductor(ChatPlanner(worker), [worker], retry=retry)
        with pytest.raises(PlannerError, match="the run does not wait"):
            await conductor.run("Why?")
    problems = [result.outcomes[0].problem for result in results]
    assert [problem and problem.code for problem in problems] == ["worker_unavailable"] * 2
    assert [len(result.outcomes[0].calls) for result in results] == [2, 0]
    assert "Connection refused; it gets no calls for another" in str(problems[0])
    assert "worker 'only' failed 2 times in a row (no connection to its server)" in str(problems[1])


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
