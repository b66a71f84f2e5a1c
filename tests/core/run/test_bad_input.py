"""Bad input gives a clear error; the options of one run; how many steps a plan may have."""

from collections.abc import Callable
from typing import Any

import pytest
from core.actors import boss, plan_of, rows

from podium import ChatPlanner, ChatWorker, Conductor, Limits, Message, RulePlanner
from podium.errors import ConfigError, LimitExceeded, QueryError
from podium.journal import MemoryCache, MemoryJournal
from podium.planners import FixedPlanner, Planner, PlanRequest
from podium.types import Completion, Query
from podium.usage import Usage
from podium.workers import FREE, Card, Price, Request, ScriptedWorker, Worker

pytestmark = pytest.mark.anyio

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ONE = rows((0, "go", ()))
STEP = FixedPlanner(plan_of((0, "Do it.", ())))
ONLY = ScriptedWorker("only", "Done.")
PLAN = rows((0, "Collect.", []), (0, "Answer.", [0]))


def _conductor(worker: ScriptedWorker | None = None, **options: object) -> Conductor:
    return Conductor(boss(ONE), [worker or ScriptedWorker("a", "A")], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "empty"),
        ([], "empty"),
        ([Message("user", "a"), Message("assistant", "b"), Message("user", " ")], "empty"),
        ([Message("user", "a"), Message("assistant", "", (CALL,))], "add the tool results"),
        ([{"role": "robot", "content": "x"}], "robot"),
        ([{"role": "assistant", "content": None, "tool_calls": 5}], "tool_calls must be a list of objects"),
        ("x" * (4 * 2**20 + 1), "longer than"),
    ],
)
async def test_a_question_that_is_none_is_refused(query: Query, reason: str) -> None:
    worker = ScriptedWorker("a", "A")
    conductor = _conductor(worker)
    for asked in (conductor.run, conductor.plan):
        with pytest.raises(QueryError, match=reason):
            await asked(query)
    assert not worker.requests


@pytest.mark.parametrize("question", ["a\0b", "\ud800 what?", "</question>", "🦀" * 1000])
async def test_odd_characters_are_a_question_like_any_other(question: str) -> None:
    assert (await _conductor().run(question)).status == "ok"


class NoCard(Worker):
    def call(self, request: Request) -> Any: ...


class NoName(Planner):
    def plan(self, request: PlanRequest) -> Any: ...


class Returning(Worker):
    card = Card(name="returning", price=FREE)

    async def call(self, request: Request) -> Any:  # type: ignore[override]
        return Completion("Done.")


class ReturningPlanner(Planner):
    name = "returning"

    async def plan(self, request: PlanRequest) -> Any:  # type: ignore[override]
        return "{}"


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: Conductor(boss(ONE), []), r"at least one worker: pass workers=\[\.\.\.\]"),
        (lambda: Conductor(boss(ONE), [ScriptedWorker("a", "A")] * 2), "two workers have the name 'a': .*"),
        (lambda: Conductor(RulePlanner(), [ScriptedWorker("a", "A")], on_failure="x"), "'note', 'skip', 're"),
        (lambda: Conductor(RulePlanner(), [NoCard()]), r"NoCard has no card: set `card = Card"),
        (lambda: Conductor(RulePlanner(), ONLY), r"needs a list of workers: write \[ScriptedWorker"),
        (lambda: Conductor(NoName(), [ONLY]), r"NoName has no name: set `name = "),
        (lambda: Conductor(ONLY, [ONLY]), r"is not a planner: wrap it in a ChatPlanner"),
        (lambda: Conductor(RulePlanner(), [print]), r"is not a worker: wrap it in a FunctionWorker"),
        (lambda: Conductor(RulePlanner(), [ONLY], limits={"calls": 3}), r"limits is .*: write Limits"),
        (lambda: ChatWorker("m", endpoint="http://127.0.0.1:1/v1"), r"write endpoint=Endpoint\("),
        (lambda: ChatPlanner(ScriptedWorker("a", "A"), spelling="yaml"), "spelling"),
        (lambda: FixedPlanner([]), "give a Plan"),
        (lambda: Card(name="w", memory="some"), "memory"),
        (lambda: Card(name="w", concurrency=0), "concurrency"),
        (lambda: Card(name="a\nb"), "name"),
        (lambda: Limits(rounds=1.5), "whole number"),
        (lambda: Limits(seconds="5"), "a number"),
        (lambda: Price(input=-1, output=1), "0 or more"),
    ],
)
def test_what_people_hand_over_by_mistake_is_told_with_its_mend(make: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        make()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: Conductor(STEP, [Returning()]), "call returned a coroutine: make it an async generator"),
        (lambda: Conductor(ReturningPlanner(), [ONLY]), "plan returned a coroutine: make it an async"),
    ],
)
def test_a_call_without_yield_is_told_so(made: Callable[[], Conductor], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        made().run_sync("Why?")


def test_an_unknown_option_is_refused() -> None:
    options: dict[str, Any] = {"middelware": None}
    with pytest.raises(TypeError, match="unexpected keyword argument 'middelware'"):
        Conductor(STEP, [ONLY]).run_sync("Why?", **options)


def priced(reply: str = "done") -> ScriptedWorker:
    card = Card(name="w", price=Price(input=0.0, output=100.0))
    return ScriptedWorker(card, lambda _: Completion(reply, usage=Usage(10, 100)))


async def test_a_run_can_leave_the_cache_alone() -> None:
    cache, calls = MemoryCache(), list[str]()

    def reply(_: object) -> str:
        calls.append("called")
        return "done"

    class Known(ScriptedWorker):
        identity = "w"

    inner = Conductor(FixedPlanner(rows((0, "Answer.", []))), [Known(Card(name="w"), reply)], cache=cache)
    conductor = Conductor(FixedPlanner(rows((0, "Answer.", []))), [inner])
    for _ in range(2):
        await conductor.run("Why?", uses_cache=False, journal=MemoryJournal())
    assert len(calls) == 2
    for _ in range(2):
        await conductor.run("Why?")
    assert len(calls) == 3


async def test_a_caller_allows_each_call() -> None:
    heard: list[float] = []

    async def allows(spent: float) -> None:
        heard.append(spent)
        if spent:
            raise LimitExceeded("cost", "that is enough")

    outer = Conductor(FixedPlanner(rows((0, "Answer.", []))), [Conductor(FixedPlanner(PLAN), [priced()])])
    result = await outer.run("Why?", allows=allows)
    assert (result.status, result.cost) == ("failed", 0.01)
    assert "that is enough" in str(result.problem)
    assert set(heard) == {0.0, 0.01}
