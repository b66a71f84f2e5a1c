"""What was paid is billed once and counted once, however a run was broken off and taken up."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Self

import anyio
import pytest
from core.actors import Actor
from core.run_state.test_resume import calls, prefix, recorded

from podium import Card, Conductor, Limits, Plan, Price, ScriptedWorker, Step
from podium.errors import WorkerRefused, WorkerUnavailable
from podium.execution import Retry
from podium.journal import MemoryCache, MemoryJournal
from podium.plan_text import write_plan
from podium.planners import ChatPlanner, FixedPlanner
from podium.policy import Policy
from podium.types import Completion, Event, PlannerEnded, PlannerStarted, RunStarted, StepEnded, StepStarted
from podium.usage import Usage
from podium.workers import Request, Worker
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio
PRICE = Price(input=1.0, output=1.0)
ONCE = Retry(attempts=1)
KEY = "sk-" + "a1b2c3d4e5f6a7b8c9d0"


def paid(name: str, reply: Reply | None = None, *, latency: float = 0.0) -> ScriptedWorker:
    """Return a worker each of whose answers takes 100 tokens in and 100 out, at $0.0002."""
    answer = reply if reply is not None else Completion(f"{name} said", usage=Usage(100, 100))
    return ScriptedWorker(Card(name=name, price=PRICE, version="1"), answer, latency=latency)


def planned(plan: Plan) -> FixedPlanner:
    """Return a planner that always writes this plan."""
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
    """Return the id of the one nested run."""
    (row,) = [row for row in await journal.runs(nested=True) if row.parent is not None]
    return row.run_id


def until(events: Sequence[Event], wanted: Callable[[Event], bool]) -> int:
    """Return how many events there are before the first that is wanted."""
    return next(index for index, event in enumerate(events) if wanted(event))


async def test_a_nested_run_that_had_ended_is_billed_once_and_counted() -> None:
    """The process died between the end of the nested run and that of its step."""
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
    """Neither those of a recorded step nor those of one whose end was not recorded are forgotten."""
    journal = MemoryJournal()
    await outer(nested([paid("x"), paid("y")]), paid("tail"), journal).run("What?", run_id="R")
    at = until(await recorded(journal, "R"), lambda event: isinstance(event, StepEnded))
    left = await cut(journal, {"R": at + ended, await runs_in(journal): None})
    inner, tail = [paid("x"), paid("y")], paid("tail")
    result = await outer(nested(inner), tail, left).resume("R", limits=Limits(calls=2))
    assert (calls(inner), calls([tail])) == ([0, 0], [0])
    assert result.problem is not None
    assert result.problem.code == "limit"


async def test_a_nested_run_that_failed_before_the_crash_loses_no_money() -> None:
    """What it had paid is in the bill, and what it delivered is not paid again."""
    journal = MemoryJournal()
    failing = [paid("x"), paid("y", RuntimeError("down"))]
    await outer(nested(failing), paid("tail"), journal).run("What?", run_id="R")
    length = until(await recorded(journal, "R"), lambda event: isinstance(event, StepEnded))
    left = await cut(journal, {"R": length, await runs_in(journal): None})
    inner, tail = [paid("x"), paid("y")], paid("tail")
    result = await outer(nested(inner), tail, left).resume("R")
    assert (result.status, calls(inner)) == ("ok", [0, 1])
    assert result.usage.total_tokens >= 600


@pytest.mark.parametrize("text", ["no plan", write_plan(Plan((Step(0, "x"), Step(1, "y", (0,)))), "rows")])
async def test_a_nested_run_that_fails_costs_what_its_calls_cost(text: str) -> None:
    """Whether it has no plan, or a step of it fails."""
    answer = Completion(text, usage=Usage(100, 100))
    boss = ChatPlanner(ScriptedWorker(Card(name="boss", price=PRICE), answer))
    workers = [paid("x"), paid("y", WorkerRefused("no"))]
    inner = Conductor(boss, workers, retry=ONCE, on_failure="fail", card=Card(name="inner"))
    outcome = (await Conductor(planned(Plan((Step(0, "do it"),))), [inner]).run("What?")).outcomes[0]
    assert (outcome.status, outcome.usage.total_tokens) == ("failed", 400)
    assert outcome.cost == pytest.approx(0.0004)
    assert (outcome.maybe_paid, outcome.charged) == (False, "usage")


async def test_a_nested_run_that_is_asked_again_in_the_same_process_is_booked_once() -> None:
    """A call of a conductor that was stopped has booked what it spent; the next books only its own."""
    latencies = iter([0.3, 0.0])

    async def late(request: Request) -> AsyncGenerator[str | Completion, None]:
        await anyio.sleep(next(latencies))
        yield Completion("y said", usage=Usage(100, 100))

    inner = [paid("x"), Actor(Card(name="y", price=PRICE), late)]
    conductor = Conductor(
        planned(Plan((Step(0, "do it"),))),
        [nested(inner)],
        journal=MemoryJournal(),
        limits=Limits(attempt_seconds=0.1, calls=3),
        retry=Retry(first_wait=0.001),
    )
    result = await conductor.run("What?")
    assert (result.status, len(inner[0].requests), len(inner[1].requests)) == ("ok", 1, 2)


async def test_what_looks_like_a_key_does_not_hide_what_is_paid() -> None:
    """The record holds no keys; what they stood in is found all the same."""
    journal, question = MemoryJournal(), f"Does {KEY} work?"
    await outer(nested([paid("x"), paid("y")]), paid("tail"), journal).run(question, run_id="R")
    again = await outer(nested([paid("x"), paid("y")]), paid("tail"), journal).run(question, run_id="R")
    assert again.status == "ok"
    length = until(await recorded(journal, "R"), lambda event: isinstance(event, StepEnded))
    left = await cut(journal, {"R": length, await runs_in(journal): None})
    inner = [paid("x"), paid("y")]
    result = await outer(nested(inner), paid("tail"), left).resume("R")
    assert (result.status, calls(inner)) == ("ok", [0, 0])


async def test_steps_that_differ_in_a_key_alone_are_not_the_same() -> None:
    """A round that is planned anew asks again what it asks differently."""
    first = Plan((Step(0, f"check {KEY}"), Step(1, "use it", (0,))))
    second = Plan((Step(0, f"check {KEY[:-4]}ffff"),))
    texts = iter([write_plan(first, "rows"), write_plan(second, "rows")])
    planner = ChatPlanner(ScriptedWorker("boss", lambda request: next(texts)))
    checker = ScriptedWorker("checker", lambda request: f"checked {request.messages[-1].text[-4:]}")
    workers = [checker, ScriptedWorker("user", RuntimeError("down"))]
    result = await Conductor(planner, workers, limits=Limits(rounds=2), on_failure="replan").run(
        "Check them."
    )
    assert result.answer == "checked ffff"


async def test_an_answer_from_the_cache_is_recorded_when_a_run_goes_on() -> None:
    """It is new to the record, though it was not called for."""
    journal, cache, plan = MemoryJournal(), MemoryCache(), planned(Plan((Step(0, "go"),)))
    down = [paid("a", WorkerUnavailable("down"))]
    await Conductor(plan, down, journal=journal, cache=cache, retry=ONCE).run("What?", run_id="R")
    await Conductor(plan, [paid("a")], cache=cache).run("What?")
    result = await Conductor(plan, down, journal=journal, cache=cache, retry=ONCE).resume("R")
    assert (result.status, [outcome.status for outcome in result.outcomes]) == ("ok", ["ok"])
    again = await Conductor(plan, down, journal=journal, retry=ONCE).run("What?", run_id="R")
    assert again == result


async def test_a_plan_that_is_changed_back_is_billed_once() -> None:
    """And the record ends with what the answer came from."""
    journal, workers = MemoryJournal(), [paid("a"), paid("b")]
    first, other = Plan((Step(0, "go"),)), Plan((Step(1, "go"),))
    conductor = Conductor(planned(first), workers, journal=journal)
    await conductor.run("What?", run_id="R")
    await conductor.resume("R", plan=other)
    result = await conductor.resume("R", plan=first)
    assert (result.answer, result.outcomes[0].text, calls(workers)) == ("a said", "a said", [1, 1])
    assert result.usage.total_tokens == 400


async def test_steps_started_before_count() -> None:
    """A run may not start its steps once more by being resumed."""
    journal, workers = MemoryJournal(), [paid("a"), paid("b", WorkerRefused("no"))]
    plan = planned(Plan((Step(0, "one"), Step(0, "two"), Step(1, "answer", (0, 1)))))
    conductor = Conductor(plan, workers, journal=journal, limits=Limits(steps=3))
    await conductor.run("What?", run_id="R")
    asked = calls(workers)
    await conductor.resume("R")
    assert calls(workers) == asked == [2, 1]


async def test_what_was_to_be_approved_is_not_waved_through_by_resuming() -> None:
    """Not by a conductor that knows no policy either; nor is the wait recorded again and again."""
    journal, workers = MemoryJournal(), [paid("a")]
    conductor = Conductor(planned(Plan((Step(0, "go"),))), workers, journal=journal)
    waits = await conductor.run("What?", run_id="R", policy=Policy(approve="later"))
    assert waits.status == "waiting"
    assert (await conductor.resume("R")).status == "waiting"
    size = len(await recorded(journal, "R"))
    assert (await conductor.run("What?", run_id="R")).status == "waiting"
    assert len(await recorded(journal, "R")) == size
    assert calls(workers) == [0]
    await conductor.decide("R", approved=True)
    assert (await conductor.resume("R")).status == "ok"


async def test_a_bad_plan_that_was_paid_for_is_not_asked_for_again() -> None:
    """The planner is asked to mend it, as it would have been."""
    texts = ["no plan", write_plan(Plan((Step(0, "go"),)), "rows")]

    def boss() -> ScriptedWorker:
        return ScriptedWorker("boss", lambda request: texts[len(request.messages) > 2])

    journal = MemoryJournal()
    await Conductor(ChatPlanner(boss()), [paid("a")], journal=journal).run("What?", run_id="R")
    events = await recorded(journal, "R")
    length = until(events, lambda event: isinstance(event, PlannerEnded)) + 1
    planner = boss()
    left = await prefix(events[:length], "R")
    result = await Conductor(ChatPlanner(planner), [paid("a")], journal=left).resume("R")
    assert (result.status, len(planner.requests), len(result.proposals)) == ("ok", 1, 2)
    asked = [event for event in await recorded(left, "R") if isinstance(event, PlannerStarted)]
    assert len(asked) == 2


async def test_runs_at_the_same_time_close_nothing_under_one_another() -> None:
    """What a conductor opens for one run is open until that run has ended."""
    worker = _Held("held")
    conductor = Conductor(planned(Plan((Step(0, "go"),))), [worker])
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(conductor.run("short"))
        tasks.create_task(conductor.run("long, by a while"))
    assert worker.seen == [True, True]


class _Held(Actor):
    """Notes whether it is open when it answers."""

    def __init__(self, name: str) -> None:
        super().__init__(name, self._answer)
        self.seen: list[bool] = []
        self._open = 0

    async def __aenter__(self) -> Self:
        self._open += 1
        return await super().__aenter__()

    async def __aexit__(self, *error: object) -> None:
        self._open -= 1

    async def _answer(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        await anyio.sleep(0.1 if "long" in request.messages[-1].text else 0.01)
        self.seen.append(self._open > 0)
        yield Completion("done")


@pytest.mark.parametrize(
    ("completion", "reason"),
    [
        (Completion("good", finish_reason="end_turn"), "finish_reason is 'end_turn': it must be one of"),  # type: ignore[arg-type]
        (Completion("good", cost="0.1"), "cost is '0.1': it must be a number of USD"),  # type: ignore[arg-type]
        (Completion("good", cost=float("nan")), "cost is nan: it must be a number of USD"),
        (Completion("good", cost=-0.1), "cost is -0.1: it must be a number of USD"),
        (Completion(None), "text is NoneType"),  # type: ignore[arg-type]
        (Completion("", tool_calls=("call",)), "tool_calls are ('call',): they must be a tuple of objects"),  # type: ignore[arg-type]
    ],
)
async def test_what_no_record_could_hold_is_refused_where_it_comes_in(
    completion: Completion, reason: str
) -> None:
    """The step fails with what is wrong, and the run can be read."""
    journal = MemoryJournal()
    conductor = Conductor(planned(Plan((Step(0, "go"),))), [paid("a", completion)], journal=journal)
    result = await conductor.run("What?", run_id="R")
    assert result.outcomes[0].problem is not None
    assert result.outcomes[0].problem.code == "worker_failed"
    assert reason in result.outcomes[0].problem.message
    assert await journal.read("R")


async def test_what_was_spent_before_counts_as_what_it_cost() -> None:
    """Of a recorded call the cost is known, so that no more is set aside for it; a failed one counts too."""
    replies = iter([WorkerUnavailable("down"), Completion("a said", usage=Usage(100, 100))])
    flaky = ScriptedWorker(Card(name="a", price=PRICE, version="1"), lambda request: next(replies))
    plan = planned(Plan((Step(0, "one"), Step(1, "two", (0,)), Step(2, "three", (1,)))))
    journal, options = MemoryJournal(), {"limits": Limits(cost=0.0135), "retry": Retry(first_wait=0.001)}
    first = [flaky, paid("b"), paid("c")]
    await Conductor(plan, first, journal=journal, **options).run("What?", run_id="R")  # type: ignore[arg-type]
    events = await recorded(journal, "R")
    start = until(events, lambda event: isinstance(event, StepStarted) and event.step == 2)
    left = await prefix(events[:start], "R")
    again = [paid("a"), paid("b"), paid("c")]
    result = await Conductor(plan, again, journal=left, **options).resume("R")  # type: ignore[arg-type]
    assert (result.status, calls(again)) == ("ok", [0, 0, 1])
    assert result.cost == pytest.approx(0.0006)


async def test_steps_that_ask_the_same_keep_their_answers_when_the_run_goes_on() -> None:
    """The second of two equal steps ended first, and its answer stays with it."""
    replies = iter([("slow", 0.05), ("fast", 0.0)])

    async def answer(request: Request) -> AsyncGenerator[str | Completion, None]:
        text, seconds = next(replies)
        await anyio.sleep(seconds)
        yield Completion(text)

    journal, plan = MemoryJournal(), planned(Plan((Step(0, "go"), Step(0, "go"), Step(1, "end", (0, 1)))))
    first = Conductor(plan, [Actor("a", answer), ScriptedWorker("b", RuntimeError("down"))], journal=journal)
    before = await first.run("What?", run_id="R")
    result = await Conductor(plan, [ScriptedWorker("a", "new"), paid("b")], journal=journal).resume("R")
    assert [outcome.text for outcome in before.outcomes[:2]] == ["slow", "fast"]
    assert [outcome.text for outcome in result.outcomes] == ["slow", "fast", "b said"]
