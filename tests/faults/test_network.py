"""What a network does to answers costs its own step, its own calls and its own limits, and nothing else."""

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import pytest
from core.actors import plan_of
from faults.leftovers import memory_peak, until
from servers.chat_server import CUT, RESET, STALL, Call, ChatServer, Reply, chunk, events, says, whole

from podium import Card, ChatWorker, Conductor, Endpoint, Limits, Price, Result, Retry
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio

PLAN = FixedPlanner(plan_of((0, "find", ()), (1, "check", ()), (0, "tell", (0, 1))))
"""A step of the good worker beside one of the bad worker, and one that needs both."""
PRICE = Price(input=1.0, output=2.0)
TEXT = "Yes, all of it."
MIB = 2**20
MEMORY_MIB = 48.0
"""Most that one fault may add to the process; an answer has 32 MiB at most."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
BEGUN = chunk({"content": "Y"})


def bomb(status: int = 200) -> Reply:
    """Return an answer that unpacks to a thousand times what travels."""
    packer = zlib.compressobj(wbits=31)
    packed = b"".join(packer.compress(b"\0" * MIB) for _ in range(128)) + packer.flush()
    return whole(packed, status=status, headers={"Content-Encoding": "gzip"})


@dataclass(frozen=True)
class Case:
    """The bad worker's answers, and the code of its step's problem; empty where the answer is whole."""

    reply: Callable[[Call], Reply]
    code: str = ""
    stream: bool = False
    stalls: bool = False
    """Whether only a limit ends it."""


CASES = {
    "byte by byte": Case(lambda call: says(call, TEXT, slice_size=1), stream=True),
    "no end of the body": Case(lambda call: Reply((*list(says(call, TEXT).parts)[:-1], CUT)), stream=True),
    "reset before the answer": Case(lambda _: Reply((RESET,)), "worker_unavailable"),
    "reset in the headers": Case(lambda _: Reply((HEAD[:20], RESET)), "worker_unavailable"),
    "closed in the body": Case(lambda _: Reply((HEAD, b'{"choices"', CUT)), "worker_broken"),
    "closed in an event": Case(lambda _: events(BEGUN, CUT), "worker_broken", stream=True),
    "stalled before the answer": Case(lambda _: Reply((STALL,)), "worker_timeout", stalls=True),
    "stalled in an event": Case(lambda _: events(BEGUN, STALL), "worker_timeout", stream=True, stalls=True),
    "a line of 10 MiB": Case(lambda _: events(b"data: {", *[b"a" * MIB] * 10), "worker_broken", stream=True),
    "a header of 10 MiB": Case(lambda _: Reply((HEAD[:-4], *[b"a" * MIB] * 10)), "worker_broken"),
    "gzip bomb": Case(lambda _: bomb(), "worker_broken"),
    "gzip bomb as an error": Case(lambda _: bomb(500), "worker_unavailable"),
}
PASSING = ("reset before the answer", "closed in an event", "stalled in an event")


async def _run(case: Case, attempts: int, *, passes: bool = False) -> tuple[Result, int]:
    """Return what a run comes to, and the calls of the bad worker, whose fault may pass with the first."""
    seen = list[Call]()

    def reply(call: Call) -> Reply:
        if call.body["model"] == "good":
            return says(call, "found it", delay=0.02)
        seen.append(call)
        return says(call, TEXT) if passes and len(seen) > 1 else case.reply(call)

    limits = Limits(attempt_seconds=0.3 if case.stalls else 20.0)
    retry = Retry(attempts=attempts, first_wait=0.01)
    async with ChatServer(reply) as server:
        tasks = asyncio.all_tasks()
        cards = [Card(name=name, price=PRICE) for name in ("good", "bad")]
        pool = [ChatWorker(card.name, endpoint=Endpoint(server.url), card=card) for card in cards]
        with anyio.fail_after(30):
            async with Conductor(PLAN, pool, limits=limits, retry=retry) as conductor:
                if case.stream:
                    *_, last = [event async for event in conductor.stream("Is it there?")]
                    result = last.result
                else:
                    result = await conductor.run("Is it there?")
        await until(lambda: not server.open_connections)
        await until(lambda: not asyncio.all_tasks() - tasks - server.tasks)
    return result, len(seen)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_fault_costs_its_step_alone(case: Case) -> None:
    """The step ends as it should, its server sees the configured calls, its sibling's output is used."""
    with memory_peak() as peak:
        result, calls = await _run(case, 2)
        assert peak() < MEMORY_MIB
    sibling, faulty, last = result.outcomes
    assert (sibling.status, sibling.text, last.status) == ("ok", "found it", "ok")
    if not case.code:
        assert (result.status, faulty.text, calls) == ("ok", TEXT, 1)
        return
    assert (result.status, result.answer, faulty.status) == ("partial", last.text, "failed")
    assert faulty.problem.code == case.code
    assert calls == faulty.attempts == len(faulty.calls) == 2
    assert faulty.maybe_paid
    assert faulty.cost is not None
    assert faulty.cost > 0


@pytest.mark.parametrize("name", PASSING)
async def test_a_fault_that_passes_is_retried_once(name: str) -> None:
    """One more call gives the whole answer, and the lost one stays on the bill where it may be paid."""
    case = CASES[name]
    result, calls = await _run(case, 3, passes=True)
    assert (result.status, result.answer, calls) == ("ok", "found it", 2)
    outcome = result.outcomes[1]
    assert (outcome.text, outcome.attempts) == (TEXT, 2)
    codes = [None if call.problem is None else call.problem.code for call in outcome.calls]
    assert codes == [case.code, None]
    assert outcome.calls[0].maybe_paid
    assert outcome.maybe_paid
