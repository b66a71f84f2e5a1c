"""A mistake in the user's own code leaves the run as it is; what such code yields is checked."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from core.actors import Actor, PlanningActor, boss, never, pair, plan_of, problem_of, rows, yielding

from podium import Card, Conductor, FunctionWorker, Limits, Price, Retry, ScriptedWorker
from podium.errors import ListenerFailed
from podium.hosts import ToolWorker
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.run_state.state import fold
from podium.types import Completion, Event, RunEnded, RunStopped, StepEnded, StepStarted
from podium.usage import Usage
from podium.workers import FREE, Request, StepInput, Worker

pytestmark = pytest.mark.anyio

PLAN = plan_of((0, "first", ()), (1, "second", (0,)))
ONE = FixedPlanner(plan_of((0, "go", ())))
TEXT = rows((0, "go", ()))
PAID = Card(name="own", price=Price(input=1.0, output=1.0))


class Own(Worker):
    """A worker of the user's, whose code raises `error` once."""

    def __init__(self, error: BaseException | None) -> None:
        self.card = Card(name="own", price=FREE)
        self.error = error

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        if self.error is not None:
            raise self.error
        yield Completion("done")


def _function(error: BaseException) -> FunctionWorker:
    def own(step_input: StepInput) -> str:
        raise error

    return FunctionWorker(own, price=FREE)


@pytest.mark.parametrize(
    ("make", "kind"),
    [(Own, TypeError), (Own, AttributeError), (_function, NameError), (_function, ImportError)],
)
async def test_a_mistake_in_a_worker_leaves_every_face(make: Any, kind: type[Exception]) -> None:
    conductor = Conductor(FixedPlanner(PLAN), [ScriptedWorker("a", "A"), make(error := kind("mistake"))])
    with pytest.raises(kind) as of_run:
        await conductor.run("What?")
    assert of_run.value is error
    with pytest.raises(kind, match="mistake"):
        [event async for event in conductor.stream("What?")]
    (first, _) = error.__notes__
    assert "step 1 of round 1 (worker 'own') in run " in first


async def test_what_had_ended_is_recorded_and_the_run_goes_on_when_the_mistake_is_mended() -> None:
    journal = MemoryJournal()
    first, own, slow = ScriptedWorker("first", "A"), Own(TypeError("mistake")), Actor("slow", never)
    plan = plan_of((0, "a", ()), (1, "b", (0,)), (2, "c", ()), (0, "d", (0, 1, 2)))
    conductor = Conductor(FixedPlanner(plan), [first, own, slow], journal=journal)
    with pytest.raises(TypeError, match="mistake"):
        await conductor.run("What?", run_id="r")
    assert (slow.stopped, slow.running) == (1, 0)
    events = [entry.event for entry in await journal.read("r")]
    ends = {e.step: e.outcome.status for e in events if isinstance(e, StepEnded)}
    assert ends == {0: "ok", 1: "failed", 2: "cancelled", 3: "cancelled"}
    assert isinstance(events[-1], RunStopped)
    assert events[-1].problem.code == "crashed"
    assert fold(events).result().status != "ok"
    own.error = None
    mended = [first, own, ScriptedWorker("slow", "C")]
    result = await Conductor(FixedPlanner(plan), mended, journal=journal).resume("r")
    assert (result.status, result.answer, len(first.requests)) == ("ok", "A", 2)


async def test_a_mistake_in_a_planner_leaves_the_run() -> None:
    journal = MemoryJournal()
    planner, worker = PlanningActor(yielding(AttributeError("mistake"))), ScriptedWorker("a", "A")
    conductor = Conductor(planner, [worker], journal=journal, fallback_planner=boss("x"))
    with pytest.raises(AttributeError, match="mistake") as caught:
        await conductor.run("What?", run_id="r")
    assert "planner 'actor' in round 1 in run r" in caught.value.__notes__[0]
    with pytest.raises(AttributeError, match="mistake"):
        await conductor.plan("What?")
    good = Conductor(boss(rows((0, "go", ()))), [ScriptedWorker("a", "A")], journal=journal)
    result = await good.resume("r")
    assert (result.status, result.answer) == ("ok", "A")


def _bad(*_: object) -> Any:
    raise TypeError("mistake")


