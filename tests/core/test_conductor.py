"""A conductor's face: what it takes, what it returns, and how its runs stay apart."""

from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import anyio
import pytest
from core.actors import PlanningActor, boss, plan_of, rows

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, PlanInvalid, PlannerError, QueryError
from podium.planners import ChatPlanner, FixedPlanner, PlanRequest, PlanText
from podium.policy import Policy
from podium.types import Completion, Message, Plan, Step
from podium.usage import Usage
from podium.workers import Card, Price, Request, ScriptedWorker, Worker, step_input_of

pytestmark = pytest.mark.anyio

GOOD = rows((0, "find", ()), (1, "tell", (0,)))
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}}
ASKED = [{"role": "user", "content": [{"type": "text", "text": "What is on it?"}, IMAGE]}]


def _question(request: Request) -> str:
    return step_input_of(request).query[-1].text


def _pool() -> list[ScriptedWorker]:
    return [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]


async def test_a_question_becomes_an_answer() -> None:
    """The output of the last step is the answer, verbatim."""
    result = await Conductor(boss(GOOD), _pool()).run("What?")
    assert (result.answer, result.status, result.problem) == ("B", "ok", None)
    assert result.workers == ("a", "b")


async def test_a_plan_is_run_as_it_is() -> None:
    """No planner is asked, and the result says that the user gave the plan."""
    planner = boss(GOOD)
    result = await Conductor(planner, _pool()).run(plan_of((1, "go", ())))
    assert result.answer == "B"
    assert not result.proposals
    assert "given by the user" in result.explain()


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (Plan(()), "nothing_to_keep"),
        (plan_of((2, "go", ())), "unknown_worker"),
        (plan_of(*((0, str(i), ()) for i in range(33))), "too_many_steps"),
    ],
)
async def test_a_plan_that_does_not_fit_is_refused_before_anything_runs(plan: Plan, code: str) -> None:
    """A given plan is checked against pool and limits."""
    pool = _pool()
    with pytest.raises(PlanInvalid) as caught:
        await Conductor(boss(GOOD), pool).run(plan)
    assert caught.value.code == code
    assert not pool[0].requests


TALK = [
    Message("system", "Be brief."),
    Message("user", "Who are you?"),
    Message("assistant", "A bot."),
    Message("user", "Why is the sky blue?"),
]
MEMORIES: list[tuple[Any, list[int], str]] = [
    ("all", [0, 1, 2, 3], ""),
    ("question", [3], "not shown the whole conversation"),
    ("none", [], "not shown the question"),
    (1, [2, 3], "not shown the whole conversation"),
    (lambda talk: [talk[0], talk[-1]], [0, 3], "not shown the whole conversation"),
]


@pytest.mark.parametrize(("memory", "seen", "told"), MEMORIES)
async def test_a_worker_is_shown_what_its_card_says_of_the_conversation(
    memory: Any, seen: list[int], told: str
) -> None:
    """The planner sees all of it, and is told what the worker is not shown."""
    worker, model = ScriptedWorker(Card(name="w", memory=memory), "done"), ScriptedWorker("boss", GOOD)
    forgetful = [worker, ScriptedWorker("other", "done")]
    result = await Conductor(ChatPlanner(model), forgetful).run(TALK)
    assert result.status == "ok"
    shown = worker.requests[0].step_input
    assert shown is not None
    assert shown.query == tuple(TALK[number] for number in seen)
    prompt = "".join(message.text for message in model.requests[0].messages)
    assert all(message.text in prompt for message in TALK)
    assert told in prompt
    assert bool(told) == ("is not shown" in prompt)


def test_a_list_is_no_fixed_plan() -> None:
    with pytest.raises(ConfigError, match="give a Plan"):
        FixedPlanner([Step(0, "Write.")])  # type: ignore[arg-type]  # as meant


def test_a_memory_that_is_none_of_these_is_refused() -> None:
    """At once."""
    for memory in (-1, True, "some"):
        with pytest.raises(ConfigError, match="memory"):
            Card(name="w", memory=memory)  # type: ignore[arg-type]  # as meant


def _conversations() -> dict[str, list[Any]]:
    """Return conversations with an image."""
    asked = {"role": "user", "content": "And now?"}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "question": ASKED,
        "history": [*ASKED, asked],
        "assistant": [asked, {"role": "assistant", "content": [IMAGE]}, asked],
        "tool": [asked, called, {"role": "tool", "tool_call_id": "c", "content": [IMAGE]}],
        "earlier tool": [asked, called, {"role": "tool", "tool_call_id": "c", "content": [IMAGE]}, asked],
    }


