"""What a framework that runs Podium may take over: calls, questions to people, outcomes, the record."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from core.actors import Shown, Stored, problem_of

from podium import Card, ChatPlanner, Conductor, FunctionWorker, Limits, Plan, ScriptedWorker, Step
from podium.execution import HostExit
from podium.journal import MemoryJournal, export
from podium.plan_text import parse_plan
from podium.planners import FixedPlanner
from podium.policy import ApprovalRequest, Policy, Rule
from podium.types import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Completion,
    Event,
    Outcome,
    StepStarted,
)
from podium.usage import Usage
from podium.workers import FREE, PersonWorker, Request, StepInput, Worker

pytestmark = pytest.mark.anyio

DIAMOND = Plan((Step(0, "a"), Step(1, "b", (0,)), Step(2, "c", (0,)), Step(0, "d", (1, 2))))


def diamond(**options: object) -> Conductor:
    """Return a conductor of three workers that say what they were shown."""

    def say(name: str) -> FunctionWorker:
        def answer(step_input: StepInput) -> str:
            return f"{name}:{step_input.subtask}({','.join(shown.output for shown in step_input.visible)})"

        return FunctionWorker(answer, card=Card(name=name, price=FREE))

    return Conductor(FixedPlanner(DIAMOND), [say("x"), say("y"), say("z")], **options)  # type: ignore[arg-type]


WHOLE = "x:d(y:b(x:a()),z:c(x:a()))"


async def test_every_call_goes_through() -> None:
    """Steps, steps of nested runs and a planner's model are called through what was given."""
    seen: list[tuple[str, int | None]] = []

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        seen.append((worker.card.name, None if request.caller is None else request.caller.step))
        async for piece in worker.call(request):
            yield piece

    inner = Conductor(
        FixedPlanner('{"worker": 0, "subtask": "inside", "access": []}'),
        [ScriptedWorker("leaf", "deep")],
        card=Card(name="inner"),
    )
    planner = ChatPlanner(ScriptedWorker("model", '{"worker": 0, "subtask": "think", "access": []}'))
    result = await Conductor(planner, [inner]).run("What?", middleware=middleware)
    assert result.answer == "deep"
    assert seen == [("model", None), ("inner", 0), ("leaf", 0)]


