"""A planner's calls are reserved before they are made and settled after; what does not fit is not made."""

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace

import anyio
import pytest
from core.actors import Actor, context_of, rows, told
from core.virtual_clock import OPTIONS, anyio_backend  # noqa: F401 - a fixture
from hypothesis import given, strategies as st

from podium.budget import Limits, Spend
from podium.budget.ledger import Ledger
from podium.conductor import Conductor
from podium.errors import PlannerError, WorkerFailed, WorkerRefused, WorkerTimeout
from podium.execution import Retry
from podium.planners import ChatPlanner, Planner, RulePlanner
from podium.run.planning import PlanRequester
from podium.types import Completion, Event, Plan, PlannerEnded, PlannerStarted, StepStarted
from podium.usage import Usage
from podium.workers import Card, Price, Request, ScriptedWorker, Worker
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio

GOOD = rows((0, "go", ()))
PRICE = Price(input=1.0, output=10.0)
BOSS = Card(name="boss", price=PRICE)


def _planner(*replies: Reply, card: Card = BOSS) -> ChatPlanner:
    left = list(replies)
    return ChatPlanner(ScriptedWorker(card, lambda _: left.pop(0) if len(left) > 1 else left[0]))


class Round:
    """One round's planning, with a ledger and events that can be looked at."""

    def __init__(
        self,
        planner: Planner,
        *workers: Worker,
        limits: Limits | None = None,
        fallback_planner: Planner | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.error: PlannerError | None = None
        self.limits = limits or Limits()
        self.ledger = ledger or Ledger(self.limits, anyio.current_time() + 600)
        self.context = context_of(
            *(workers or [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]),
            planner=planner,
            fallback_planner=fallback_planner,
            retry=Retry(attempts=1),
            query="What is it?",
            ledger=self.ledger,
            limits=self.limits,
            emit=self.events.append,
        )
        self.planning = PlanRequester(self.context, 1)

    async def make(self) -> Plan | None:
        """Plan, and see that nothing stays reserved; `None` means that there is no plan."""
        try:
            return await self.planning.make()
        except PlannerError as error:
            self.error = error
            return None
        finally:
            assert self.ledger.reserved == Spend()

    @property
    def codes(self) -> list[str | None]:
        """What was wrong with each text."""
        return [None if p.problem is None else p.problem.code for p in self.planning.proposals]

    @property
    def reserved(self) -> list[Spend]:
        """What was set aside for each call."""
        return [event.reserved for event in self.events if isinstance(event, PlannerStarted)]


async def test_a_call_that_does_not_fit_is_not_made() -> None:
    planner = _planner(GOOD)
    round_ = Round(planner, limits=Limits(cost=0.001, unpriced=0.0), fallback_planner=RulePlanner())
    assert await round_.make() is not None
    worker = planner.worker
    assert isinstance(worker, ScriptedWorker)
    assert not worker.requests
    assert round_.codes == ["limit", None]
    refused = round_.planning.proposals[0]
    assert refused.problem is not None
    assert "raise Limits.cost" in refused.problem.message
    assert (refused.usage, refused.cost, refused.maybe_paid) == (Usage(), 0.0, False)
    assert not refused.asked
    assert [event.planner for event in round_.events if isinstance(event, PlannerStarted)] == ["rule"]
    assert len([event for event in round_.events if isinstance(event, PlannerEnded)]) == 2
    assert round_.ledger.spent == Spend()


async def test_a_repair_that_does_not_fit_is_not_made() -> None:
    planner = _planner("no plan", GOOD)
    round_ = Round(planner, limits=Limits(calls=2))
    assert await round_.make() is None
    assert round_.codes == ["no_plan", "limit"]
    assert round_.error is not None
    assert round_.error.code == "planner_limit"
    assert "no_plan" in str(round_.error)
    assert round_.ledger.spent.calls == 1


async def _half(request: Request) -> AsyncGenerator[str | Completion, None]:
    yield "Let me think"
    raise WorkerTimeout("broke off", maybe_paid=True)


async def _hangs(request: Request) -> AsyncGenerator[str | Completion, None]:
    yield "Let me think"
    await anyio.sleep_forever()


async def _timeout(request: Request) -> AsyncGenerator[str | Completion, None]:
    raise WorkerTimeout("no answer", maybe_paid=True)
    yield ""


async def _refuses(request: Request) -> AsyncGenerator[str | Completion, None]:
    raise WorkerRefused("no such model")
    yield ""


async def _fails_with_a_bill(request: Request) -> AsyncGenerator[str | Completion, None]:
    raise WorkerFailed("came to nothing", maybe_paid=True, usage=Usage(100, 10))
    yield ""


@pytest.mark.parametrize("act", [_half, _hangs, _timeout])
async def test_a_call_whose_end_was_not_seen_counts_as_the_most_it_may_have_come_to(
    act: Callable[[Request], AsyncGenerator[str | Completion, None]],
) -> None:
    round_ = Round(ChatPlanner(Actor(BOSS, act)), limits=Limits(cost=1.0, unpriced=0.0))
    assert await round_.make() is None
    lost, (worst,) = round_.planning.proposals[0], round_.reserved
    assert (lost.maybe_paid, lost.cost, lost.usage.estimated) == (True, worst.cost, True)
    assert round_.ledger.spent == worst
    assert worst.cost is not None
    assert round_.ledger.left.cost == pytest.approx(1.0 - worst.cost)


@pytest.mark.parametrize(
    ("act", "spent"), [(_refuses, Spend(1)), (_fails_with_a_bill, Spend(1, 100, 10, 0.0002))]
)
async def test_a_failure_of_which_the_bill_is_known_counts_as_that(
    act: Callable[[Request], AsyncGenerator[str | Completion, None]], spent: Spend
) -> None:
    round_ = Round(ChatPlanner(Actor(BOSS, act)))
    await round_.make()
    assert round_.ledger.spent == spent
    assert not any(proposal.maybe_paid for proposal in round_.planning.proposals)


@pytest.mark.parametrize(
    ("limits", "bound"),
    [
        (Limits(), None),
        (Limits(cost=1.0, unpriced=0.0, answer_tokens=77), 77),
        (Limits(input_tokens=10**6), None),
    ],
)
async def test_a_plan_text_is_bounded_where_it_could_exceed_a_limit(
    limits: Limits, bound: int | None
) -> None:
    planner = _planner(GOOD)
    await Round(planner, limits=limits).make()
    worker = planner.worker
    assert isinstance(worker, ScriptedWorker)
    assert worker.requests[0].sampling.max_tokens == bound


@pytest.mark.parametrize(
    ("limits", "line"),
    [
        (Limits(), None),
        (Limits(cost=0.58, unpriced=0.0), ": $0.5. A step"),
        (Limits(output_tokens=23_456), ": 20,000 tokens for all that they write. A step"),
        (
            Limits(calls=7, steps=3, input_tokens=99_999),
            ": 3 step(s); 6 call(s) of workers, those that fail included; 90,000 tokens for all",
        ),
    ],
)
async def test_the_planner_is_told_what_is_left(limits: Limits, line: str | None) -> None:
    planner = _planner(GOOD)
    await Round(planner, limits=limits).make()
    asked = told(planner)
    assert ("is left for the whole plan" in asked) == (line is not None)
    assert line is None or line in asked
    assert asked.endswith("then write the plan.")


async def test_a_planner_that_is_a_worker_of_the_pool_takes_its_slot() -> None:
    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        await anyio.sleep(1.0)
        yield Completion(GOOD)

    worker = Actor(replace(BOSS, concurrency=1), act)
    conductor = Conductor(ChatPlanner(worker), [worker])
    async with conductor, anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(conductor.run, "What?")
    assert (worker.peak, len(worker.requests), worker.running) == (1, 6, 0)


REPLIES = st.sampled_from(("good", "bad", "refuse", "break", "hang", "bill"))


@given(
    ways=st.lists(REPLIES, min_size=1, max_size=6),
    limits=st.builds(
        Limits,
        rounds=st.integers(1, 3),
        calls=st.integers(1, 8),
        output_tokens=st.one_of(st.none(), st.integers(1, 400)),
        cost=st.one_of(st.none(), st.integers(1, 40).map(lambda cents: cents / 1000)),
        answer_tokens=st.integers(1, 100),
    ),
)
def test_planning_never_spends_more_than_it_may(ways: list[str], limits: Limits) -> None:
    left = list(ways)

    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        way = left.pop(0) if len(left) > 1 else left[0]
        await anyio.sleep(0.01)
        if way == "refuse":
            raise WorkerRefused("no")
        if way == "break":
            raise WorkerTimeout("gone", maybe_paid=True)
        if way == "bill":
            raise WorkerFailed("no", usage=Usage(50, min(5, request.sampling.max_tokens or 5)))
        if way == "hang":
            await anyio.sleep_forever()
        most = request.sampling.max_tokens
        usage = Usage(200, 30 if most is None else min(30, most))
        yield Completion(rows((0, f"go {len(left)}", ())) if way == "good" else "no plan", usage=usage)

    async def run() -> None:
        planner = Actor(BOSS, act)
        worker = ScriptedWorker("a", "A")
        events: list[Event] = []
        with suppress(PlannerError):
            async for event in Conductor(ChatPlanner(planner), [worker], limits=limits).stream("What is it?"):
                events.append(event)  # noqa: PERF401 - what is read before the error counts
        asked = sum(isinstance(event, PlannerStarted) and event.planner == "boss" for event in events)
        calls = asked + sum(isinstance(event, StepStarted) for event in events)
        result = events[-1].result  # type: ignore[union-attr] # a stream ends with its result
        assert (len(planner.requests), planner.running) == (asked, 0)
        assert calls <= limits.calls
        assert result.cost is None or limits.cost is None or result.cost <= limits.cost
        written = result.usage.output_tokens
        assert limits.output_tokens is None or result.usage.estimated or written <= limits.output_tokens

    anyio.run(run, backend_options=OPTIONS)
