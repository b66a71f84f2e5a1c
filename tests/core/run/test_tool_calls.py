"""Each step may call the caller's tools: it pauses, and is asked again with its own results."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from functools import partial
from hashlib import sha256
from itertools import count
from typing import Any

import anyio
import pytest
from core.caller import ASK, TOOLS, Caller, Maker, called
from core.execution.flows import asked_of, block, call, plan_of, saw_of, when
from core.execution.random_flows import expected, workflows
from core.execution.test_workflows_random import SEEDS, TICK, Asked, Stage, compare, paid_for
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Card, Conductor, Limits, Plan, Result, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed, WorkerRefused
from podium.execution import Retry
from podium.hosts import ChatAnswer, ChatCall, ContinuationStore, tool_call
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.run import RunOptions
from podium.types import Completion, Message, Tools
from podium.usage import Usage
from podium.workers import FREE, Request

pytestmark = pytest.mark.anyio

DIAMOND = plan_of(call("a"), call("b"), call("c", 0, 1), call("d", 2))


def team(plan: Plan, calls: Any, **options: Any) -> tuple[Caller, Maker]:
    """Return a caller of two workers, of which the first calls tools, and this worker."""
    ann, bob = Maker("ann", calls, options.pop("answers", None)), Maker("bob", {})
    more = options.pop("more", {})
    return Caller(Conductor(FixedPlanner(plan), [ann, bob], **options), more=more), ann


FILES = {"files": ["x", "y", "z"]}
CASES: dict[str, tuple[Plan, Any, Any, list[list[str]], str]] = {
    # the plan, the calls of its steps, their answers, the calls of each turn, the answer
    "one after the other": (
        DIAMOND,
        {"a": (2, 1), "c": (1,)},
        {},
        [["a 0", "a 1"], ["a 2"], ["c 0"]],
        "d(c(a(a0, a1, a2), b(), c0))",
    ),
    "beside each other": (
        DIAMOND,
        {"b": (1,), "a": (2, 1)},
        {},
        [["a 0", "a 1", "b 0"], ["a 2"]],
        "d(c(a(a0, a1, a2), b(b0)))",
    ),
    "the last": (DIAMOND, {"d": (1, 1)}, {}, [["d 0"], ["d 1"]], "d(c(a(), b()), d0, d1)"),
    "items of a map": (
        plan_of(
            call("list", returns={"files": ["string"]}),
            call("mend {{item}}", each="{{0.files}}"),
            call("check {{item}}", 1, each="{{0.files}}"),
            call("sum", 2),
        ),
        {"mend x": (1,), "mend z": (1, 1), "check y": (1,)},
        {"list": json.dumps(FILES), "sum": "all"},
        [["mend x 0", "mend z 0", "check y 0"], ["mend z 1"]],
        "all",
    ),
    "turns of a loop": (
        plan_of(
            block(
                call("mend", "previous"),
                call("check", 0, returns={"ok": "boolean"}),
                until=when("{{1.ok}}", is_=True),
                most=3,
            ),
            call("tell", 0),
        ),
        {"check": (1,)},
        {"check": '{"ok": true}'},
        [["check 0"]],
        'tell({"ok":true})',
    ),
    "a branch": (
        plan_of(
            call("judge", returns={"ok": "boolean"}),
            call("yes", when=when("{{0.ok}}", is_=True)),
            call("no", when=when("{{0.ok}}", is_=False)),
        ),
        {"judge": (1,), "yes": (1,)},
        {"judge": '{"ok": true}'},
        [["judge 0"], ["yes 0"]],
        "yes(yes0)",
    ),
}


@pytest.mark.parametrize("journalled", [False, True])
@pytest.mark.parametrize("case", CASES)
async def test_calls_of_each_step(case: str, *, journalled: bool) -> None:
    """Those of all paused steps are one answer; nothing is asked twice, whoever keeps the continuation."""
    plan, calls, answers, turns, told = CASES[case]
    caller, ann = team(plan, calls, answers=answers, journal=MemoryJournal() if journalled else None)
    caller.store = ContinuationStore() if journalled else None
    final = await caller.run()
    assert (final.text, caller.turns) == (told, turns)
    assert {each.result.status for each in caller.answers} == {"ok"}
    assert all(not each.text for each in caller.answers[:-1])
    assert max(Counter(ann.asked).values()) == 1
    for request in ann.requests:
        own = asked_of(request)
        assert all(json.loads(each.partition(" -> ")[0])["of"] == own for each in called(request))
        assert request.tools == TOOLS


async def test_calls_one_at_a_time() -> None:
    """If the caller wants no parallel calls, the others follow, without asking their workers again."""
    caller, ann = team(DIAMOND, {"a": (2,), "b": (1,)}, more={"is_parallel": False})
    assert (await caller.run()).text == "d(c(a(a0, a1), b(b0)))"
    assert caller.turns == [["a 0"], ["a 1"], ["b 0"]]
    assert ann.asked == [("a", 0), ("b", 0), ("a", 2), ("b", 1), ("c", 0), ("d", 0)]


def turns_of(asked: Asked) -> list[int]:
    """Return how many calls a worker makes in each of its turns, for what it is asked."""
    number = int.from_bytes(sha256(repr(asked).encode()).digest()[:4])
    return [1 + (number >> 4 * turn) % 2 for turn in range(number % 3)]


class CallingStage(Stage):
    """Its workers call tools before they answer, and check that they are shown their own results."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.links = Counter[tuple[Asked, int]]()
        """By what was asked, and how many of its calls were answered."""
        self.left_alone = Counter[Asked]()
        """What was asked without tools, because an input was incomplete."""
        self._ids = count(seed * 1000)
        for number, worker in enumerate(self.workers):
            worker.takes_tools = True
            worker._act = self._calling(number, worker._act)  # noqa: SLF001

    def _calling(self, number: int, act: Any) -> Any:
        async def calling(request: Request) -> AsyncGenerator[str | Completion, None]:
            asked = (number, asked_of(request), tuple(sorted(saw_of(request))))
            made = [each for each in request.messages if each.tool_calls]
            self.links[asked, len(made)] += 1
            shown = [json.loads(each.partition(" -> ")[0]) for each in called(request)]
            assert [each["of"] for each in shown] == [repr(asked)] * sum(turns_of(asked)[: len(made)])
            calls = turns_of(asked)[len(made) :]
            self.left_alone[asked] += request.tools is None
            if not calls or request.tools is None:
                async for piece in act(request):
                    yield piece
                return
            await anyio.sleep(TICK * (len(shown) + number))
            arguments = [{"of": repr(asked), "n": len(shown) + each} for each in range(calls[0])]
            ids = [f"call-{next(self._ids) % 7}" for _ in arguments]  # others have them, too
            given = [tool_call(each, "look", told) for each, told in zip(ids, arguments, strict=True)]
            yield Completion("", "tool_calls", tool_calls=tuple(given), usage=Usage(7, 3))

        return calling


