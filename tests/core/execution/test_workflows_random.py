"""Random workflows do what the interpreter says, whatever the order, after failures, kills and edits."""

from collections import Counter
from collections.abc import AsyncGenerator
from copy import deepcopy
from math import inf
from random import Random
from typing import Any

import anyio
import pytest
from core.actors import ONCE, Actor
from core.execution.flows import asked_of, name_of, plan_of, saw_of
from core.execution.interpreter import Interpreter
from core.execution.random_flows import answer, expected, workflows
from core.virtual_clock import OPTIONS
from hypothesis import assume, given, strategies as st

from podium import Card, Conductor, Limits, Plan, Result
from podium.errors import WorkerRefused
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import FREE, Request

Asked = tuple[int, str, tuple[str, ...]]
SEEDS = st.integers(0, 1_000)
TICK = 1 / 64


class Stage:
    """Two workers that answer after random waits, and cancel the run at a call."""

    def __init__(self, seed: int, *, failing: int = 0, last: int | None = None) -> None:
        self._random = Random(seed)  # noqa: S311 - only waits depend on it
        self._failing, self._last = failing, last
        slots = self._random.choice([1, 3, 16])
        self.limits = Limits(plan_steps=100, steps=10_000, calls=10_000, concurrency=slots)
        self.scope: anyio.CancelScope | None = None
        self.asked: list[Asked] = []
        self._ended: list[tuple[float, Asked]] = []
        self._stopped = inf
        names = enumerate(("ann", "bob"))
        self.workers = [Actor(Card(name=name, price=FREE), self._act(number)) for number, name in names]

    @property
    def met(self) -> list[Asked]:
        """The calls that ended at the moment of the cancel, whose answers may not be recorded."""
        return [asked for at, asked in self._ended if at >= self._stopped]

    @property
    def done(self) -> list[Asked]:
        return [asked for _, asked in self._ended]

    def _act(self, number: int) -> Any:
        async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
            asked = (number, asked_of(request), tuple(sorted(saw_of(request))))
            self.asked.append(asked)
            if len(self.asked) == self._last and self.scope is not None:
                self.scope.cancel()
                self._stopped = anyio.current_time()
            await anyio.sleep(self._random.randrange(5) * TICK)
            text = answer(*asked, failing=self._failing)
            if text is None:
                raise WorkerRefused("no")
            self._ended.append((anyio.current_time(), asked))
            yield Completion(text, usage=Usage(7, 3))

        return act

    def conductor(self, plan: Plan, journal: MemoryJournal | None = None) -> Conductor:
        return Conductor(FixedPlanner(plan), self.workers, limits=self.limits, retry=ONCE, journal=journal)


def compare(result: Result, told: Interpreter) -> None:
    """Check that all executions of a run ended as the interpreter says."""
    last_first = reversed(result.outcomes)  # superseded outcomes follow, with the same names
    got = {name_of(each): (each.status, each.text if each.status == "ok" else "") for each in last_first}
    got |= dict.fromkeys(cancelled_in(result), ("cancelled", ""))
    wanted = {name: (out.status, out.text if out.status == "ok" else "") for name, out in told.outs.items()}
    unneeded = cancelled_in(result)
    wrong = {
        name: (wanted.get(name), got.get(name))
        for name in sorted({*wanted, *got})
        if wanted.get(name, ("skipped", "")) != got.get(name, ("skipped", ""))
        and name not in unneeded
        and not any(name.startswith((f"{each}.", f"{each}(")) for each in unneeded)
    }
    assert not wrong, f"expected and got: {wrong}"
    assert (result.status, result.answer) == (told.status, told.answer)


def cancelled_in(result: Result) -> frozenset[str]:
    ends = [(name_of(each), each) for each in result.outcomes if each.status in ("cancelled", "skipped")]
    return frozenset(name for name, each in ends if each.problem and each.problem.code == "enough")


def paid_for(told: Interpreter) -> Counter[Asked]:
    return Counter((worker, subtask, texts) for _, worker, subtask, texts in told.calls)


def perform(stage: Stage, plan: Plan) -> Result:
    return anyio.run(lambda: stage.conductor(plan).run(plan), backend_options=OPTIONS)


@given(workflows(), SEEDS)
def test_a_run_does_what_the_interpreter_says(steps: list[dict[str, Any]], seed: int) -> None:
    plan, stage = plan_of(*steps), Stage(seed)
    compare(result := perform(stage, plan), told := expected(plan, cancelled=cancelled_in(result)))
    assert Counter(stage.asked) == paid_for(told)


@pytest.mark.long
@given(workflows(failing=7), SEEDS)
def test_so_it_does_with_failures(steps: list[dict[str, Any]], seed: int) -> None:
    plan, stage = plan_of(*steps), Stage(seed, failing=7)
    result = perform(stage, plan)
    compare(result, told := expected(plan, failing=7, cancelled=cancelled_in(result)))
    assert Counter(stage.asked) == paid_for(told)


@given(workflows(failing=5, enough=True), SEEDS)
def test_so_it_does_if_some_items_are_enough(steps: list[dict[str, Any]], seed: int) -> None:
    plan = plan_of(*steps)
    result = perform(Stage(seed, failing=5), plan)
    compare(result, expected(plan, failing=5, cancelled=cancelled_in(result)))


@given(workflows(), SEEDS, st.integers(1, 12))
def test_after_a_cancel_a_run_repeats_what_was_in_flight(steps: Any, seed: int, last: int) -> None:
    plan, journal = plan_of(*steps), MemoryJournal()
    first, second = Stage(seed, last=last), Stage(seed + 1)

    async def body() -> Result:
        with anyio.CancelScope() as first.scope:
            return await first.conductor(plan, journal).run(plan, run_id="R")
        return await second.conductor(plan, journal).resume("R")

    compare(anyio.run(body, backend_options=OPTIONS), expected(plan))
    paid, needed = Counter(first.done) + Counter(second.asked), paid_for(expected(plan))
    assert not needed - paid
    assert paid - needed <= Counter(first.met)


@pytest.mark.long
@given(workflows(), SEEDS)
def test_after_a_change_of_the_last_step_only_it_is_paid_for(steps: list[dict[str, Any]], seed: int) -> None:
    assume("subtask" in steps[-1])
    changed = deepcopy(steps)
    changed[-1]["subtask"] = "form 99"
    old, new, journal = plan_of(*steps), plan_of(*changed), MemoryJournal()
    first, second = Stage(seed), Stage(seed + 1)

    async def body() -> Result:
        await first.conductor(old, journal).run(old, run_id="R")
        return await second.conductor(new, journal).resume("R", plan=new)

    compare(anyio.run(body, backend_options=OPTIONS), expected(new))
    assert Counter(second.asked) == paid_for(expected(new)) - paid_for(expected(old))