@pytest.mark.parametrize(
    ("options", "place"),
    [({"accept": _bad}, "`accept` in round 1"), ({"policy": Policy(approve=_bad)}, "`approve` in round 1")],
)
async def test_a_mistake_in_a_callback_leaves_the_run(options: dict[str, Any], place: str) -> None:
    conductor = Conductor(FixedPlanner(PLAN), pair(), **options)
    with pytest.raises(TypeError, match="mistake") as caught:
        await conductor.run("What?")
    assert place in caught.value.__notes__[0]


async def test_a_mistake_in_a_listener_cancels_the_run() -> None:
    worker = Actor("a", never)

    def listen(event: Event) -> None:
        if isinstance(event, StepStarted):
            event.nothing  # type: ignore[attr-defined]  # noqa: B018

    conductor = Conductor(FixedPlanner(plan_of((0, "go", ()))), [worker], journal=MemoryJournal())
    with anyio.fail_after(5), pytest.raises(AttributeError, match="nothing") as caught:
        await conductor.run("What?", on_event=listen)
    assert "`on_event` in run" in caught.value.__notes__[0]
    assert worker.running == 0

    def fail(event: Event) -> None:
        raise ValueError

    conductor = Conductor(FixedPlanner(PLAN), pair())
    with pytest.raises(ListenerFailed) as failed:
        await conductor.run("What?", on_event=fail)
    assert failed.value.result.status == "ok"


async def test_a_mistake_in_a_listener_tells_what_was_done() -> None:
    def listen(event: Event) -> None:
        if isinstance(event, RunEnded):
            raise TypeError

    refund = FunctionWorker(lambda step: "refunded", card=Card(name="refund"), acts=True)
    planner = FixedPlanner(plan_of((0, "order 17", ()), (0, "order 18", (0,))))
    with pytest.raises(TypeError) as caught:
        await Conductor(planner, [refund]).run("What?", on_event=listen)
    assert [note for note in caught.value.__notes__ if "refund order 17: done" in note]


async def test_a_function_that_is_called_with_what_a_model_wrote_fails_its_step() -> None:
    async def weather(arguments: dict[str, Any]) -> str:
        raise TypeError(f"no weather in {arguments['city']}")

    schema = {"properties": {"city": {"type": "string"}, "day": {"type": "string"}}}
    tool = ToolWorker(schema, weather, card=Card(name="weather", price=FREE))
    plan = plan_of((0, '{"city": "Bern", "day": "today"}', ()))
    result = await Conductor(FixedPlanner(plan), [tool]).run("What?")
    assert result.status == "failed"
    assert "TypeError" in problem_of(result.outcomes[0]).message


@pytest.mark.parametrize(
    ("pieces", "code", "told", "calls"),
    [
        ([Completion("hi", usage=Usage(300, 1), cost=1e9)], "worker_failed", "cost is", 1),
        ([Completion("hi", usage=Usage(300, 1), cost=float("nan"))], "worker_failed", "cost is", 1),
        (["abc", Completion("xyz")], "worker_broken", "pieces that differ", 2),
    ],
)
async def test_what_such_code_yields_is_checked(pieces: list[Any], code: str, told: str, calls: int) -> None:
    worker, retry = Actor(PAID, yielding(*pieces)), Retry(attempts=2, first_wait=0.01)
    result = await Conductor(ONE, [worker], limits=Limits(cost=1.0), retry=retry).run("What?")
    assert (result.status, problem_of(result).code, len(worker.requests)) == ("failed", code, calls)
    assert told in problem_of(result).message


async def test_code_without_a_model_that_fails_has_an_unknown_cost() -> None:

    def own(step_input: StepInput) -> str:
        raise ValueError("no such thing")

    worker = FunctionWorker(own, card=Card(name="own"))
    result = await Conductor(ONE, [worker], retry=Retry(attempts=1)).run("What?")
    assert result.outcomes[0].status == "failed"
    assert (result.usage, result.cost, result.maybe_paid) == (Usage(), None, False)


def test_an_interrupt_of_a_listener_leaves_the_run_as_itself() -> None:
    def listen(event: Event) -> None:
        if event.type == "step_ended":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Conductor(boss(TEXT), [ScriptedWorker("a", "A")]).run_sync("What?", on_event=listen)