@pytest.mark.parametrize("at", _conversations())
async def test_images_of_tools_and_assistants(at: str) -> None:
    """The worker of the answer gets the very part if it takes images, and otherwise a note."""
    asked, card = _conversations()[at], Card(name="seeing", parts=frozenset({"image_url"}))
    for number in (0, 1):
        pool = [ScriptedWorker(card, "a cat"), ScriptedWorker("blind", "a guess")]
        await Conductor(boss(rows((number, "look", ()))), pool).run(asked)
        shown = [part for said in pool[number].requests[0].messages for part in said.content]
        assert (IMAGE in shown) == (number == 0)
        assert ("attachment(s)" in "".join(map(str, shown))) == (number == 1)


@pytest.mark.parametrize("at", ["question", "earlier tool", "denied", "hidden", "nested", "plan"])
async def test_an_image_that_no_worker_can_see_is_refused(at: str) -> None:
    """Before a planner or a worker is called, with what to do."""
    model, blind = ScriptedWorker("model", rows((0, "look", ()))), ScriptedWorker("blind", "a guess")
    planner = ChatPlanner(model)
    pool: list[Worker] = [blind]
    asked: Any = _conversations().get(at, ASKED)
    policy, show_question = None, True
    if at in ("denied", "hidden"):
        pool.append(ScriptedWorker(Card(name="seeing", parts=frozenset({"image_url"})), "a cat"))
        policy, show_question = Policy(denied=["seeing"]) if at == "denied" else None, at != "hidden"
    if at == "nested":
        pool = [Conductor(planner, pool)]
    if at == "plan":
        asked = Plan((Step(0, "look"),), query=(Message.from_wire(ASKED[0]),))
    conductor = Conductor(planner, pool, policy=policy, show_question=show_question)
    with pytest.raises(QueryError, match="'image_url' to the `parts` of a worker"):
        await conductor.run(asked)
    assert not model.requests
    assert not blind.requests


def test_run_sync_from_several_threads_at_once() -> None:
    """One conductor serves threads side by side, each with a loop of its own."""
    card = Card(name="a", concurrency=2)
    pool = [ScriptedWorker(card, _question, latency=0.002)]
    conductor = Conductor(boss(rows((0, "x", ()), (0, "y", ()), (0, "z", (0, 1)))), pool)
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(conductor.run_sync, [f"question {i}" for i in range(24)]))
    assert [result.answer for result in results] == [f"question {i}" for i in range(24)]


class _Opened(Worker):
    """Counts how often it is open."""

    def __init__(self) -> None:
        self.card = Card(name="opened")
        self.open = 0
        self.most = 0

    async def __aenter__(self) -> Self:
        self.open += 1
        self.most = max(self.most, self.open)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.open -= 1

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        assert self.open
        yield Completion("A")


async def test_workers_are_open_while_they_are_needed() -> None:
    """For a run, also one that raises, or as long as the conductor is entered."""
    worker = _Opened()
    with pytest.raises(PlannerError):
        await Conductor(boss("no plan"), [worker]).run("What?")
    assert (worker.open, worker.most) == (0, 1)
    async with Conductor(boss(rows((0, "go", ()))), [worker]) as conductor:
        assert (await conductor.run("What?")).answer == "A"
        assert worker.open == 1
    assert worker.open == 0


async def test_costs_are_told_by_worker_and_in_total() -> None:
    """A card's price makes the cost of a call; a worker may state it; an unknown cost is never 0."""
    priced = Card(name="priced", price=Price(input=10.0, output=30.0, cached_input=1.0))
    usage = Usage(input_tokens=1000, output_tokens=100, cached_tokens=400)
    pool = [
        ScriptedWorker(priced, Completion("A", usage=usage)),
        ScriptedWorker(Card(name="knows"), Completion("B", usage=usage, cost=0.5)),
    ]
    result = await Conductor(boss(""), pool).run(plan_of((0, "x", ()), (1, "y", (0,))))
    expected = (600 * 10 + 400 * 1 + 100 * 30) / 1e6
    assert result.cost_by_worker == {"priced": pytest.approx(expected), "knows": 0.5}
    assert result.cost == pytest.approx(expected + 0.5)
    assert result.usage.total_tokens == 2200
    assert not result.usage.estimated
    pool.append(ScriptedWorker(Card(name="unknown"), "C"))
    result = await Conductor(boss(""), pool).run(plan_of((0, "x", ()), (2, "y", (0,))))
    assert (result.cost, result.cost_by_worker["unknown"]) == (None, None)
    assert "cost unknown" in result.explain()


async def test_planning_alone_keeps_to_the_time_of_a_run() -> None:
    """`plan` does not outlast what a run may take."""
    conductor = Conductor(PlanningActor(_never_plans), _pool(), limits=Limits(seconds=0.05))
    for asking in (conductor.plan, conductor.run):
        with pytest.raises(PlannerError, match=r"Limits\.seconds") as caught:
            await asking("What?")
        assert caught.value.code == "planner_limit"


async def _never_plans(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    await anyio.sleep_forever()
    yield PlanText(text="")
