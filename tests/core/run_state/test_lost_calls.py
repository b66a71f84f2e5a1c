"""What was cut off, nested or lost is on the bill once; the record of a run on a full disk."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from core.actors import ONCE, problem_of
from core.plans import plans
from core.run_state.test_resume import calls, journal_of, prefix, recorded
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Conductor, FunctionWorker, Limits, Plan, Result, Retry, ScriptedWorker, Step
from podium.errors import JournalError, PlannerError, WorkerUnavailable
from podium.journal import Log, MemoryJournal
from podium.plan_text import write_plan
from podium.planners import ChatPlanner, FixedPlanner
from podium.run_state import fold
from podium.types import Completion, Event, PlannerStarted, RunEnded, RunStarted, StepEnded, StepStarted
from podium.usage import Usage
from podium.workers import FREE, Card, Price, Worker
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio
EACH = 0.0002
"""USD that each call costs."""
PRICE = Price(input=1.0, output=1.0)


@dataclass(frozen=True)
class Scene:
    """A plan, the plan that a resumed run has in its place, and how long each worker takes."""

    plan: Plan
    edited: Plan | None
    ticks: tuple[int, ...]
    fails: bool


PLANS = plans(3, 5, words=["the same"])
scenes = st.builds(Scene, PLANS, st.none() | PLANS, st.tuples(*[st.integers(0, 3)] * 3), st.booleans())


def conductor(scene: Scene, journal: MemoryJournal, limits: Limits | None = None) -> Conductor:
    """Return a conductor, the planner and workers of which cost `EACH` a call."""
    boss = paid("boss", Completion(write_plan(scene.plan, "rows"), usage=Usage(100, 100)))
    workers = [paid(f"w{number}", latency=tick / 64) for number, tick in enumerate(scene.ticks)]
    if scene.fails:
        down = WorkerUnavailable("down", maybe_paid=True, usage=Usage(100, 100))
        workers[0] = paid("w0", down, latency=scene.ticks[0] / 64)
    retry = Retry(attempts=2, first_wait=0.01)
    return Conductor(ChatPlanner(boss), workers, journal=journal, retry=retry, limits=limits)


def sent(events: list[Event]) -> int:
    return sum(event.reserved.calls for event in events if isinstance(event, StepStarted | PlannerStarted))


def check(result: Result, events: list[Event]) -> None:
    assert result.cost >= EACH * sent(events) - 1e-9
    assert result.usage.total_tokens >= 200 * sent(events)
    if not result.maybe_paid:
        assert result.cost == pytest.approx(EACH * sent(events))


@given(scenes, st.none() | st.integers(1, 6), st.data())
def test_no_call_that_was_sent_is_missing_from_the_bill(scene: Scene, most: Any, data: st.DataObject) -> None:
    """Cut off twice, with another plan from then on: the cost has all that was paid; no limit is passed."""
    limits = Limits() if most is None else Limits(calls=most)

    async def body() -> None:
        journal = MemoryJournal()
        with suppress(PlannerError):  # one call is too few for a plan and a step
            await conductor(scene, journal, limits).run("What?", run_id="R")
        events = await recorded(journal, "R")
        for life in range(2):
            events = events[: data.draw(st.integers(1, len(events)), label=f"length {life}")]
            check(fold(events).result(), events)
            left = await prefix(events, "R")
            with suppress(PlannerError):  # the calls that were lost can leave none for a plan
                result = await conductor(scene, left, limits).resume("R", plan=scene.edited)
                assert fold(await recorded(left, "R")).result() == result
            events = await recorded(left, "R")
            check(fold(events).result(), events)
            assert sent(events) <= limits.calls

    anyio.run(body, backend_options=OPTIONS)


async def test_a_nested_run_that_was_cut_off_is_billed_by_its_record() -> None:
    journal = MemoryJournal()
    await outer(nested([paid("x"), paid("y")]), paid("tail"), journal).run("What?", run_id="R")
    child = await runs_in(journal)
    length = next(at for at, e in enumerate(await recorded(journal, "R")) if isinstance(e, StepEnded))
    starts = [at for at, e in enumerate(await recorded(journal, child)) if isinstance(e, StepStarted)]
    left = await cut(journal, {"R": length, child: starts[1] + 1})
    events, lost = await recorded(left, "R"), await recorded(left, child)
    assert fold(events).result().cost is None  # what the nested run spent is not at hand
    told = fold(events, [lost]).result()
    reserved = next(e.reserved for e in reversed(lost) if isinstance(e, StepStarted))
    assert told.cost == pytest.approx(EACH + reserved.cost)
    assert told.maybe_paid
    result = await outer(nested([paid("x"), paid("y")]), paid("tail"), left).resume("R")
    assert (result.status, result.cost) == ("ok", pytest.approx(3 * EACH + reserved.cost))


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
    return await journal_of(*[(await recorded(journal, each))[:length] for each, length in lengths.items()])


async def runs_in(journal: MemoryJournal) -> str:
    (row,) = [row for row in await journal.runs(nested=True) if row.parent is not None]
    return row.run_id


@pytest.mark.parametrize("ended", [False, True])
async def test_calls_of_nested_runs_count_after_a_resume(*, ended: bool) -> None:
    journal = MemoryJournal()
    await outer(nested([paid("x"), paid("y")]), paid("tail"), journal).run("What?", run_id="R")
    at = next(at for at, e in enumerate(await recorded(journal, "R")) if isinstance(e, StepEnded))
    left = await cut(journal, {"R": at + ended, await runs_in(journal): None})
    inner, tail = [paid("x"), paid("y")], paid("tail")
    result = await outer(nested(inner), tail, left).resume("R", limits=Limits(calls=2))
    assert (calls(inner), calls([tail]), problem_of(result).code) == ([0, 0], [0], "limit")


class _BreakingLog(Log):
    """Records nothing from an event of a type on; at the end of a step, another process has the run."""

    def __init__(self, log: Log, last: type[Event]) -> None:
        self.run_id, self._log, self._last = log.run_id, log, last
        self._broken = False

    def append(self, event: Event) -> None:
        self._broken = self._broken or isinstance(event, self._last)
        if not self._broken:
            self._log.append(event)
        elif isinstance(event, StepEnded):
            assert self.on_lost is not None
            self.on_lost()

    async def flush(self) -> None:
        if self._broken:
            raise JournalError("no space left")

    async def aclose(self) -> None:
        await self._log.aclose()


class _Breaking(MemoryJournal):
    def __init__(self, last: type[Event]) -> None:
        super().__init__()
        self._last = last

    async def begin(self, started: RunStarted, *, minted: bool) -> Log:
        return _BreakingLog(await super().begin(started, minted=minted), self._last)


async def test_a_result_that_cannot_be_recorded_is_in_the_error() -> None:
    conductor = Conductor(planned(Plan((Step(0, "go"),))), [paid("a")], journal=_Breaking(RunEnded))
    with pytest.raises(JournalError, match="no space left") as caught:
        await conductor.run("What?")
    assert (caught.value.result.answer, caught.value.result.status) == ("a said", "ok")


@pytest.mark.parametrize("price", [PRICE, FREE])
async def test_a_planner_that_was_broken_off_is_in_the_result(price: Price) -> None:
    journal = MemoryJournal()
    planner = ScriptedWorker(Card(name="boss", price=price), '{"worker": 0, "subtask": "go", "access": []}')
    await Conductor(ChatPlanner(planner), [paid("a")], journal=journal).run("What?", run_id="whole")
    events = await recorded(journal, "whole")
    at, start = next((at, event) for at, event in enumerate(events) if isinstance(event, PlannerStarted))
    left = await prefix(events[: at + 1], "R")
    assert fold([entry.event for entry in await left.read("R")]).result().cost == start.reserved.cost
    result = await Conductor(ChatPlanner(planner), [paid("a")], journal=left).resume("R")
    lost, good = result.proposals
    assert (lost.text, problem_of(lost).code, lost.cost) == ("", "unknown", start.reserved.cost)
    assert lost.usage == Usage(start.reserved.input_tokens, start.reserved.output_tokens, estimated=True)
    assert lost.maybe_paid == result.maybe_paid == (price != FREE)
    assert (good.problem, result.status) == (None, "ok")


async def test_calls_of_a_run_that_is_lost_are_stopped() -> None:
    slow = ScriptedWorker("slow", "late", latency=30)
    plan = planned(Plan((Step(0, "quick"), Step(1, "long"), Step(0, "end", (0, 1)))))
    conductor = Conductor(plan, [paid("a", latency=0.02), slow], journal=_Breaking(StepEnded))
    with anyio.fail_after(5), pytest.raises(JournalError):
        await conductor.run("What?")
    assert len(slow.requests) == 1


async def test_a_lost_call_without_tokens_or_price_has_no_reservation() -> None:
    """It is `maybe_paid`, and no note says that it is charged."""
    journal, worker = MemoryJournal(), FunctionWorker(lambda _: "done")
    first = Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [worker], journal=journal)
    await first.run("What?", run_id="whole")
    events = await recorded(journal, "whole")
    begun = next(number for number, event in enumerate(events) if isinstance(event, StepStarted))
    result = fold(events[: begun + 1]).result()
    assert (result.maybe_paid, result.usage_note) == (True, "")
