"""Rounds, what they are shown of the round before, plans after a failure, and nested conductors."""

from typing import Any

import anyio
import pytest
from core.actors import boss, problem_of, rows, sent, told
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Card, Conductor, Limits, Plan, Retry, RulePlanner, ScriptedWorker, Step
from podium.errors import PlanInvalid, WorkerFailed, WorkerUnavailable
from podium.journal import MemoryJournal
from podium.plan_text.writer import KEEP
from podium.types import Completion
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio

FIRST = rows((0, "first try", ()))
SECOND = rows((0, "second try", ()))
TRIES = {"first try": "one", "second try": "two", "third try": "three"}
INNER = rows((0, "inner", ()))
COLLECT = rows((0, "Collect.", ()), (1, "Check.", ()), (0, "Answer.", (0, 1)))
BETTER = rows((0, "Collect more.", ()), (0, "Answer better.", (0,)))
ONCE = Retry(attempts=1, first_wait=0.01)
SAY = rows((0, "Say A.", ()), (1, "Say B.", (0,)))


def _worker() -> ScriptedWorker:
    return ScriptedWorker("w", {f"Your part:\n{key}": text for key, text in TRIES.items()})


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("model_id = []\nsubtasks = []\naccess_list = []", "The previous answer was kept"),
        (FIRST, "repeats an earlier plan"),
    ],
    ids=["kept", "repeated"],
)
async def test_a_planner_may_keep_the_answer(second: str, told: str) -> None:
    worker = _worker()
    result = await Conductor(boss(FIRST, second), [worker], limits=Limits(rounds=5)).run("Q?")
    assert (result.answer, result.status, len(result.rounds)) == ("one", "ok", 2)
    assert (len(worker.requests), told in result.explain()) == (1, True)


async def test_a_planner_sees_what_its_plan_came_to_and_may_write_another() -> None:
    planner = boss(FIRST, SECOND, KEEP)
    result = await Conductor(planner, [_worker()], limits=Limits(rounds=5)).run("Q?")
    assert (result.answer, len(result.rounds), len(result.plans)) == ("two", 3, 2)
    assert FIRST.strip() in told(planner, 1)
    assert "one" in told(planner, 1).split(FIRST.strip())[1]
    assert told(planner, 2).startswith(told(planner, 1))


async def test_a_planner_that_fails_in_a_later_round_leaves_the_earlier_answer() -> None:
    planner, fallback = boss(FIRST, "no plan"), RulePlanner()
    conductor = Conductor(planner, [_worker()], limits=Limits(rounds=3), fallback_planner=fallback)
    result = await conductor.run("Q?")
    assert (result.answer, result.status, problem_of(result).code) == ("one", "partial", "planner_unusable")
    assert {proposal.planner for proposal in result.proposals} == {"boss"}


async def test_a_refused_answer_begins_a_round_that_is_told_why() -> None:
    async def accept(question: str, answer: str) -> bool | str:
        await anyio.sleep(1.0)
        return "too short" if answer == "one" else True

    planner = boss(FIRST, SECOND)
    result = await Conductor(planner, [_worker()], limits=Limits(rounds=5), accept=accept).run("Q?")
    assert (result.answer, result.status) == ("two", "ok")
    assert "too short" in told(planner, 1)
    assert "because too short" in result.explain()


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("YES", "one"),
        ("yes, fine", "one"),
        ("<think>No doubt about it.</think>\nYES", "one"),
        ("<think>Yes?</think>\nNO, it is wrong", "two"),
        ("**No.** It is wrong", "two"),
        ("NO:\nit is wrong", "two"),
    ],
)
async def test_a_worker_judges_by_its_first_word(reply: str, answer: str) -> None:
    judge = ScriptedWorker("judge", lambda r: reply if "\none\n" in r.messages[-1].text else "YES")
    conductor = Conductor(boss(FIRST, SECOND), [_worker()], limits=Limits(rounds=3), accept=judge)
    result = await conductor.run("Q?")
    assert (result.answer, result.status, result.rounds[0].check.text) == (answer, "ok", reply)
    assert "Q?" in judge.requests[0].messages[-1].text


