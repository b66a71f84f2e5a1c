"""What a framework that runs Podium may take over: calls of workers, starts of steps, the record."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from podium import Card, ChatPlanner, Conductor, FunctionWorker, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, JournalBroken
from podium.execution import ExternalScheduler, HostExit
from podium.journal import MemoryJournal, export
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.types import Completion, Event, Outcome, StepEnded
from podium.usage import Usage
from podium.workers import Request, StepInput, Worker

pytestmark = pytest.mark.anyio

DIAMOND = Plan((Step(0, "a"), Step(1, "b", (0,)), Step(2, "c", (0,)), Step(0, "d", (1, 2))))


def diamond(**options: object) -> Conductor:
    """Return a conductor of three workers that say what they were shown."""

    def say(name: str) -> FunctionWorker:
        def answer(step_input: StepInput) -> str:
            return f"{name}:{step_input.subtask}({','.join(shown.output for shown in step_input.visible)})"

        return FunctionWorker(answer, card=Card(name=name))

    return Conductor(FixedPlanner("x"), [say("x"), say("y"), say("z")], **options)  # type: ignore[arg-type]


WHOLE = "x:d(y:b(x:a()),z:c(x:a()))"


async def in_order(steps: ExternalScheduler) -> None:
    """Run the steps one after the other."""
    for index in range(len(steps.plan.steps)):
        await steps.run(index)


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
    """What it yields is what the run takes; what it raises is the worker's failure."""

    async def louder(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        if request.messages[-1].text.endswith("b"):
            raise RuntimeError("no b today")
        async for piece in worker.call(request):
            assert isinstance(piece, Completion)
            yield Completion(piece.text.upper())

    result = await diamond().run(Plan((Step(0, "a"), Step(1, "b"), Step(0, "c", (0, 1)))), middleware=louder)
    assert [outcome.status for outcome in result.outcomes] == ["ok", "failed", "ok"]
    assert result.outcomes[0].text == "X:A()"
    assert result.outcomes[1].problem is not None
    assert "no b today" in result.outcomes[1].problem.message


async def test_a_host_starts_the_steps() -> None:
    """The result is that of the run's own executor, each step run once and in the host's order."""
    events: list[Event] = []
    result = await diamond().run(DIAMOND, step_starter=in_order, on_event=events.append)
    assert (result.answer, result.status) == (WHOLE, "ok")
    assert [e.step for e in events if isinstance(e, StepEnded)] == [0, 1, 2, 3]


async def test_a_host_may_start_steps_side_by_side() -> None:
    """Steps of one layer that are under way at once are run at once."""
    both = anyio.Event()
    waiting: list[str] = []

    async def meet(step_input: StepInput) -> str:
        waiting.append(step_input.subtask)
        if len(waiting) == 2:
            both.set()
        with anyio.fail_after(5):
            await both.wait()
        return step_input.subtask

    async def layers(steps: ExternalScheduler) -> None:
        for layer in steps.plan.layers:
            async with anyio.create_task_group() as group:
                for index in layer:
                    group.start_soon(steps.run, index)

    worker = FunctionWorker(meet, card=Card(name="meet"))
    plan = Plan((Step(0, "left"), Step(0, "right"), Step(1, "join", (0, 1))))
    join = FunctionWorker(
        lambda step_input: "+".join(s.output for s in step_input.visible), card=Card(name="join")
    )
    assert (
        await Conductor(FixedPlanner("x"), [worker, join]).run(plan, step_starter=layers)
    ).answer == "left+right"


async def test_a_step_before_its_inputs_is_refused() -> None:
    """A host that starts a step too early is told so, and the run ends with what it raised."""

    async def hasty(steps: ExternalScheduler) -> None:
        await steps.run(3)

    with pytest.raises(ConfigError, match="step 3 was started before"):
        await diamond().run(DIAMOND, step_starter=hasty)


async def test_a_step_that_the_plan_lacks_is_refused() -> None:
    """A host that asks for a step beyond the plan is told which steps there are."""

    async def beyond(steps: ExternalScheduler) -> None:
        await steps.run(4)

    with pytest.raises(ConfigError, match="the plan has no step 4; its steps are 0 to 3"):
        await diamond().run(DIAMOND, step_starter=beyond)


async def test_a_host_is_told_what_it_runs() -> None:
    """The round names its run, its number and its workers."""
    told: list[object] = []

    async def look(steps: ExternalScheduler) -> None:
        told.extend((steps.run_id, steps.round, steps.plan, steps.workers))
        await in_order(steps)

    result = await diamond().run(DIAMOND, step_starter=look)
    assert told == [result.run_id, 1, DIAMOND, ("x", "y", "z")]


async def test_what_a_host_kept_is_not_called_again_and_counts() -> None:
    """Outcomes of before are taken, with their bill, and the limit on steps counts them."""
    conductor = diamond(limits=Limits(steps=4))
    first = await conductor.run(DIAMOND)
    kept: dict[int, Outcome] = {outcome.step: outcome for outcome in first.outcomes[:3]}
    events: list[Event] = []

    async def last_only(steps: ExternalScheduler) -> None:
        await steps.run(3, known=kept)

    result = await conductor.run(DIAMOND, step_starter=last_only, on_event=events.append)
    assert result.answer == WHOLE
    assert [outcome.reused for outcome in result.outcomes] == [True, True, True, False]
    assert [e.type for e in events].count("step_started") == 1
    tight = await diamond(limits=Limits(steps=3, plan_steps=4)).run(DIAMOND, step_starter=last_only)
    assert tight.problem is not None
    assert tight.problem.code == "limit"


async def test_labels_of_what_a_host_kept_still_hold() -> None:
    """What a step saw that is not told any more still keeps its output from whom the rules forbid it."""
    rule = Rule("secret", never=["outside"])

    def worker(name: str, *labels: str) -> FunctionWorker:
        return FunctionWorker(lambda step_input: name, card=Card(name=name, labels=frozenset(labels)))

    pool = [worker("vault", "secret"), worker("plain"), worker("web", "outside")]
    plan = Plan((Step(0, "a"), Step(1, "b", (0,)), Step(1, "c", (1,))))
    seen: list[frozenset[str]] = []

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        assert request.caller is not None
        seen.append(request.caller.labels)
        async for piece in worker.call(request):
            yield piece

    async def only_b_is_kept(steps: ExternalScheduler) -> None:
        kept = Outcome(round=1, step=1, worker="plain", status="ok", text="b", attempts=1)
        await steps.run(2, known={1: kept})

    conductor = Conductor(FixedPlanner("x"), pool, policy=Policy(rules=[rule]))
    await conductor.run(plan, step_starter=only_b_is_kept, middleware=middleware)
    assert "secret" in seen[-1]


class Left(BaseException):
    """What a host leaves a worker's call by."""


async def test_a_host_may_leave_a_call() -> None:
    """Its own exceptions pass as they are, and other steps keep their outcomes for the next time."""

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        if request.caller is not None and request.caller.step == 2:
            raise Left
        async for piece in worker.call(request):
            yield piece

    kept: dict[int, Outcome] = {}

    async def step_starter(steps: ExternalScheduler) -> None:
        for index in range(len(steps.plan.steps)):
            try:
                kept[index] = await steps.run(index)
            except Left:
                raise LookupError("wait for somebody") from None

    with pytest.raises(LookupError, match="wait for somebody"):
        await diamond().run(DIAMOND, step_starter=step_starter, middleware=middleware)
    assert sorted(kept) == [0, 1]


async def test_what_a_call_used_before_its_host_left_it_is_billed() -> None:
    """The host knows it."""

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        raise HostExit("later", usage=Usage(3, 4))
        yield ""

    async def step_starter(steps: ExternalScheduler) -> None:
        with pytest.raises(HostExit, match="later"):
            await steps.run(0)

    result = await diamond().run(DIAMOND, step_starter=step_starter, middleware=middleware)
    assert result.outcomes[0].usage == Usage(3, 4)


async def test_a_journal_of_one_run_travels_as_lines() -> None:
    """A run that waits for approval goes on from its lines, with another conductor, its plan made once."""
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


async def test_changed_lines_are_refused() -> None:
    """A record that was changed on its way is found by its hash."""
    journal = MemoryJournal()
    await diamond().run(DIAMOND, run_id="mine", journal=journal)
    lines = [line async for line in export(journal, ["mine"])]
    with pytest.raises(JournalBroken, match="record was changed"):
        MemoryJournal.of([line.replace("x:a()", "x:z()") for line in lines])


async def test_without_any_journal_a_run_has_no_id_of_the_callers() -> None:
    """An id without a journal would promise what nobody keeps."""
    with pytest.raises(ConfigError, match="no journal"):
        await diamond().run(DIAMOND, run_id="mine")
