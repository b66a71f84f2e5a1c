"""What a plan is expected to cost, and how that compares with the bill."""

from pathlib import Path
from typing import Any

import pytest
from core.actors import boss, plan_of
from core.execution.flows import block, call, when

from podium import Card, Conductor, FunctionWorker, Limits, Plan, Pool, Price, ScriptedWorker
from podium.journal import SqlJournal
from podium.run.forecast import ENOUGH
from podium.types import Forecast
from podium.types.forecast import Interval, explain_forecast
from podium.types.messages import read_query
from podium.workers import FREE, StepInput
from podium.workers.pool import CallRecord

PRICE = Price(input=1.0, output=10.0)
DIAMOND = plan_of((0, "find", ()), (1, "look", (0,)), (2, "search", (0,)), (0, "join", (1, 2)))


def _pool(*names: str, price: Price | None = PRICE, concurrency: int | None = None) -> Pool:
    cards = [Card(name=name, price=price, concurrency=concurrency) for name in names]
    return Pool([ScriptedWorker(card, "x") for card in cards])


def _know(pool: Pool, number: int, *took: CallRecord) -> None:
    for one in took * ENOUGH:
        pool.states[number].history.add(one)


def forecast(plan: Plan, pool: Pool, limits: Limits, **options: bool) -> Forecast:
    return Conductor(boss("none"), pool, limits=limits, **options).forecast(plan)


def _exactly(amount: float) -> Interval:
    return Interval(amount, amount, amount)


def test_what_always_takes_the_same_is_forecast_exactly() -> None:
    pool = _pool("a", "b", "c")
    for number, seconds in enumerate((1.0, 2.0, 4.0)):
        _know(pool, number, CallRecord(seconds, ok=True, input_tokens=30, output_tokens=100))
    made = forecast(DIAMOND, pool, Limits())
    assert (made.calls, made.output_tokens, made.seconds) == (_exactly(4), _exactly(400), _exactly(6.0))
    assert made.guessed == ()
    assert made.input_tokens.low == made.input_tokens.high > 300
    assert made.cost.likely == pytest.approx((made.input_tokens.likely + 4000) / 1e6)


def test_steps_wait_for_slots() -> None:
    side_by_side = plan_of((0, "one", ()), (0, "two", ()), (0, "three", ()), (0, "join", (0, 1, 2)))
    for pool, limits, seconds in (
        (_pool("a"), Limits(), 2.0),
        (_pool("a", concurrency=2), Limits(), 3.0),
        (_pool("a", concurrency=1), Limits(), 4.0),
        (_pool("a"), Limits(concurrency=1), 4.0),
    ):
        _know(pool, 0, CallRecord(1.0, ok=True))
        assert forecast(side_by_side, pool, limits).seconds == _exactly(seconds)


def test_of_a_worker_nobody_knows_the_usual_is_assumed() -> None:
    pool = _pool("a", "b")
    made = forecast(plan_of((0, "one", ()), (1, "two", (0,))), pool, Limits())
    assert made.guessed == ("a", "b")
    assert made.output_tokens.low < 700
    assert made.output_tokens.high > 1300
    assert "(based on assumptions for a, b, with few recorded calls)" in explain_forecast(made)
    for _ in range(ENOUGH - 1):
        pool.states[0].history.add(CallRecord(1.0, ok=True, output_tokens=10))
    nearly = forecast(plan_of((0, "one", ())), pool, Limits())
    assert (nearly.guessed, nearly.output_tokens.likely) == (("a",), 10)
    assert nearly.output_tokens.high > 100


LIST, ITEM, SUM = call("list", returns=["string"]), call("{{item}}"), call("sum {{1}}", 1)
LOOP = block(call("try", returns={"done": "boolean"}), until=when("{{0.done}}", is_=True), most=5)
BRANCH = call("x", when=when("{{0.0}}", is_="none"))
CALLS: dict[str, tuple[dict[str, Any], tuple[int, int | None, int]]] = {
    "a map over a list that is not known": ({**ITEM, "each": "{{0}}"}, (2, None, 12)),
    "a known list": ({**ITEM, "each": ["a", "b", "c"]}, (4, 4, 4)),
    "a loop": (LOOP, (2, None, 6)),
    "a condition": (BRANCH, (2, None, 3)),
    "a map in a map": (block({**ITEM, "each": 2}, each="{{0}}"), (2, None, 22)),
}


@pytest.mark.parametrize(("step", "calls"), CALLS.values(), ids=CALLS)
def test_a_workflow_is_forecast_from_the_fewest_to_the_most(step: dict[str, Any], calls: Any) -> None:
    pool = _pool("a")
    _know(pool, 0, CallRecord(1.0, ok=True, input_tokens=30, output_tokens=100))
    last = SUM if step is not BRANCH else {**SUM, "subtask": "sum"}
    made = forecast(Plan.from_json({"schema": 1, "steps": [LIST, step, last]}), pool, Limits(items=10))
    assert (made.calls, made.output_tokens.high) == (Interval(*calls), 100 * calls[2])
    told = f"{calls[0]} call(s), " if calls[1] else f"{calls[0]} to {calls[2]} call(s), "
    assert told in explain_forecast(made)
    assert ("; per item of step 1: " in explain_forecast(made)) is (step.get("each") == "{{0}}")


@pytest.mark.anyio
async def test_the_likely_amounts_of_a_workflow_are_those_of_its_earlier_runs(tmp_path: Path) -> None:
    plan = Plan.from_json({"schema": 1, "steps": [LIST, {**ITEM, "each": "{{0}}"}, SUM]})
    other = Plan.from_json({"schema": 1, "steps": [LIST, {**ITEM, "each": "{{0}}"}]})
    journal = SqlJournal(tmp_path / "runs.db")

    def conductor() -> Conductor:
        def answer(step: StepInput) -> list[str] | str:
            return ["x", "y", "z"] if step.subtask == "list" else "done"

        worker = FunctionWorker(answer, card=Card(name="a", price=FREE))
        return Conductor(boss("none"), [worker], journal=journal)

    first = conductor()
    assert first.forecast(plan).calls.likely is None
    await first.run(plan)
    assert first.forecast(plan).calls.likely == 5
    assert first.forecast(other).calls.likely is None
    assert (await conductor().run(plan, forecast=True)).forecast.calls.likely == 5


def test_prompts_count_the_question_and_what_is_shown() -> None:
    pool = _pool("a")
    _know(pool, 0, CallRecord(1.0, ok=True, input_tokens=1, output_tokens=1000))
    plan = plan_of((0, "one", ()), (0, "two", (0,)))
    plan = Plan(plan.steps, read_query("x" * 4000))
    hidden = forecast(plan, pool, Limits(), show_question=False)
    shown = forecast(plan, pool, Limits())
    assert hidden.input_tokens.likely > 1000
    assert 2000 <= shown.input_tokens.likely - hidden.input_tokens.likely <= 2100