@given(steps=workflows(), seed=SEEDS, parallel=st.booleans(), journalled=st.booleans())
def test_random_calls_of_random_plans(
    steps: list[dict[str, Any]], seed: int, *, parallel: bool, journalled: bool
) -> None:
    """The run ends as without tools, and each call of a worker is made once."""
    plan, stage = plan_of(*steps), CallingStage(seed)
    journal = MemoryJournal() if journalled else None
    caller = Caller(stage.conductor(plan, journal), more={"is_parallel": parallel})
    caller.store = ContinuationStore() if journalled else None
    final = anyio.run(partial(caller.run, 500), backend_options=OPTIONS)
    told = expected(plan)
    compare(final.result, told)
    needed = Counter[tuple[Asked, int]]()
    for asked, times in paid_for(told).items():
        needed[asked, 0] = times
        calling = times - stage.left_alone[asked]
        needed.update({(asked, link): calling for link in range(1, len(turns_of(asked)) + 1)})
    assert stage.links == +needed


@given(steps=workflows(), seed=SEEDS, last=st.integers(1, 6))
def test_after_a_cancel_a_turn_continues(steps: list[dict[str, Any]], seed: int, last: int) -> None:
    """In its own record, and from that of the turn before: only the calls in flight are made again."""
    plan, journal = plan_of(*steps), MemoryJournal()
    first, second = CallingStage(seed, last=last), CallingStage(seed + 1)
    caller = Caller(first.conductor(plan, journal), store=ContinuationStore())

    async def turn() -> ChatAnswer:
        caller.options = RunOptions(run_id=f"turn-{len(caller.answers)}")
        with anyio.CancelScope() as first.scope:
            return await caller.turn()
        caller.conductor = second.conductor(plan, journal)
        first.scope = None
        return await turn()

    async def body() -> Result:
        while (answer := await turn()).tool_calls:
            assert len(caller.turns) < 200, caller.turns
        return answer.result

    compare(anyio.run(body, backend_options=OPTIONS), told := expected(plan))
    paid = Counter(first.done) + Counter(second.asked)
    assert not paid_for(told) - paid
    assert paid - paid_for(told) <= Counter(first.met)
