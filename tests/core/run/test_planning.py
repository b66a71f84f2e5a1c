"""A bad plan is data: it is quoted to its planner once, and then another planner takes over."""

import asyncio
from collections.abc import AsyncGenerator

import anyio
import pytest
from core.actors import Actor, PlanningActor, boss, never, plan_of, rows, told
from core.virtual_clock import BACKEND

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import (
    PlanInvalid,
    PlannerError,
    PlanSyntaxError,
    PodiumError,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.planners import ChatPlanner, PlanRequest, PlanText
from podium.types import Completion, PlanDelta, PlannerEnded, PlanReady
from podium.usage import Usage
from podium.workers import Card, Price, Request, ScriptedWorker

pytestmark = pytest.mark.anyio

GOOD = rows((0, "go", ()))
HTML = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>502</h1></body></html>"


@pytest.fixture
def anyio_backend() -> object:
    """Let waiting take no time."""
    return BACKEND


def _pool() -> list[ScriptedWorker]:
    return [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]


async def test_a_good_plan_is_one_call() -> None:
    """The planner is asked once, and no repair or fallback is told of."""
    planner = boss(GOOD)
    result = await Conductor(planner, _pool()).run("What?")
    assert [proposal.problem for proposal in result.proposals] == [None]
    assert result.plans == (plan_of((0, "go", ())),)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (rows((0, "go", ())).replace("[]", "[3]"), "step 0"),
        ("I would ask the first worker, and then the second.", "holds no plan"),
        (HTML, "holds no plan"),
        (rows(*((0, f"step {i}", ()) for i in range(33))), "Limits.plan_steps"),
        ('{"worker": 7, "subtask": "go", "access": []}\n', "7"),
    ],
)
async def test_a_bad_plan_is_quoted_to_its_planner_with_the_reason(bad: str, reason: str) -> None:
    """One repair call holds the text, what was wrong with it, and all of the first call."""
    planner = boss(bad, GOOD)
    result = await Conductor(planner, _pool()).run("What?")
    assert result.status == "ok"
    assert bad.strip() in told(planner, 1)
    assert reason in told(planner, 1)
    assert told(planner, 1).startswith(told(planner, 0))
    assert [proposal.problem is None for proposal in result.proposals] == [False, True]


async def test_after_one_repair_the_fallback_plans_and_the_result_says_so() -> None:
    """A planner that cannot mend its plan is asked twice, and no more."""
    planner = boss("no plan")
    result = await Conductor(planner, _pool()).run("What is it?")
    assert result.status == "ok"
    assert [(p.planner, p.problem and p.problem.code) for p in result.proposals] == [
        ("boss", "no_plan"),
        ("boss", "no_plan"),
        ("rule", None),
    ]
    assert result.explain().count("Planner boss was not used (no_plan") == 2
    assert "Planner rule wrote the plan" in result.explain()


async def test_a_fallback_of_ones_own_is_used() -> None:
    """What a caller gives as `fallback` plans when the planner does not."""
    fallback = boss(GOOD)
    fallback.name = "second"
    result = await Conductor(boss("no plan"), _pool(), fallback=fallback).run("What?")
    assert result.proposals[-1].planner == "second"
    assert result.answer == "A"


async def test_when_nobody_plans_the_run_fails_with_the_reason() -> None:
    """No exception is raised because models wrote badly."""
    result = await Conductor(boss("no plan"), _pool(), fallback=boss("nor here")).run("What?")
    assert (result.status, result.answer, result.plans) == ("failed", "", ())
    assert result.problem is not None
    assert result.problem.code == "no_plan"
    assert "No plan could be had" in result.explain()


