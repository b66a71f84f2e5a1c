"""What was paid is billed once and counted once, however a run was broken off and taken up."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from core.actors import problem_of
from core.run_state.test_resume import calls, recorded

from podium import Card, Conductor, Limits, Plan, Price, ScriptedWorker, Step
from podium.errors import WorkerRefused
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Completion, Event, RunStarted, StepEnded
from podium.usage import Usage
from podium.workers import Worker
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio
PRICE = Price(input=1.0, output=1.0)
ONCE = Retry(attempts=1)


def paid(name: str, reply: Reply | None = None, *, latency: float = 0.0) -> ScriptedWorker:
    """Return a worker each of whose answers takes 100 tokens in and 100 out, at $0.0002."""
    answer = reply if reply is not None else Completion(f"{name} said", usage=Usage(100, 100))
    return ScriptedWorker(Card(name=name, price=PRICE, version="1"), answer, latency=latency)


def planned(plan: Plan) -> FixedPlanner:
    return FixedPlanner(write_plan(plan, "rows"))


def nested(workers: Sequence[Worker]) -> Conductor:
    """Return a conductor that asks its two workers one after the other, and fails if one does."""
    plan = Plan((Step(0, "x"), Step(1, "y", (0,))))
    return Conductor(planned(plan), workers, retry=ONCE, on_failure="fail", card=Card(name="inner"))


def outer(inner: Conductor, tail: ScriptedWorker, journal: MemoryJournal, **more: object) -> Conductor:
    """Return a conductor that asks the nested one, and then the tail."""
    plan = planned(Plan((Step(0, "do it"), Step(1, "end", (0,)))))
    return Conductor(plan, [inner, tail], journal=journal, **more)  # type: ignore[arg-type]


async def cut(journal: MemoryJournal, lengths: Mapping[str, int | None]) -> MemoryJournal:
    """Return the journal as a crash left it: of each run as many events as said, all for `None`."""
    left = MemoryJournal()
    for run_id, length in lengths.items():
        events = (await recorded(journal, run_id))[:length]
        first = events[0]
        assert isinstance(first, RunStarted)
        log = await left.begin(first, minted=False)
        for event in events[1:]:
            log.append(event)
        await log.aclose()
    return left


async def runs_in(journal: MemoryJournal) -> str:
    (row,) = [row for row in await journal.runs(nested=True) if row.parent is not None]
    return row.run_id


def until(events: Sequence[Event], wanted: Callable[[Event], bool]) -> int:
    """Return how many events there are before the first that is wanted."""
    return next(index for index, event in enumerate(events) if wanted(event))


async def test_a_nested_run_that_had_ended_is_billed_once_and_counted() -> None:
    journal = MemoryJournal()
    whole = await outer(nested([paid("x"), paid("y")]), paid("tail"), journal).run("What?", run_id="R")
    length = until(await recorded(journal, "R"), lambda event: isinstance(event, StepEnded))
    left = await cut(journal, {"R": length, await runs_in(journal): None})
    inner, tail = [paid("x"), paid("y")], paid("tail")
    result = await outer(nested(inner), tail, left).resume("R")
    assert (calls(inner), calls([tail])) == ([0, 0], [1])
    assert result.usage.total_tokens == whole.usage.total_tokens == 600
    assert result.cost == pytest.approx(0.0006)


@pytest.mark.parametrize("ended", [False, True])
async def test_calls_of_nested_runs_count_after_a_resume(*, ended: bool) -> None:
    journal = MemoryJournal()
    await outer(nested([paid("x"), paid("y")]), paid("tail"), journal).run("What?", run_id="R")
    at = until(await recorded(journal, "R"), lambda event: isinstance(event, StepEnded))
    left = await cut(journal, {"R": at + ended, await runs_in(journal): None})
    inner, tail = [paid("x"), paid("y")], paid("tail")
    result = await outer(nested(inner), tail, left).resume("R", limits=Limits(calls=2))
    assert (calls(inner), calls([tail])) == ([0, 0], [0])
    assert problem_of(result).code == "limit"


@pytest.mark.parametrize("text", ["no plan", write_plan(Plan((Step(0, "x"), Step(1, "y", (0,)))), "rows")])
async def test_a_nested_run_that_fails_costs_what_its_calls_cost(text: str) -> None:
    answer = Completion(text, usage=Usage(100, 100))
    boss = ChatPlanner(ScriptedWorker(Card(name="boss", price=PRICE), answer))
    workers = [paid("x"), paid("y", WorkerRefused("no"))]
    inner = Conductor(boss, workers, retry=ONCE, on_failure="fail", card=Card(name="inner"))
    outcome = (await Conductor(planned(Plan((Step(0, "do it"),))), [inner]).run("What?")).outcomes[0]
    assert (outcome.status, outcome.usage.total_tokens) == ("failed", 400)
    assert outcome.cost == pytest.approx(0.0004)
    assert (outcome.maybe_paid, outcome.charged) == (False, "usage")
