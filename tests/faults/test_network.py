"""What a network does to answers costs its own step, its own calls and its own limits, and nothing else."""

import asyncio
from dataclasses import dataclass

import anyio
import pytest
from core.actors import plan_of
from faults.leftovers import memory_peak, until
from faults.proxy import (
    End,
    Fault,
    FaultProxy,
    changed,
    cut,
    error_body,
    gzip_bomb,
    instead,
    late,
    long_header,
    long_line,
    sliced,
)
from servers.chat_server import Call, ChatServer, Reply, says

from podium.budget import Limits
from podium.conductor import Conductor
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Result, RunEnded
from podium.workers import Card, ChatWorker, Endpoint, Price

pytestmark = pytest.mark.anyio

PLAN = FixedPlanner(plan_of((0, "find", ()), (1, "check", ()), (0, "tell", (0, 1))))
"""A step of the good worker beside one of the bad worker, and one that needs both."""
PRICE = Price(input=1.0, output=2.0)
MEMORY_MIB = 48.0
"""Most that one fault may add to the process; an answer has 32 MiB at most."""
DONE = b"e\r\ndata: [DONE]\n\n\r\n"


@dataclass(frozen=True)
class Case:
    """What is done to the bad worker's answers, and what that comes to."""

    fault: Fault
    code: str = ""
    """Of the step's problem; empty where the answer is whole."""
    stream: bool = False
    stalls: bool = False
    """Whether only a limit ends it."""


CASES = {
    "late": Case(late(0.01)),
    "byte by byte, streamed": Case(sliced(1), stream=True),
    "two ends": Case(changed(DONE, DONE * 2), stream=True),
    "reset before the answer": Case(cut(b""), "worker_unavailable"),
    "reset in the headers": Case(cut(b"HTTP/1.1 200 Scripted\r\n"), "worker_unavailable"),
    "closed in the body": Case(cut(b'"content": "', End.CLOSE), "worker_broken"),
    "closed in an event": Case(cut(b'"content": "Y', End.CLOSE), "worker_broken", stream=True),
    "closed after the headers": Case(cut(b"chunked\r\n\r\n", End.CLOSE), "worker_broken", stream=True),
    "closed after the last event": Case(cut(DONE, End.CLOSE), stream=True),
    "stalled before the answer": Case(cut(b"", End.STALL), "worker_timeout", stalls=True),
    "stalled in an event": Case(cut(b'"content": "Y', End.STALL), "worker_timeout", stream=True, stalls=True),
    "200 with an error, streamed": Case(instead(error_body), "worker_unavailable", stream=True),
    "a line of 10 MiB": Case(instead(long_line), "worker_broken", stream=True),
    "a header of 10 MiB": Case(instead(long_header), "worker_broken"),
    "gzip bomb, streamed": Case(instead(gzip_bomb), "worker_broken", stream=True),
    "gzip bomb as an error": Case(instead(lambda: gzip_bomb(500)), "worker_unavailable"),
    "length too long, kept open": Case(changed(b"Length: 2", b"Length: 92"), "worker_timeout", stalls=True),
    "length too short": Case(changed(b"Length: 2", b"Length: "), "worker_broken"),
}
PASSING = ("reset before the answer", "closed in the body", "closed in an event", "stalled in an event")


def _reply(call: Call) -> Reply:
    return says(call, "found it" if call.body["model"] == "good" else "Yes, all of it.", delay=0.02)


async def _run(case: Case, server: ChatServer, proxy: FaultProxy, attempts: int) -> Result:
    cards = [Card(name=name, price=PRICE) for name in ("good", "bad")]
    urls = [server.url, proxy.url]
    pool = [
        ChatWorker(card.name, endpoint=Endpoint(url), card=card)
        for card, url in zip(cards, urls, strict=True)
    ]
    limits = Limits(attempt_seconds=0.3 if case.stalls else 20.0)
    retry = Retry(attempts=attempts, first_wait=0.01)
    async with Conductor(PLAN, pool, limits=limits, retry=retry) as conductor:
        if not case.stream:
            return await conductor.run("Is it there?")
        *_, last = [event async for event in conductor.stream("Is it there?")]
        assert isinstance(last, RunEnded)
        return last.result


async def _run_through(case: Case, attempts: int, times: int | None = None) -> tuple[Result, int]:
    """Return what a run comes to whose bad worker is behind the fault, and the calls its server saw."""
    async with ChatServer(_reply) as server, FaultProxy(server.url, case.fault, times=times) as proxy:
        tasks = asyncio.all_tasks()
        with anyio.fail_after(30):
            result = await _run(case, server, proxy, attempts)
        await until(lambda: not (server.open_connections or proxy.open_connections))
        await until(lambda: not asyncio.all_tasks() - tasks - server.tasks)
    return result, sum(call.body["model"] == "bad" for call in server.calls)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_fault_costs_its_step_alone(case: Case) -> None:
    """The step ends as it should, its server sees the configured calls, its sibling's output is used."""
    with memory_peak() as peak:
        result, calls = await _run_through(case, 2)
        assert peak() < MEMORY_MIB
    sibling, faulty, last = result.outcomes
    assert sibling.status == "ok"
    assert sibling.text == "found it"
    if not case.code:
        assert (result.status, faulty.text, last.status, calls) == ("ok", "Yes, all of it.", "ok", 1)
        return
    assert (result.status, result.answer) == ("partial", last.text)
    assert (faulty.status, last.status) == ("failed", "ok")
    assert faulty.problem is not None
    assert faulty.problem.code == case.code
    assert calls == faulty.attempts == len(faulty.calls) == 2
    assert faulty.maybe_paid
    assert faulty.cost is not None
    assert faulty.cost > 0


@pytest.mark.parametrize("name", PASSING)
async def test_a_fault_that_passes_is_retried_once(name: str) -> None:
    """One more call gives the whole answer, and the lost one stays on the bill where it may be paid."""
    case = CASES[name]
    result, calls = await _run_through(case, 3, times=1)
    assert (result.status, result.answer, calls) == ("ok", "found it", 2)
    outcome = result.outcomes[1]
    assert (outcome.text, outcome.attempts) == ("Yes, all of it.", 2)
    assert [None if call.problem is None else call.problem.code for call in outcome.calls] == [
        case.code,
        None,
    ]
    assert outcome.calls[0].maybe_paid
    assert outcome.maybe_paid
