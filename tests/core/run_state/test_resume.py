"""Runs that go on from their journal: after a crash, a cancel, a failure, an edit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from core.actors import in_turn, problem_of
from core.plans import plans
from core.virtual_clock import OPTIONS, anyio_backend  # noqa: F401 - a fixture
from hypothesis import given, strategies as st

from podium import ChatPlanner, Conductor, Limits, Plan, Result, ScriptedWorker, Step
from podium.errors import ConfigError, RunExists, RunUnknown, WorkerRefused
from podium.journal import Journal, MemoryJournal, export
from podium.planners import FixedPlanner
from podium.run_state import fold
from podium.types import Completion, Event, RunEnded, StepEnded
from podium.workers import Request
from podium.workers.simple import Reply

DIAMOND = Plan((Step(0, "first"), Step(1, "left", (0,)), Step(2, "right", (0,)), Step(3, "last", (1, 2))))
ONE = '{"worker": 0, "subtask": "do it", "access": []}'
pytestmark = pytest.mark.anyio


def team(**replies: Reply) -> list[ScriptedWorker]:
    """Return four workers, of which some answer otherwise than by their name."""
    return [ScriptedWorker(name, replies.get(name, f"{name} said")) for name in ("a", "b", "c", "d")]


def conductor(workers: Sequence[ScriptedWorker], journal: Journal | None, **more: object) -> Conductor:
    return Conductor(FixedPlanner(DIAMOND), workers, journal=journal, **more)  # type: ignore[arg-type]


def calls(workers: Sequence[ScriptedWorker]) -> list[int]:
    return [len(worker.requests) for worker in workers]


async def recorded(journal: Journal, run_id: str) -> list[Event]:
    return [entry.event for entry in await journal.read(run_id)]


async def journal_of(*runs: Sequence[Event]) -> MemoryJournal:
    """Return a journal in which a process died after these events of each run."""
    journal = MemoryJournal()
    for first, *events in runs:
        log = await journal.begin(first, minted=False)
        for event in events:
            log.append(event)
        await log.aclose()
    return journal


async def prefix(events: Sequence[Event], run_id: str) -> MemoryJournal:
    return await journal_of([replace(event, run_id=run_id) for event in events])


async def test_two_at_the_same_time_are_one_run() -> None:
    journal, results = MemoryJournal(), list[Result]()
    workers = [ScriptedWorker(name, f"{name} said", latency=0.05) for name in ("a", "b", "c", "d")]

    async def run() -> None:
        results.append(await conductor(workers, journal).run("What?", run_id="x"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        tasks.start_soon(run)
    assert (calls(workers), results[0]) == ([1, 1, 1, 1], results[1])


async def test_what_is_read_back_is_what_was_returned() -> None:
    journal, workers = MemoryJournal(), team()
    first = await conductor(workers, journal).run("What?", run_id="x")
    second = await conductor(workers, journal).run("What?", run_id="x")
    assert (calls(workers), second) == ([1, 1, 1, 1], first)
    with pytest.raises(RunExists):
        await conductor(workers, journal).run("Something else?", run_id="x")
    given = await conductor(workers, journal).run(DIAMOND, run_id="y")
    assert await conductor(workers, journal).run(DIAMOND, run_id="y") == given
    with pytest.raises(RunExists):
        await conductor(workers, journal).run(Plan(DIAMOND.steps[:3]), run_id="y")


@pytest.mark.parametrize(("said", "asked_again"), [("other facts", 1), ("a said", 0)])
async def test_a_step_that_is_shown_other_facts_is_called_again(said: str, asked_again: int) -> None:
    journal = MemoryJournal()
    plan = Plan((Step(0, "find it"), Step(3, "use it", (0,))))
    await conductor(team(), journal).run(plan, run_id="x")
    again = team(b=said, d="made from other facts")
    result = await conductor(again, journal).resume("x", plan=Plan((Step(1, "find it"), plan.steps[1])))
    assert calls(again) == [0, 1, 0, asked_again]
    assert result.answer == ("made from other facts" if asked_again else "d said")


@pytest.mark.parametrize("rounds", [1, 2])
async def test_a_step_that_was_shown_a_gap_is_called_again_only_if_the_user_asks_for_it(rounds: int) -> None:
    journal, limits = MemoryJournal(), Limits(rounds=rounds)  # the second round keeps the answer
    down = team(c=RuntimeError("down"))
    first = await conductor(down, journal, limits=limits).run("What?", run_id="x")
    assert (first.status, first.answer) == ("partial", "d said")
    again = team(c="c said at last", d="made from both")
    for _ in range(2):
        result = await conductor(again, journal, limits=limits).resume("x")
        assert (calls(again), result.status, result.answer) == ([0, 0, 1, 0], "partial", "d said")
        assert problem_of(result).code == "stale"
        assert "before step 2 (c) had an output: to make step 3 (d) again" in problem_of(result).message
        assert "--refresh" in problem_of(result).message
    assert fold(await recorded(journal, "x")).result() == result
    result = await conductor(again, journal, limits=limits).resume("x", refresh=True)
    assert (calls(again), result.status, result.answer) == ([0, 0, 1, 1], "ok", "made from both")
    assert "c said at last" in again[3].requests[0].messages[-1].text
    result = await conductor(again, journal, limits=limits).resume("x")
    assert (calls(again), result.status, result.answer) == ([0, 0, 1, 1], "ok", "made from both")


async def test_a_refreshed_run_carries_an_action_out_once() -> None:
    journal = MemoryJournal()
    plan = Plan((Step(0, "look"), Step(1, "look too"), Step(2, "write", (0, 1)), Step(3, "mail", (2,))))

    def people(first: Reply) -> list[ScriptedWorker]:
        named = {"a": first, "b": "b said", "writer": "a letter", "mailer": "sent"}
        workers = [ScriptedWorker(name, reply) for name, reply in named.items()]
        workers[3].acts = True
        return workers

    await Conductor(FixedPlanner(plan), people(RuntimeError("down")), journal=journal).run("?", run_id="x")
    again = people("a said")
    resumed = Conductor(FixedPlanner(plan), again, journal=journal)
    result = await resumed.resume("x")
    assert (calls(again), result.status) == ([1, 0, 0, 0], "failed")
    assert "to make step 2 again" in problem_of(result).message
    for refresh in (True, False, True):
        result = await resumed.resume("x", refresh=refresh)
        assert (calls(again), result.status) == ([1, 0, 1, 1], "ok")


async def test_a_run_that_ended_ok_is_returned_as_recorded() -> None:
    journal, workers = MemoryJournal(), team()
    first = await conductor(workers, journal).run("What?", run_id="x", forecast=True)
    events = await recorded(journal, "x")
    heard = list[Event]()
    again = await conductor(workers[:1], journal).resume("x", on_event=heard.append)
    assert again == first
    assert again.forecast is not None
    assert ([type(event) for event in heard], calls(workers)) == ([RunEnded], [1, 1, 1, 1])
    assert (await recorded(journal, "x"), (await journal.runs())[0].state) == (events, "ok")
    changed = Plan((Step(0, "something else"),))
    assert (await conductor(workers, journal).resume("x", plan=changed)).answer == "a said"
    assert len(await recorded(journal, "x")) > len(events)


async def test_a_partial_run_with_nothing_left_to_do_stays_as_recorded() -> None:
    journal, worker, planner = MemoryJournal(), ScriptedWorker("a", "all"), ScriptedWorker("planner", ONE)
    made = Conductor(ChatPlanner(planner), [worker], accept=lambda _, __: "too short", journal=journal)
    first = await made.run("What?", run_id="x", forecast=True)
    assert first.status == "partial"
    events, asked = await recorded(journal, "x"), len(planner.requests)
    assert (await made.resume("x"), len(worker.requests), len(planner.requests)) == (first, 1, asked)
    assert (await recorded(journal, "x"), (await journal.runs())[0].state) == (events, "partial")


async def test_without_a_journal_there_is_nothing_to_resume() -> None:
    with pytest.raises(ConfigError, match="journal"):
        await conductor(team(), None).resume("x")
    with pytest.raises(ConfigError, match="journal"):
        await conductor(team(), None).run("What?", run_id="x")
    with pytest.raises(RunUnknown):
        await conductor(team(), MemoryJournal()).resume("x")


async def test_an_answer_is_for_one_of_several_equal_steps() -> None:
    """Also after it moved to another step, because the plan was changed."""
    same, told = Step(0, "same"), iter("1234")
    workers = [ScriptedWorker("a", lambda _: next(told)), *team()[1:]]
    made = conductor(workers, MemoryJournal())
    plans = (
        Plan((same, same, same, Step(1, "vote", (0, 1, 2)))),
        Plan((Step(2, "new"), same, same, same, Step(1, "vote", (0, 1, 2, 3)))),
        Plan((Step(2, "new"), same, same, same, same, Step(1, "vote", (0, 1, 2, 3, 4)))),
    )
    result = await made.run(plans[0], run_id="x")
    for plan in plans[1:]:
        result = await made.resume("x", plan=plan)
    (last,) = result.rounds
    assert sorted(each.text for each in last.outcomes[:6] if each.worker == "a") == ["1", "2", "3", "4"]
    assert calls(workers) == [4, 3, 1, 0]


def _saying(request: Request) -> str:
    """Return what a worker makes of its inputs; a missing input is a question mark."""
    return f"({' '.join(seen.output or '?' for seen in request.step_input.visible)})"


def _flaky(failing: frozenset[int]) -> list[ScriptedWorker]:
    def reply(request: Request) -> Reply:
        return RuntimeError("down") if request.caller.step in failing else _saying(request)

    return [ScriptedWorker(f"w{n}", reply, latency=n / 64) for n in range(3)]


@given(plans(3, 6, enough=True), st.sampled_from(["skip", "note", "replan", "fail"]), st.data())
def test_no_resume_repeats_a_step_that_was_done(plan: Plan, on_failure: Any, data: st.DataObject) -> None:
    """Whatever failed and was repaired meanwhile; and no answer that was made from a gap is `ok`."""
    steps = st.frozensets(st.integers(0, len(plan.steps) - 1), max_size=3)

    async def body() -> None:
        journal, result = MemoryJournal(), None
        for turn in range(4):
            failing = data.draw(steps, label="failing") if turn < 3 else frozenset[int]()
            workers, before = _flaky(failing), await recorded(journal, "x") if turn else []
            if turn and data.draw(st.booleans(), label="killed"):
                lines = [line async for line in export(journal)]
                lines = lines[: data.draw(st.integers(1, len(lines)), label="length")]
                journal = MemoryJournal.of(lines)
                before = await recorded(journal, "x")
            team = Conductor(FixedPlanner(plan), workers, on_failure=on_failure, journal=journal)
            result = await (team.resume("x", refresh=turn == 3) if turn else team.run("What?", run_id="x"))
            ended = [event for event in before if isinstance(event, StepEnded)]
            done = {(event.round, event.step) for event in ended if event.outcome.status == "ok"}
            requests = [request for worker in workers for request in worker.requests]
            called = {(r.caller.round, r.caller.step) for r in requests if r.caller is not None}
            assert turn == 3 or not called & done
            assert fold(await recorded(journal, "x")).result() == result
            assert result.status != "ok" or "?" not in result.answer
            assert "?" not in result.answer or result.status == "partial"
        assert result is not None
        if on_failure == "note":
            assert result.status == "ok"

    anyio.run(body, backend_options=OPTIONS)


async def test_a_resumed_run_goes_on_in_time_where_it_ended() -> None:
    journal = MemoryJournal()
    second = in_turn("second", WorkerRefused("not now"), Completion("done", uses_tokens=False), latency=2.0)
    workers = [ScriptedWorker("first", "said", latency=2.0), second]
    plan = Plan((Step(0, "one"), Step(1, "two", (0,))))
    conductor = Conductor(FixedPlanner(""), workers, journal=journal)
    result = await conductor.run(plan, run_id="r")
    assert (result.status, result.seconds) == ("failed", 4.0)
    await anyio.sleep(1_000.0)
    result = await conductor.resume("r")
    assert (result.status, result.seconds) == ("ok", 6.0)
    first, second = result.outcomes
    assert (first.started, first.ended, second.started, second.ended) == (0.0, 2.0, 4.0, 6.0)
    assert all(text in result.explain() for text in ("answered after 6.00 s", "4.00 to 6.00 s"))
    times = [event.at for event in await recorded(journal, "r")]
    assert times == sorted(times)
    ended = [event for event in await recorded(journal, "r") if isinstance(event, RunEnded)]
    assert [event.result.seconds for event in ended] == [4.0, 6.0]
    assert fold(await recorded(journal, "r")).result() == result
