"""What must hold for every plan, whatever its workers do and whenever it is stopped."""

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from core.actors import Actor, boss, problem_of
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import WorkerRefused
from podium.execution import Retry
from podium.hosts.results import answer_sources
from podium.plan_text import write_plan
from podium.planners import ChatPlanner
from podium.types import Completion, Outcome, Plan, Result, Step
from podium.usage import Usage
from podium.workers import FREE, Card, Request

T = TypeVar("T")
Way = Literal["ok", "raises", "refuses", "cut"]
ONCE = Retry(attempts=1)
TICK = 1 / 64
"""Latencies are whole multiples of it, so that their sums are exact, in seconds."""


@dataclass(frozen=True)
class Scene:
    """A plan, and what its steps will do."""

    plan: Plan
    ticks: tuple[int, ...]
    """Each step's latency."""
    ways: tuple[Way, ...]
    """How each step ends."""
    slots: tuple[int | None, ...]
    """Each worker's concurrency."""
    concurrency: int = 16

    def seconds(self, step: int) -> float:
        return self.ticks[step] * TICK


@dataclass
class Stage:
    """Workers that play a scene, and what they saw of it."""

    scene: Scene
    scope: anyio.CancelScope | None = None
    """What the run is cancelled by."""
    late: list[int] = field(default_factory=list)
    """Steps that started after the cancel."""
    started: list[int] = field(default_factory=list)
    running: int = 0
    peak: int = 0

    def workers(self) -> list[Actor]:
        return [
            Actor(Card(name=f"w{number}", price=FREE, concurrency=slots), self.act)
            for number, slots in enumerate(self.scene.slots)
        ]

    async def act(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        step = request.caller.step
        self.started.append(step)
        if self.scope is not None and self.scope.cancel_called:
            self.late.append(step)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await anyio.sleep(self.scene.seconds(step))
        finally:
            self.running -= 1
        yield f"output-{step}-token "
        way = self.scene.ways[step]
        if way == "raises":
            raise ValueError(step)
        if way == "refuses":
            raise WorkerRefused("no")
        if way == "ok":
            yield Completion(f"output-{step}-token", usage=Usage(7, 3))


@st.composite
def scenes(draw: st.DrawFn, *, failing: bool = False, limited: bool = False) -> Scene:
    """Draw a plan of up to ten steps over up to three workers."""
    count, pool = draw(st.integers(1, 10)), draw(st.integers(1, 3))
    steps = []
    for index in range(count):
        seen = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        steps.append(Step(draw(st.integers(0, pool - 1)), f"subtask-{index}-token", tuple(seen)))
    endings: list[Way] = ["ok", "ok", "ok", "raises", "refuses", "cut"] if failing else ["ok"]
    ways = st.sampled_from(endings)
    slots = st.one_of(st.none(), st.integers(1, 2)) if limited else st.none()
    return Scene(
        Plan(tuple(steps)),
        tuple(draw(st.lists(st.integers(0, 64), min_size=count, max_size=count))),
        tuple(draw(st.lists(ways, min_size=count, max_size=count))),
        tuple(draw(st.lists(slots, min_size=pool, max_size=pool))),
        draw(st.integers(1, 4)) if limited else 16,
    )


def on_virtual_clock(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` and see that it leaves no task and no open generator."""
    unclosed: list[Any] = []

    async def watched() -> T:
        first, _ = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(first, unclosed.append)
        returned = await main()
        await checkpoint()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return returned

    returned = anyio.run(watched, backend_options=OPTIONS)
    gc.collect(0)
    assert not unclosed
    return returned


def perform(scene: Scene) -> tuple[Stage, list[Actor], Result]:
    stage = Stage(scene)
    workers = stage.workers()
    limits = Limits(plan_steps=10, concurrency=scene.concurrency)
    conductor = Conductor(boss(""), workers, limits=limits, retry=ONCE)
    return stage, workers, on_virtual_clock(lambda: conductor.run(scene.plan))


def expected(scene: Scene) -> list[str]:
    """Return the status of each step, worked out from the plan alone."""
    status: list[str] = []
    for index, step in enumerate(scene.plan.steps):
        is_blind = bool(step.access) and all(status[seen] != "ok" for seen in step.access)
        if index not in scene.plan.needed or is_blind:
            status.append("skipped")
        else:
            status.append("ok" if scene.ways[index] == "ok" else "failed")
    return status


@given(scenes(failing=True, limited=True))
def test_every_run(scene: Scene) -> None:
    """Unseen steps never run, nor steps all of whose inputs failed; the others run once, within limits."""
    stage, workers, result = perform(scene)
    assert [outcome.step for outcome in result.outcomes] == list(range(len(scene.plan.steps)))
    assert [outcome.status for outcome in result.outcomes] == expected(scene)
    ran = [index for index, status in enumerate(expected(scene)) if status != "skipped"]
    assert sorted(stage.started) == ran
    assert result.seconds == max(outcome.ended or 0.0 for outcome in result.outcomes)
    assert stage.peak <= scene.concurrency
    for worker, slots in zip(workers, scene.slots, strict=True):
        assert slots is None or worker.peak <= slots
    check_answer(scene, result)
    check_shown(scene, workers, result)


def check_answer(scene: Scene, result: Result) -> None:
    """The answer is the last step's output or nothing; `ok` means that all steps behind it ended well."""
    last = result.outcomes[-1]
    assert result.answer == (last.text if last.status == "ok" else "")
    behind = [result.outcomes[index] for index in sorted(scene.plan.reaching(last.step))]
    is_whole = all(outcome.status == "ok" for outcome in behind)
    assert result.status == ("ok" if is_whole else "partial" if last.status == "ok" else "failed")
    if result.status != "ok":
        failed = [outcome for outcome in behind if outcome.status == "failed"]
        named = {o.step for o in failed if f"step {o.step} ({o.worker})" in problem_of(result).message}
        assert named
        sources = answer_sources(result)
        assert all(outcome.status == "ok" for outcome in sources)
        shown = {index for outcome in sources for index in scene.plan.steps[outcome.step].access}
        assert named >= {outcome.step for outcome in failed if outcome.step in shown}


def check_shown(scene: Scene, workers: list[Actor], result: Result) -> None:
    """No byte of another step's subtask or output reaches a worker, by message or by brief."""
    for request in (request for worker in workers for request in worker.requests):
        assert request.step_input is not None
        index = request.caller.step
        seen = scene.plan.steps[index].access
        text = "\n".join(m.text for m in request.messages) + repr(request.step_input)
        for other in range(len(scene.plan.steps)):
            assert (f"subtask-{other}-token" in text) == (other == index or other in seen)
            is_shown = other in seen and result.outcomes[other].status == "ok"
            assert (f"output-{other}-token" in text) == is_shown


@given(scenes(failing=True))
def test_a_step_starts_exactly_when_its_last_input_ends(scene: Scene) -> None:
    """With slots for all, no step starts earlier or later."""
    _, _, result = perform(scene)
    for outcome, step in zip(result.outcomes, scene.plan.steps, strict=True):
        was_skipped = any(result.outcomes[seen].ended is None for seen in step.access)
        if outcome.started is not None and outcome.ended is not None and not was_skipped:
            inputs = [result.outcomes[seen].ended or 0.0 for seen in step.access]
            assert outcome.started == max(inputs, default=0.0)
            assert outcome.seconds == scene.seconds(outcome.step)


@dataclass(frozen=True)
class Draft:
    """What a planner writes first, how fast, and what it writes when told to repair it."""

    scene: Scene
    """The plan of the repaired text."""
    kept: int
    """How many of its steps the first text begins with."""
    others: int
    """How many steps follow them there that the repaired plan has not."""
    pauses: tuple[int, ...]


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    """Draw a plan that is repaired: rows of it, then other rows, then one that is wrong."""
    scene = draw(scenes(failing=True, limited=True))
    kept = draw(st.integers(0, len(scene.plan.steps)))
    pauses = draw(st.lists(st.integers(0, 64), min_size=25, max_size=25))
    return Draft(scene, kept, draw(st.integers(0, 10 - kept)), tuple(pauses))


@given(drafts())
def test_a_repaired_plan_keeps_what_it_shares_and_runs_nothing_twice(draft: Draft) -> None:
    """Steps both texts begin with run once; those of the first alone are stopped or were done."""
    scene = draft.scene
    first = [*scene.plan.steps[: draft.kept]]
    first += [Step(0, f"superseded-{i}", tuple(range(len(first)))[-1:]) for i in range(draft.others)]
    bad = write_plan(Plan(tuple(first)), "rows") if first else ""
    texts = [bad + '{"worker": 0, "subtask": "x", "access": [99]}\n', write_plan(scene.plan, "rows")]
    pauses = iter(draft.pauses)

    async def write(request: Request) -> AsyncGenerator[str | Completion, None]:
        text = texts.pop(0)
        for row in text.splitlines(keepends=True):
            await anyio.sleep(next(pauses) * TICK)
            yield row
        yield Completion(text)

    by_subtask: list[str] = []
    stage = Stage(scene)

    async def play(request: Request) -> AsyncGenerator[str | Completion, None]:
        assert request.step_input is not None
        by_subtask.append(request.step_input.subtask)
        if request.step_input.subtask.startswith("superseded"):
            await anyio.sleep(TICK)
            yield Completion("superseded output")
        else:
            async with aclosing(stage.act(request)) as pieces:
                async for piece in pieces:
                    yield piece

    workers = [Actor(worker.card, play) for worker in stage.workers()]
    limits = Limits(plan_steps=11, concurrency=scene.concurrency)
    conductor = Conductor(ChatPlanner(Actor("boss", write)), workers, limits=limits, retry=ONCE)
    result = on_virtual_clock(lambda: conductor.run("What?"))
    assert len(by_subtask) == len(set(by_subtask))
    _check_outcomes(result, scene, draft, by_subtask)


def _check_outcomes(result: Result, scene: Scene, draft: Draft, ran: list[str]) -> None:
    count = len(scene.plan.steps)
    own, superseded = result.outcomes[:count], result.outcomes[count:]
    assert result.plans == (scene.plan,)
    assert [outcome.step for outcome in own] == list(range(count))
    assert len(superseded) == draft.others
    for outcome, status in zip(own, expected(scene), strict=True):
        # A step that was started early may turn out to be one that nobody sees.
        unseen = outcome.step < draft.kept and outcome.step not in scene.plan.needed
        assert outcome.status == status or unseen
    assert result.answer == _answer(own)
    assert "superseded output" not in result.answer
    started = {f"subtask-{o.step}-token" for o in own if o.attempts}
    assert started == {subtask for subtask in ran if subtask.startswith("subtask")}


def _answer(own: tuple[Outcome, ...]) -> str:
    """Return the output of the plan's last step; empty where it has none."""
    return own[-1].text if own[-1].status == "ok" else ""