async def test_rejected_texts_are_events() -> None:
    """A stream tells which text was not used, whose it was and why, and whose plan is."""
    events = [e async for e in Conductor(boss("no plan"), _pool()).stream("What?")]
    rejected = [
        (e.proposal.planner, e.proposal.text, e.proposal.problem.code)
        for e in events
        if isinstance(e, PlannerEnded) and e.proposal.problem is not None
    ]
    assert rejected == [("boss", "no plan", "no_plan")] * 2
    assert [e.planner for e in events if isinstance(e, PlanReady)] == ["rule"]


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        ("no plan", PlanSyntaxError),
        ('{"worker": 9, "subtask": "go", "access": []}\n', PlanInvalid),
        (WorkerUnavailable("down"), WorkerUnavailable),
    ],
)
async def test_strict_raises_the_very_error(bad: str | Exception, kind: type[PodiumError]) -> None:
    """With `strict` there is one call, and what is wrong is raised as it is."""
    planner = boss(bad)
    with pytest.raises(kind):
        await Conductor(planner, _pool(), strict=True).run("What?")
    with pytest.raises(kind):
        await Conductor(planner, _pool(), strict=True).plan("What?")
    with pytest.raises(kind):
        [event async for event in Conductor(planner, _pool(), strict=True).stream("What?")]
    worker = planner.worker
    assert isinstance(worker, ScriptedWorker)
    assert len(worker.requests) == 3


async def test_strict_stops_steps_that_had_started() -> None:
    """A row that runs when the text turns out bad is cancelled before the error is raised."""
    started = Actor("a", never)

    async def bad(request: Request) -> AsyncGenerator[str | Completion, None]:
        yield GOOD
        await anyio.sleep(1.0)
        yield '{"worker": 9, "subtask": "go", "access": []}\n'
        yield Completion("")

    with pytest.raises(PlanInvalid):
        await Conductor(ChatPlanner(Actor("boss", bad)), [started], strict=True).run("What?")
    assert (len(started.requests), started.stopped, started.running) == (1, 1, 0)


