"""Each step may call the caller's tools: it pauses, and is asked again with its own results."""

import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Any

import anyio
import pytest
from core.caller import TOOLS, Caller, Maker, called
from core.execution.flows import asked_of, call, plan_of, saw_of, when
from core.execution.random_flows import expected, workflows
from core.execution.test_workflows_random import SEEDS, TICK, Asked, Stage, compare, paid_for
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Card, ChatPlanner, Conductor, FunctionWorker, Limits, Plan, Result, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
from podium.hosts import ChatAnswer, ContinuationStore, tool_call
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.run import RunOptions
from podium.types import Completion, Tools
from podium.usage import Usage
from podium.workers import FREE, Request, StepInput

pytestmark = pytest.mark.anyio

DIAMOND = plan_of(call("a"), call("b"), call("c", 0, 1), call("d", 2))


def team(plan: Plan, calls: Any, **options: Any) -> tuple[Caller, Maker]:
    """Return a caller of two workers, of which the first calls tools, and this worker."""
    ann, bob = Maker("ann", calls), Maker("bob", {})
    return Caller(Conductor(FixedPlanner(plan), [ann, bob], **options)), ann


@pytest.mark.parametrize("journalled", [False, True])
async def test_calls_of_each_step(*, journalled: bool) -> None:
    """Those of all paused steps are one answer; nothing is asked twice, whoever keeps the continuation."""
    caller, ann = team(DIAMOND, {"a": (2, 1), "c": (1,)}, journal=MemoryJournal() if journalled else None)
    caller.store = ContinuationStore() if journalled else None
    final = await caller.run()
    assert (final.text, caller.turns) == ("d(c(a(a0, a1, a2), b(), c0))", [["a 0", "a 1"], ["a 2"], ["c 0"]])
    assert ({each.result.status for each in caller.answers}, max(Counter(ann.asked).values())) == ({"ok"}, 1)
    assert all(request.tools == TOOLS for request in ann.requests)


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
            worker._act = self._calling(number, worker._act)

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


async def result_of(run: Callable[[], Awaitable[ChatAnswer]]) -> Result:
    """Return the result of the last turn, also if it has no answer."""
    try:
        return (await run()).result
    except RunFailed as error:
        return error.result


@pytest.mark.long
@given(steps=workflows(), seed=SEEDS, parallel=st.booleans(), journalled=st.booleans())
def test_random_calls_of_random_plans(steps: Any, seed: int, *, parallel: bool, journalled: bool) -> None:
    plan, stage = plan_of(*steps), CallingStage(seed)
    journal = MemoryJournal() if journalled else None
    caller = Caller(stage.conductor(plan, journal), more={"is_parallel": parallel})
    caller.store = ContinuationStore() if journalled else None
    told = expected(plan)
    compare(anyio.run(result_of, caller.run, backend_options=OPTIONS), told)
    needed = Counter[tuple[Asked, int]]()
    for asked, times in paid_for(told).items():
        needed[asked, 0] = times
        calling = times - stage.left_alone[asked]
        needed.update({(asked, link): calling for link in range(1, len(turns_of(asked)) + 1)})
    assert stage.links == +needed


@pytest.mark.parametrize("choice", ["required", "none", {"type": "function", "function": {"name": "look"}}])
async def test_a_choice_is_for_the_last_step(choice: Any) -> None:
    caller, ann = team(DIAMOND, {"a": (1,), "d": (1,)})
    await caller.turn(tools=Tools(TOOLS.offered, choice))
    assert caller.turns == ([] if choice == "none" else [["d 0"]])
    assert [request.tools and request.tools.choice for request in ann.requests] == [None] * 3 + [choice]


async def test_a_step_that_is_not_needed_any_more() -> None:
    plan = Plan((Step(0, "a"), Step(1, "b"), Step(1, "c", (0, 1), 1)))
    ann, bob = Maker("ann", {"a": (1,)}), Maker("bob", {})
    answer = await Caller(Conductor(FixedPlanner(plan), [ann, bob])).run()
    assert (answer.text, answer.result.status, len(answer.result.outcomes)) == ("c(b())", "ok", 3)


async def test_a_result_that_a_worker_may_not_see() -> None:
    mail = Maker(Card(name="mail", labels=frozenset({"out"}), price=FREE), {"send": (1,)})
    policy = Policy(rules=[Rule("secret", never="out")], labels={"secret"})
    plan = Plan((Step(0, "send"), Step(1, "c", (0,))))
    caller = Caller(Conductor(FixedPlanner(plan), [mail, Maker("bob", {})], policy=policy))
    await caller.turn()
    caller.said[-1] = replace(caller.said[-1], labels=frozenset({"secret"}))
    with pytest.raises(RunFailed, match="secret"):
        await caller.turn()
    assert mail.asked == [("send", 0)]


async def test_the_planner_says_which_tools_a_step_may_call() -> None:
    plan = Plan((Step(0, "a", tools=()), Step(0, "b", (0,), tools=("edit",)), Step(0, "c", (1,))))
    texts = [write_plan(plan, "rows").replace("edit", "edits"), write_plan(plan, "rows")]
    planner = ScriptedWorker("planner", lambda request: texts[len(planner.requests) - 1])
    ann = Maker("ann", {"a": (1,), "b": (1,), "c": (1,)})
    caller = Caller(Conductor(ChatPlanner(planner), [ann, ScriptedWorker("bob", "x")]))
    assert (await caller.run()).text == "c(b(a(), b0), c0)"
    offered = {asked_of(each): each.tools and each.tools.names for each in ann.requests}
    assert offered == {"a": None, "b": ("edit",), "c": ("look", "edit")}
    asked, repair = (each.messages for each in planner.requests)
    told = 'Worker 0 calls the user\'s tools where needed: look, edit. A step may have "tools": ["look"]'
    assert told in asked[-1].text
    assert "names the tool 'edits': the tools are look, edit" in repair[-1].text


