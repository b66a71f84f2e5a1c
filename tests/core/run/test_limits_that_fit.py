"""A limit of three times what a run uses changes nothing; a limit of calls buys a whole answer or nothing."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import anyio
import pytest
from core.actors import Actor, Row, boss, plan_of, rows, slowly
from core.plans import plans
from core.virtual_clock import OPTIONS, anyio_backend  # noqa: F401 - a fixture
from hypothesis import given, strategies as st

from podium import Card, ChatPlanner, Conductor, Limits, Plan, Price, Result, Retry, ScriptedWorker
from podium.journal import MemoryJournal
from podium.types import Completion, StepDelta
from podium.types.messages import estimate_usage
from podium.workers import Request

pytestmark = pytest.mark.anyio
FOUR: tuple[Row, ...] = (
    (0, "Find the facts.", ()),
    (1, "Judge the facts.", (0,)),
    (2, "Count the facts.", (0,)),
    (0, "Answer the question.", (1, 2)),
)
TEN: tuple[Row, ...] = (
    *((part % 3, f"Work on part {part} of the question.", ()) for part in range(8)),
    (1, "Combine all parts.", tuple(range(8))),
    (0, "Answer the question.", (8,)),
)
SECONDS = 1 / 80
"""Seconds for one token."""


class Model(Actor):
    """Writes a text, token by token, and stops at its cap."""

    def __init__(self, name: str, price: Price, text: str) -> None:
        super().__init__(Card(name=name, description="Works well.", price=price), self._write)
        self.text = text

    async def _write(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        text = self.text[: 4 * (request.sampling.max_tokens or 100_000)]
        await anyio.sleep(0.5)
        for start in range(0, len(text), 400):
            await anyio.sleep(100 * SECONDS)
            yield text[start : start + 400]
        reason = "length" if len(text) < len(self.text) else "stop"
        usage = replace(estimate_usage(request.messages, text), output_tokens=len(text) // 4, estimated=False)
        yield Completion(text, reason, usage=usage)


def team(steps: tuple[Row, ...], tokens: int, price: Price) -> tuple[ChatPlanner, list[Model]]:
    """Return a planner and workers without history, whose answers have so many tokens."""
    answers = [Model(f"w{number}", price, f"w{number} " + "word" * (tokens - 1)) for number in range(3)]
    return ChatPlanner(Model("boss", Price(input=5.0, output=25.0), rows(*steps))), answers


async def run(steps: tuple[Row, ...], tokens: int, price: Price, limits: Limits) -> Result:
    planner, workers = team(steps, tokens, price)
    return await Conductor(planner, workers, limits=limits).run("How tall is the tower?")


@pytest.mark.parametrize(
    ("steps", "tokens", "times", "name"),
    [
        (FOUR, 60, 3, "cost"),
        (TEN, 300, 3, "output_tokens"),
        (TEN, 1_500, 15, "input_tokens"),
        (FOUR, 60, 3, "calls"),
        (TEN, 300, 3, "steps"),
    ],
)
async def test_the_same_answer_in_the_same_time(steps: Any, tokens: int, times: int, name: str) -> None:
    price = Price(input=2.0, output=8.0)
    free = await run(steps, tokens, price, Limits())
    assert free.cost is not None
    used = {"cost": free.cost, "calls": len(steps) + 1, "steps": len(steps)}
    used |= {"output_tokens": free.usage.output_tokens, "input_tokens": free.usage.input_tokens}
    result = await run(steps, tokens, price, Limits(**{name: times * used[name]}))  # type: ignore[arg-type]
    assert (result.status, result.answer) == ("ok", free.answer), result.problem
    assert not any(outcome.calls for outcome in result.outcomes), "each step was called once"
    assert result.seconds == pytest.approx(free.seconds, rel=0.1)


async def test_an_answer_that_is_cut_is_asked_again_once() -> None:
    long, short = Model("long", Price(input=0.0, output=10.0), "word" * 900), ScriptedWorker("short", "B")
    plan = plan_of((0, "write", ()), (1, "check", ()), (1, "more", ()), (1, "end", (0, 1, 2)))
    limits, journal = Limits(output_tokens=2_000), MemoryJournal()
    conductor = Conductor(boss("none"), [long, short], limits=limits, journal=journal)
    events: list[object] = []
    result = await conductor.run(plan, on_event=events.append)
    first, second = (request.sampling.max_tokens for request in long.requests)
    assert first < 900 <= second
    assert (result.status, result.outcomes[0].text) == ("ok", "word" * 900)
    calls = result.outcomes[0].calls
    assert [None if call.problem is None else call.problem.code for call in calls] == ["cut", None]
    assert result.outcomes[0].usage.output_tokens == first + 900
    assert result.outcomes[0].cost == pytest.approx((first + 900) / 1e5)
    assert ((await conductor.resume(result.run_id)).cost, len(long.requests)) == (result.cost, 2)
    assert {event.attempt for event in events if isinstance(event, StepDelta) and event.step == 0} == {1, 2}


async def test_a_resumed_run_asks_again_for_a_cut_answer_if_its_limit_is_higher() -> None:
    first, last = Model("first", Price(input=0.0, output=10.0), "word" * 900), ScriptedWorker("last", "B")
    journal, plan = MemoryJournal(), plan_of((0, "write", ()), (1, "end", (0,)))
    once, limits = Retry(attempts=1), Limits(output_tokens=400)
    conductor = Conductor(boss("none"), [first, last], journal=journal, retry=once, limits=limits)
    cut = await conductor.run(plan)
    assert (cut.status, len(first.requests), len(last.requests)) == ("partial", 1, 1)
    assert cut.cost is not None
    for low in (None, limits, Limits(output_tokens=410)):
        assert (await conductor.resume(cut.run_id, limits=low)).problem == cut.problem
    assert (len(first.requests), len(last.requests)) == (1, 1)
    result = await conductor.resume(cut.run_id, limits=Limits(output_tokens=9_000))
    assert (len(first.requests), len(last.requests)) == (2, 2)
    assert (result.status, result.outcomes[0].text) == ("ok", "word" * 900)
    assert result.cost == pytest.approx(cut.cost + 900 / 1e5)
    assert ((await conductor.resume(cut.run_id)).cost, len(first.requests)) == (result.cost, 2)
    result = await conductor.resume(cut.run_id, plan=plan_of((0, "write", ()), (1, "end otherwise", (0,))))
    assert (result.status, result.outcomes[0].text) == ("ok", "word" * 900)
    assert (len(first.requests), len(last.requests)) == (2, 3)


@pytest.mark.parametrize("known", ["process", "journal", "nowhere"])
async def test_the_caps_follow_what_answers_needed(known: str) -> None:
    price, journal = Price(input=0.0, output=10.0), MemoryJournal()
    plan = plan_of((0, "x", ()), (1, "y", ()), (0, "end", (0, 1)))

    def team() -> list[Model]:
        return [Model("short", price, "word" * 60), Model("long", price, "word" * 600)]

    async with Conductor(boss("none"), team(), journal=journal) as first:
        await first.run(plan)
        workers = team()
        new = Conductor(boss("none"), workers, journal=None if known == "nowhere" else journal)
        result = await (first if known == "process" else new).run(plan, limits=Limits(output_tokens=1_200))
    asked = [outcome.attempts for outcome in result.outcomes]
    if known == "nowhere":
        assert asked == [1, 2, 1]
    else:
        assert (result.status, asked) == ("ok", [1, 1, 1])
    if known == "journal":
        caps = [worker.requests[0].sampling.max_tokens for worker in workers]
        assert caps[0] in range(64, 300)
        assert caps[1] in range(600, 1_100)


@given(
    plan=plans(),
    calls=st.integers(1, 9),
    policy=st.sampled_from(["note", "skip"]),
    early=st.booleans(),
    latency=st.sampled_from([0.0, 0.5, 1.5]),
)
def test_a_limit_of_calls_buys_an_answer_or_nothing(
    plan: Plan, calls: int, policy: Any, *, early: bool, latency: float
) -> None:
    worker = ScriptedWorker("a", "A", latency=latency)

    async def run() -> Result:
        text = rows(*[(0, step.subtask, step.access) for step in plan.steps])
        conductor = Conductor(slowly(text), [worker], limits=Limits(calls=calls), on_failure=policy)
        return await conductor.run("Why?") if early else await conductor.run(plan)

    result = anyio.run(run, backend_options=OPTIONS)
    if calls >= len(plan.needed):
        assert (result.status, result.answer) == ("ok", "A")
    else:
        assert (result.status, len(worker.requests)) == ("failed", 0)
    assert len(worker.requests) <= calls