async def _raises(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    raise KeyError("oops")
    yield ""


async def _raises_timeout(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    raise TimeoutError("theirs")
    yield ""


async def _cancels_itself(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future
    yield ""


async def _hangs(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    yield "Let me think"
    await anyio.sleep_forever()


async def _writes_nothing(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    return
    yield ""


async def _never_ends(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    yield GOOD


async def _bytes(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    yield b"\xff"  # type: ignore[misc]


async def _empty(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    yield PlanText(text="")


async def _cut(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    yield GOOD
    yield PlanText(text=GOOD, finish_reason="length")


async def _ten_megabytes_at_once(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
    yield PlanText(text="blah " * 2_000_000)


@pytest.mark.parametrize(
    ("act", "code", "reason"),
    [
        (_raises, "planner", "raised KeyError"),
        (_raises_timeout, "planner", "raised TimeoutError: theirs"),
        (_cancels_itself, "planner", "raised CancelledError"),
        (_hangs, "worker_timeout", "did not finish within 120 s"),
        (_writes_nothing, "planner", "ended without a PlanText"),
        (_never_ends, "planner", "ended without a PlanText"),
        (_bytes, "planner", "a bytes, not text"),
        (_empty, "no_plan", "holds no plan"),
        (_cut, "truncated", "token limit"),
        (_ten_megabytes_at_once, "too_long", "at most 262,144 characters"),
    ],
)
async def test_a_planner_that_goes_wrong_is_replaced(act: object, code: str, reason: str) -> None:
    """Whatever a planner does, the fallback plans and the result tells why."""
    planner = PlanningActor(act)  # type: ignore[arg-type]
    result = await Conductor(planner, _pool()).run("What is it?")
    problem = result.proposals[0].problem
    assert problem is not None
    assert problem.code == code
    assert reason in problem.message
    assert result.status == "ok"
    assert result.proposals[-1].planner == "rule"


async def test_a_planner_that_writes_without_end_is_left_early() -> None:
    """Of 10 MB no more is read than a plan may have, and the repair call does not quote it all."""
    written, quoted = [0, 0], list[int]()

    async def write(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        quoted.append(sum(len(turn.text) for turn in request.turns))
        for _ in range(10_000):
            written[len(quoted) - 1] += 1000
            yield "blah " * 199 + "blah\n"
        yield PlanText(text="")

    result = await Conductor(PlanningActor(write), _pool()).run("What is it?")
    assert max(written) <= 264_000
    assert quoted[0] == 0
    assert 0 < quoted[1] <= 16_000
    assert max(len(proposal.text) for proposal in result.proposals) <= 262_144
    assert result.proposals[-1].planner == "rule"


async def test_a_planner_has_so_long_and_no_longer() -> None:
    """`Limits.planner_seconds` bounds one call; steps that started meanwhile go on."""

    async def write(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        yield GOOD
        await anyio.sleep_forever()

    workers = [ScriptedWorker("a", "A", latency=1.0)]
    fallback = boss(GOOD)
    conductor = Conductor(PlanningActor(write), workers, limits=Limits(planner_seconds=9), fallback=fallback)
    result = await conductor.run("What?")
    assert (result.status, result.answer, result.seconds) == ("ok", "A", 9.0)
    assert len(workers[0].requests) == 1


async def test_strict_raises_a_planners_timeout() -> None:
    """A planner that hangs is an error of its own where strictness was asked for."""
    conductor = Conductor(PlanningActor(_hangs), _pool(), strict=True)
    with pytest.raises(WorkerTimeout, match="planner_seconds"):
        await conductor.run("What?")


async def test_plan_runs_nothing() -> None:
    """`plan` returns a plan that carries its question, and calls no worker."""
    pool = _pool()
    plan = await Conductor(boss(GOOD), pool).plan("What?")
    assert plan == plan_of((0, "go", ()))
    assert plan.query[-1].text == "What?"
    assert not pool[0].requests


async def test_plan_raises_when_nobody_plans() -> None:
    """Without a plan there is nothing to return."""
    with pytest.raises(PlannerError, match="holds no plan"):
        await Conductor(boss("no"), _pool(), fallback=boss("no")).plan("What?")


async def test_a_plan_that_keeps_nothing_is_repaired() -> None:
    """The first round has no answer to keep."""
    planner = boss('{"steps": []}', GOOD)
    result = await Conductor(planner, _pool()).run("What?")
    assert result.answer == "A"
    assert "no previous answer" in told(planner, 1)


async def test_planner_calls_are_counted_and_paid() -> None:
    """Usage and cost of every text stand in the result, those of bad ones too."""
    card = Card(name="boss", price=Price(input=1.0, output=2.0))
    replies = [Completion("bad", usage=Usage(1000, 10)), Completion(GOOD, usage=Usage(2000, 20))]
    planner = ChatPlanner(ScriptedWorker(card, lambda request: replies.pop(0)))
    result = await Conductor(planner, _pool()).run("What?")
    assert [proposal.usage.input_tokens for proposal in result.proposals] == [1000, 2000]
    assert result.proposals[0].cost == pytest.approx(0.00102)
    assert result.cost == pytest.approx(0.00306)


async def test_a_planner_of_unknown_price_makes_the_cost_unknown() -> None:
    """Unknown is not nothing."""
    planner = ChatPlanner(ScriptedWorker(Card(name="boss"), GOOD))
    result = await Conductor(planner, _pool()).run("What?")
    assert result.cost is None
    assert result.cost_by_worker == {"a": 0.0}
    assert "cost unknown" in result.explain()


async def test_a_shuffled_pool_maps_back_to_the_right_workers() -> None:
    """Whatever the order shown, the worker the planner meant is the one that is called."""

    def pick_b(request: object) -> str:
        text = request.messages[1].text  # type: ignore[attr-defined]
        return rows((int(text.split(": bee.")[0].rsplit(" ", 1)[1]), "go", ()))

    seen = set()
    for _ in range(20):
        pool = [ScriptedWorker(name, name.upper()) for name in ("ant", "bee", "cat", "dog")]
        planner = ChatPlanner(ScriptedWorker("boss", pick_b), shuffle=True)
        result = await Conductor(planner, pool).run("What?")
        assert result.answer == "BEE"
        assert result.plans[0].steps[0].worker == 1
        seen.add(result.proposals[0].text)
    assert len(seen) > 1


async def test_plan_text_streams_when_somebody_reads() -> None:
    """The pieces of the plan text are events, in order."""
    events = [e async for e in Conductor(boss(GOOD, piece=7), _pool()).stream("What?")]
    assert "".join(e.text for e in events if isinstance(e, PlanDelta)) == GOOD