async def test_a_policy_says_who_may_call_tools() -> None:
    ann, bob = Maker("ann", {"a": (1,)}), Maker("bob", {"b": (1,)})
    plan = Plan((Step(0, "a"), Step(1, "b"), Step(0, "c", (0, 1))))
    caller = Caller(Conductor(FixedPlanner(plan), [ann, bob], policy=Policy(tools=["ann", "bob"])))
    caller.options = RunOptions(policy=Policy(tools=["ann"]))
    assert ((await caller.run()).text, {each.tools for each in bob.requests}) == ("c(a(a0), b())", {None})
    with pytest.raises(ConfigError, match=r"Policy\.tools names 'eve'"):
        Conductor(FixedPlanner(plan), [ann, bob], policy=Policy(tools=["eve"]))


async def test_steps_of_nested_runs() -> None:
    """Their calls pass through the run around; nothing is asked twice, and no action is repeated."""
    done: list[str] = []

    def send(step_input: StepInput) -> str:
        done.append(step_input.subtask)
        return "sent"

    ann, bob = Maker("ann", {"a": (1, 2), "b": (1,), "c": (1,)}), Maker("bob", {"x": (1,), "y": (1,)})
    mail = FunctionWorker(send, card=Card(name="mail", price=FREE), acts=True)
    deepest = FixedPlanner(Plan((Step(0, "c"), Step(0, "d", (0,)))))
    inmost = Conductor(deepest, [ann], card=Card(name="inmost", price=FREE))
    plan = Plan((Step(0, "a"), Step(2, "c"), Step(1, "send"), Step(0, "b", (0, 1, 2))))
    limits, card = Limits(depth=3), Card(name="inner", price=FREE)
    inner = Conductor(FixedPlanner(plan), [ann, mail, inmost], card=card, limits=limits)
    outer = Plan((Step(1, "x"), Step(0, "inner", (0,)), Step(0, "other", (0,)), Step(1, "y", (1, 2))))
    conductor = Conductor(FixedPlanner(outer), [inner, bob], journal=MemoryJournal(), limits=Limits(depth=3))
    caller = Caller(conductor, store=ContinuationStore())
    answer = await caller.run()
    told = "b(a(a0, a1, a2), d(c(c0)), sent, b0)"
    assert answer.text == f"y({told}, {told}, y0)"
    one = [["a 0", "c 0"], ["a 1", "a 2"], ["b 0"]]
    assert caller.turns == [["x 0"], *[[*turn, *turn] for turn in one], ["y 0"]]
    asked = [("a", 0), ("c", 0), ("a", 1), ("c", 1), ("d", 0), ("a", 3), ("b", 0), ("b", 1)]
    assert Counter(ann.asked) == dict.fromkeys(asked, 2)
    assert (bob.asked, done) == ([("x", 0), ("x", 1), ("y", 0), ("y", 1)], ["send", "send"])
    assert (answer.result.status, len(answer.result.actions)) == ("ok", 4)


async def test_tools_that_end_the_turn() -> None:
    caller, ann = team(DIAMOND, {})
    await caller.turn(tools=replace(TOOLS, last=("edit",)))
    names = [request.tools and request.tools.names for request in ann.requests]
    assert names == [("look",)] * 3 + [("look", "edit")]


async def test_a_run_that_is_resumed_without_results() -> None:
    caller, _ = team(DIAMOND, {"a": (2,)}, journal=MemoryJournal())
    answer = await caller.turn()
    with pytest.raises(ConfigError, match=r"has ended with 2 call\(s\) of the caller's tools"):
        await caller.conductor.resume(answer.result.run_id)


async def test_after_a_cancel_an_equal_step_has_an_answer_of_its_own() -> None:
    """Not that of the step that was asked in the turn before."""
    asks = call("a", returns={"go": "boolean"})
    again = call("same", worker=1, when=when("{{0.go}}", is_=True))
    plan = plan_of(asks, call("same", worker=1), again, call("d", 1, 2, worker=1))
    scope = anyio.CancelScope()

    asked = count(1)

    async def answer(step: StepInput) -> str:
        if (number := next(asked)) == 2:
            scope.cancel()
            await anyio.sleep_forever()
        return f"{step.subtask} {number} {[each.output for each in step.visible]}"

    bob = FunctionWorker(answer, card=Card(name="bob", price=FREE))
    ann = Maker("ann", {"a": (1,)}, {"a": '{"go": true}'})
    conductor = Conductor(FixedPlanner(plan), [ann, bob], journal=MemoryJournal())
    caller = Caller(conductor, RunOptions(run_id="turn-0"), ContinuationStore())
    await caller.turn()
    caller.options = RunOptions(run_id="turn-1")
    with scope:
        await caller.turn()
    assert scope.cancelled_caught
    assert (await caller.turn()).text == "d 4 ['same 1 []', 'same 3 []']"