def _raises(question: str, answer: str) -> bool:
    raise ZeroDivisionError("oops")


@pytest.mark.parametrize(
    ("accept", "told"),
    [
        (_raises, "the answer could not be judged: accept raised ZeroDivisionError: oops"),
        (ScriptedWorker("judge", "Nothing is"), "judge must begin with YES or NO, not 'Nothing is'"),
    ],
)
async def test_a_check_that_fails_leaves_the_answer_and_says_so(accept: Any, told: str) -> None:
    result = await Conductor(boss(FIRST), [_worker()], limits=Limits(rounds=3), accept=accept).run("Q?")
    assert (result.answer, result.status, len(result.rounds)) == ("one", "partial", 1)
    assert problem_of(result).code == "not_judged"
    assert told in problem_of(result).message


def _nested(*workers: object, name: str = "team", text: str = INNER, **options: object) -> Conductor:
    return Conductor(boss(text), list(workers), card=Card(name=name), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("depth", "status"), [(1, "failed"), (2, "failed"), (3, "ok")])
async def test_conductors_nest_no_deeper_than_the_outer_run_says(depth: int, status: str) -> None:
    lowest = _nested(ScriptedWorker("w", "low"), name="lowest", limits=Limits(depth=9))
    middle = _nested(lowest, name="middle", limits=Limits(depth=9))
    result = await _nested(middle, name="outer", limits=Limits(depth=depth)).run("Q?")
    assert result.status == status
    if status == "failed":
        assert "Limits.depth" in result.explain()
        assert result.outcomes[0].cost in (0.0, None)


FOUND = rows((0, "find", ()), (1, "write", (0,)))
ROW = '{"worker": %d, "subtask": "%s", "access": %s}\n'
ANEW = ROW % (0, "find more", "[]") + ROW % (1, "write anew", '["previous", 0]')


def team(writer: Reply | None = None) -> list[ScriptedWorker]:
    facts = {"find more": "FACT TWO", "find": "FACT ONE"}
    texts: dict[str, Reply] = {"part:\nwrite anew": writer or "ANEW TEXT", "part:\nwrite": "FOUND TEXT"}
    return [ScriptedWorker("finder", facts), ScriptedWorker("writer", texts)]


async def test_a_worker_is_shown_all_steps_of_the_round_before() -> None:
    workers, planner = team(), boss(FOUND, ANEW)
    result = await Conductor(planner, workers, limits=Limits(rounds=2)).run("Why?")
    assert (result.status, result.answer) == ("ok", "ANEW TEXT")
    finder, writer = sent(workers[0].requests[1]), sent(workers[1].requests[1])
    assert all(text not in finder for text in ("FACT ONE", "FOUND TEXT"))
    told = ("Step 0 of the round before was given", "FACT ONE", "Step 1 of the round before", "FOUND TEXT")
    places = [writer.index(text) for text in (*told, "Step 0 was given this subtask", "FACT TWO")]
    assert places == sorted(places)
    shown = workers[1].requests[1].step_input
    seen = [(step.step, step.output, step.previous) for step in shown.visible]
    assert seen == [(0, "FACT ONE", True), (1, "FOUND TEXT", True), (0, "FACT TWO", False)]


async def test_in_the_first_round_it_is_an_error() -> None:
    workers, planner = team(), boss(ANEW, FOUND)
    assert problem_of((await Conductor(planner, workers).run("Why?")).proposals[0]).code == "no_previous"
    assert "no previous round" in told(planner, 1)
    assert len(workers[1].requests) == 1
    given = Plan((Step(0, "find", previous=True),))
    with pytest.raises(PlanInvalid, match="no previous round") as caught:
        await Conductor(planner, workers).run(given)
    assert (caught.value.code, caught.value.step) == ("no_previous", 0)


