"""What workers and planners of the user's own yield is checked, and costs no more than it can have cost."""

from collections.abc import Sequence
from typing import Any

import pytest
from core.actors import Actor, PlanningActor, boss, plan_of, problem_of, rows, yielding

from podium import Conductor, FunctionWorker, ScriptedWorker
from podium.budget import Limits
from podium.errors import PlannerError
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner, PlanText
from podium.types import Completion, Event, PlannerEnded
from podium.usage import Usage
from podium.workers import FREE, Card, Price, StepInput

pytestmark = pytest.mark.anyio

ONE = FixedPlanner(plan_of((0, "go", ())))
TEXT = rows((0, "go", ()))
PAID = Card(name="own", price=Price(input=1.0, output=1.0))


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ([PlanText(text=TEXT, cost=-5.0)], r"cost is -5.0: it must be a number of USD"),
        ([PlanText(text=TEXT, cost=float("nan"))], "cost is nan"),
        ([PlanText(text=TEXT, cost="1")], "cost is '1'"),  # type: ignore[arg-type]
        ([PlanText(text=5)], "text is int"),  # type: ignore[arg-type]
        ([PlanText(text=TEXT, why=5)], "why is 5"),  # type: ignore[arg-type]
        ([PlanText(text=TEXT, finish_reason="weird")], "finish_reason is 'weird'"),  # type: ignore[arg-type]
        ([rows((0, "early", ())), PlanText(text=TEXT)], "pieces that differ from the text of its PlanText"),
    ],
)
async def test_a_plan_text_that_cannot_be_right_fails_the_planner(pieces: Sequence[Any], told: str) -> None:
    journal = MemoryJournal()
    conductor = Conductor(
        PlanningActor(yielding(*pieces)),
        [ScriptedWorker("a", "A")],
        limits=Limits(cost=1.0, unpriced=0.01),
        journal=journal,
    )
    with pytest.raises(PlannerError, match=told) as caught:
        await conductor.run("What?", run_id="r")
    assert caught.value.code == "planner_failed"
    events = [entry.event for entry in await journal.read("r")]
    assert sum(isinstance(event, PlannerEnded) for event in events) == 1
    assert events[-1].type == "run_ended"


@pytest.mark.parametrize("cost", [1e9, float("nan"), -1.0])
async def test_an_impossible_cost_fails_the_step(cost: float) -> None:
    worker = Actor(PAID, yielding(Completion("hi", usage=Usage(300, 1), cost=cost)))
    result = await Conductor(ONE, [worker], limits=Limits(cost=1.0)).run("What?")
    assert (result.status, problem_of(result).code) == ("failed", "worker_failed")
    assert "cost is" in problem_of(result).message
    assert len(worker.requests) == 1


async def test_pieces_of_another_text_than_the_whole_are_no_answer() -> None:
    worker = Actor(PAID, yielding("abc", Completion("xyz")))
    retry = Retry(attempts=2, first_wait=0.01)
    result = await Conductor(ONE, [worker], retry=retry).run("What?")
    assert (result.status, problem_of(result).code) == ("failed", "worker_broken")
    assert "pieces that differ" in problem_of(result).message
    assert len(worker.requests) == 2


@pytest.mark.parametrize("returned", [" \n", None, b"text"])
async def test_a_function_that_returns_no_text_is_called_once(returned: Any) -> None:
    calls: list[StepInput] = []

    def own(step_input: StepInput) -> Any:
        calls.append(step_input)
        return returned

    result = await Conductor(ONE, [FunctionWorker(own)]).run("What?")
    assert (result.status, problem_of(result).code) == ("failed", "worker_failed")
    assert "return the answer as text" in problem_of(result).message
    assert len(calls) == 1


@pytest.mark.parametrize(("price", "cost"), [(None, None), (FREE, 0.0)])
async def test_code_without_a_model_that_fails_costs_what_its_card_says(
    price: Price | None, cost: float | None
) -> None:
    """Nothing, or an unknown amount. No tokens are estimated for it."""

    def own(step_input: StepInput) -> str:
        raise ValueError("no such thing")

    worker = FunctionWorker(own, card=Card(name="own", price=price))
    result = await Conductor(ONE, [worker], retry=Retry(attempts=1)).run("What?")
    assert result.outcomes[0].status == "failed"
    assert (result.usage, result.cost, result.maybe_paid) == (Usage(), cost, False)


@pytest.mark.parametrize(
    ("kind", "event_type"), [(KeyboardInterrupt, "planner_started"), (SystemExit, "step_ended")]
)
def test_an_interrupt_of_a_listener_leaves_the_run_as_itself(
    kind: type[BaseException], event_type: str
) -> None:
    def listen(event: Event) -> None:
        if event.type == event_type:
            raise kind

    with pytest.raises(kind):
        Conductor(boss(TEXT), [ScriptedWorker("a", "A")]).run_sync("What?", on_event=listen)