async def test_through_may_change_what_comes_back() -> None:
    async def louder(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        if request.messages[-1].text.endswith("b"):
            raise RuntimeError("no b today")
        async for piece in worker.call(request):
            assert isinstance(piece, Completion)
            yield Completion(piece.text.upper())

    result = await diamond().run(Plan((Step(0, "a"), Step(1, "b"), Step(0, "c", (0, 1)))), middleware=louder)
    assert [outcome.status for outcome in result.outcomes] == ["ok", "failed", "ok"]
    assert result.outcomes[0].text == "X:A()"
    assert "no b today" in problem_of(result.outcomes[1]).message


WHERE: ContextVar[str] = ContextVar("where", default="run")


class Taking(Shown):
    """Carries out the calls of one worker, in a context of its own."""

    def __init__(self, name: str, *, carries_out: bool = True) -> None:
        super().__init__()
        self._name, self._carries_out = name, carries_out
        self.calls: list[tuple[int, str]] = []

    def takes(self, worker: Worker) -> bool:
        """Take the calls of the worker."""
        return worker.card.name == self._name

    async def call(self, number: int, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self.calls.append((number, name))
        if self._carries_out:
            token = WHERE.set("host")
            try:
                await work()
            finally:
                WHERE.reset(token)

    def keeps(self, left: HostExit) -> bool:
        """Keep the run."""
        return True


async def test_a_host_carries_out_calls() -> None:
    places: dict[str, str] = {}

    def say(step_input: StepInput) -> str:
        places[step_input.subtask] = WHERE.get()
        return step_input.subtask

    workers = [FunctionWorker(say, card=Card(name=name)) for name in "xyz"]
    host = Taking("y")
    await Conductor(FixedPlanner(DIAMOND), workers).run("What?", host=host)
    assert places == {"a": "run", "b": "host", "c": "run", "d": "run"}
    assert host.calls == [(1, "1")]


async def test_what_a_host_does_not_carry_out_waits() -> None:
    journal = MemoryJournal()
    conductor = diamond(journal=journal)
    waits = await conductor.run("What?", host=Taking("y", carries_out=False), run_id="mine")
    assert waits.status == "waiting"
    assert [outcome.text for outcome in waits.outcomes] == ["x:a()", "", "z:c(x:a())", ""]
    host, events = Taking("y"), list[Event]()
    result = await conductor.resume("mine", host=host, on_event=events.append)
    assert (result.answer, host.calls) == (WHOLE, [(1, "1")])
    assert [event.step for event in events if isinstance(event, StepStarted)] == [1, 3]


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_call_that_is_left(*, is_kept: bool) -> None:
    class Leaving(Shown):
        def keeps(self, left: HostExit) -> bool:
            return is_kept

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        if request.caller is not None and request.caller.step == 1:
            raise HostExit("later", usage=Usage(3, 4))
        await anyio.sleep(0.05)
        async for piece in worker.call(request):
            yield piece

    journal = MemoryJournal()
    conductor = diamond(journal=journal)
    options: Any = {"host": Leaving(), "middleware": middleware, "run_id": "mine"}
    if is_kept:
        assert (await conductor.run("What?", **options)).status == "waiting"
    else:
        with pytest.raises(HostExit, match="later"):
            await conductor.run("What?", **options)
    calls = [
        entry.event.call.usage
        for entry in await journal.read("mine")
        if isinstance(entry.event, AttemptFailed)
    ]
    assert calls == [Usage(3, 4)]
    again = list[Event]()
    result = await conductor.resume("mine", on_event=again.append)
    started = [event.step for event in again if isinstance(event, StepStarted)]
    assert sorted(started) == ([1, 3] if is_kept else [1, 2, 3])
    assert result.outcomes[1].usage == Usage(3, 4) + result.outcomes[1].calls[-1].usage


class Deciding(Shown):
    """Gives one decision after the other."""

    def __init__(self, *decisions: Any) -> None:
        super().__init__()
        self._decisions = list(decisions)
        self.asked: list[tuple[str, str]] = []

    async def decide(self, asked: ApprovalAsked, problem: str) -> ApprovalGiven | None:
        """Decide."""
        self.asked.append(("plan" if asked.step is None else asked.name, problem))
        if (said := self._decisions.pop(0)) is None:
            return None
        facts = (
            {"plan": said} if isinstance(said, Plan) else {"answer": said} if isinstance(said, str) else {}
        )
        approved = said if isinstance(said, bool) else True
        return ApprovalGiven(
            run_id=asked.run_id, at=0.0, round=asked.round, by="host", approved=approved, **facts
        )


async def test_a_host_asks_for_approval_in_place_of_later() -> None:
    seen: list[int] = []

    def look(request: ApprovalRequest) -> bool:
        seen.append(request.round)
        return True

    policy = Policy(approve=look) & Policy(approve="later")
    conductor = diamond(journal=MemoryJournal(), policy=policy)
    waits = await conductor.run("What?", run_id="mine", host=Deciding(None))
    assert waits.status == "waiting"
    host = Deciding(Plan((Step(9, "e"),)), Plan((Step(2, "e"),)))
    result = await conductor.resume("mine", host=host)
    assert (result.answer, seen) == ("z:e()", [1])
    assert [name for name, _ in host.asked] == ["plan", "plan"]
    assert "worker" in host.asked[1][1]


async def test_a_host_asks_people() -> None:
    """Until the answer fits."""
    plan = Plan((Step(0, "Which?"), Step(1, "b", (0,))))
    person = PersonWorker("person", choices=["one", "two"])
    conductor = Conductor(FixedPlanner(plan), [person, ScriptedWorker("a", "said")], journal=MemoryJournal())
    host = Deciding("three", "two")
    result = await conductor.run("What?", host=host)
    assert [outcome.text for outcome in result.outcomes] == ["two", "said"]
    assert [name for name, _ in host.asked] == ["0", "0"]
    assert "write one of 'one', 'two'" in host.asked[1][1]


async def test_what_a_host_has_stored_is_not_called_again_and_counts() -> None:
    conductor, first = diamond(limits=Limits(steps=4)), Shown()
    await conductor.run(DIAMOND, host=first)
    ends = {end.outcome.name: (end.key, end.outcome) for end in first.ends if end.step < 3}
    ends["1"] = "another input", ends["1"][1]
    events: list[Event] = []
    result = await conductor.run(DIAMOND, host=Stored(ends), on_event=events.append)
    assert result.answer == WHOLE
    assert [outcome.reused for outcome in result.outcomes] == [True, False, True, False]
    assert [e.type for e in events].count("step_started") == 2
    tight = await diamond(limits=Limits(steps=3, plan_steps=4)).run(DIAMOND, host=Stored(ends))
    assert problem_of(tight).code == "limit"


async def test_an_edited_outcome_stands_whatever_its_input() -> None:
    journal = MemoryJournal()
    conductor = diamond(journal=journal)
    await conductor.run(DIAMOND, run_id="mine", host=Taking("z", carries_out=False))
    edited = Outcome(round=1, step=0, worker="x", status="ok", text="edited")
    host = Stored({"0": (None, edited)})
    host.takes = lambda worker: worker.card.name == "z"  # type: ignore[method-assign]

    async def wait(number: int, name: str, work: Any) -> None:
        """Carry out nothing."""

    host.call = wait  # type: ignore[method-assign]
    assert (await conductor.resume("mine", host=host)).status == "waiting"
    result = await conductor.resume("mine")
    assert result.answer == "x:d(y:b(edited),z:c(edited))"


@pytest.mark.parametrize("name", ["1", "2"])
async def test_labels_of_what_a_host_has_stored_still_hold(name: str) -> None:
    rule = Rule("secret", never=["outside"])

    def worker(name: str, *labels: str) -> FunctionWorker:
        card = Card(name=name, labels=frozenset(labels))
        return FunctionWorker(lambda step_input: '["a"]', card=card)

    pool = [worker("vault", "secret"), worker("plain"), worker("web", "outside")]
    text = json.dumps(
        {
            "steps": [
                {"worker": "vault", "subtask": "a", "access": [], "returns": ["string"]},
                {"worker": "plain", "subtask": "b", "access": [0]},
                {"worker": "plain", "subtask": "{{item}}", "access": [], "each": "{{0}}"},
                {"worker": "plain", "subtask": "d", "access": [int(name)]},
            ]
        }
    )
    plan = parse_plan(text, workers=("vault", "plain", "web"))
    seen: list[frozenset[str]] = []

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        assert request.caller is not None
        seen.append(request.caller.labels)
        async for piece in worker.call(request):
            yield piece

    edited = Outcome(round=1, step=int(name), worker="plain", status="ok", text='["b"]', attempts=1)
    conductor = Conductor(FixedPlanner("x"), pool, policy=Policy(rules=[rule]))
    await conductor.run(plan, host=Stored({name: (None, edited)}), middleware=middleware)
    assert "secret" in seen[-1]


async def test_a_journal_of_one_run_travels_as_lines() -> None:
    planner = ScriptedWorker("model", '{"worker": 0, "subtask": "say", "access": []}')
    first = Conductor(ChatPlanner(planner), [ScriptedWorker("a", "said")])
    journal = MemoryJournal()
    waits = await first.run("What?", run_id="mine", journal=journal, policy=Policy(approve="later"))
    assert waits.status == "waiting"
    lines = [line async for line in export(journal, ["mine"])]

    unplanned = ScriptedWorker("model", {})
    second = Conductor(ChatPlanner(unplanned), [ScriptedWorker("a", "said")])
    loaded = MemoryJournal.of(lines)
    await second.decide("mine", approved=True, journal=loaded)
    result = await second.resume("mine", journal=loaded)
    assert (result.answer, result.status, result.usage) == (
        "said",
        "ok",
        waits.usage + result.outcomes[0].usage,
    )