async def test_an_answer_made_of_a_cut_output_of_an_earlier_round_is_partial() -> None:
    better = '{"worker": 1, "subtask": "better it %d", "access": [%s]}'
    for access, status in (('"previous"', "partial"), ("", "ok")):
        cut = ScriptedWorker("finder", Completion("half of it", finish_reason="length"))
        writer = ScriptedWorker("writer", "WHOLE")
        plans = [rows((0, "find", ()), (1, "write", (0,))), better % (1, access), better % (2, access)]
        result = await Conductor(boss(*plans), [cut, writer], limits=Limits(rounds=3)).run("Why?")
        assert (len(result.rounds), result.answer, result.status) == (3, "WHOLE", status)
        if status == "partial":
            assert problem_of(result).code == "cut"
            assert all(text in problem_of(result).message for text in ("round 1: ", "step 0 (finder)"))


def conductor(*plans: Reply, **options: object) -> Conductor:
    workers = [ScriptedWorker("a", "330 m"), ScriptedWorker("b", WorkerUnavailable("down"))]
    return Conductor(boss(*plans), workers, retry=ONCE, on_failure="replan", **options)  # type: ignore[arg-type]  # a test names them right


@pytest.mark.parametrize(
    ("limits", "asked", "status", "told"),
    [
        (Limits(calls=4), [1, 1, 0], "partial", "the rest of the earlier plan need at least 3 calls"),
        (Limits(steps=3), [1, 1, 0], "partial", "the rest of the earlier plan need at least 2 steps"),
        (Limits(calls=6), [1, 1, 0], "partial", "the new plan of round 2 gave no answer"),
        (Limits(calls=7), [1, 1], "ok", ""),
    ],
)
async def test_the_answer_of_the_first_plan_is_not_lost(
    limits: Any, asked: Any, status: str, told: str
) -> None:
    result = await conductor(COLLECT, BETTER, limits=limits).run("How tall?")
    calls = [len(one.proposals) for one in result.rounds]
    assert (calls, result.status, result.answer) == (asked, status, "330 m")
    if told:
        assert all(text in problem_of(result).message for text in (told, "step 1 (b): down"))


@pytest.mark.parametrize("calls", [5, 7, 11])
async def test_early_steps_leave_room_for_a_plan_after_an_unusable_text(calls: int) -> None:
    cut = rows((0, "One.", ()), (0, "Two.", ())) + '{"worker": 9, "subtask": "x", "access": []}\n'
    planner = boss(cut, rows((0, "Three.", ()), (0, "Four.", ()), (0, "Answer.", (0, 1))), piece=20)
    result = await Conductor(planner, [ScriptedWorker("a", "A")], limits=Limits(calls=calls)).run("Why?")
    assert (result.status, result.answer) == ("ok", "A")


async def test_without_an_answer_there_is_nothing_to_keep() -> None:
    planner, journal = boss(SAY, KEEP), MemoryJournal()
    workers = [ScriptedWorker("a", "A"), ScriptedWorker("b", WorkerFailed("no luck"))]
    conductor = Conductor(planner, workers, retry=ONCE, on_failure="replan")
    result = await conductor.run("What?", journal=journal)
    assert (result.status, problem_of(result).code) == ("failed", "planner_unusable")
    assert all(text in problem_of(result).message for text in ("nothing_to_keep", "step 1 (b): no luck"))
    assert [call.role for call in result.proposals] == ["plan", "plan", "repair"]
    assert KEEP not in told(planner, 1)

    able = Conductor(boss(rows((0, "Say C.", ()))), workers, retry=ONCE, on_failure="replan")
    resumed = await able.resume(result.run_id, journal=journal)
    assert (resumed.status, resumed.answer) == ("ok", "A")
