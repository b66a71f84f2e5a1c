"""Rounds and nested conductors, under one limit on depth, steps and time."""

import anyio
import pytest
from core.actors import Actor, boss, never, problem_of, rows, told
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium.budget import Limits
from podium.conductor import Conductor
from podium.plan_text.writer import KEEP
from podium.planners import RulePlanner
from podium.workers import FREE, Card, ScriptedWorker

pytestmark = pytest.mark.anyio

FIRST = rows((0, "first try", ()))
SECOND = rows((0, "second try", ()))
TRIES = {"first try": "one", "second try": "two", "third try": "three"}
EMPTY_LISTS = "model_id = []\nsubtasks = []\naccess_list = []"


def _worker() -> ScriptedWorker:
    return ScriptedWorker("w", {f"Your part:\n{key}": text for key, text in TRIES.items()})


@pytest.mark.parametrize("keep", [KEEP, EMPTY_LISTS])
async def test_a_planner_may_keep_the_answer(keep: str) -> None:
    planner, worker = boss(FIRST, keep), _worker()
    result = await Conductor(planner, [worker], limits=Limits(rounds=5)).run("Q?")
    assert (result.answer, result.status, len(result.rounds)) == ("one", "ok", 2)
    assert len(worker.requests) == 1
    assert "The previous answer was kept" in result.explain()


async def test_a_planner_sees_what_its_plan_came_to_and_may_write_another() -> None:
    planner = boss(FIRST, SECOND, KEEP)
    result = await Conductor(planner, [_worker()], limits=Limits(rounds=5)).run("Q?")
    assert (result.answer, len(result.rounds), len(result.plans)) == ("two", 3, 2)
    assert FIRST.strip() in told(planner, 1)
    assert "one" in told(planner, 1).split(FIRST.strip())[1]
    assert told(planner, 2).startswith(told(planner, 1))


async def test_a_repeated_plan_ends_the_run() -> None:
    worker = _worker()
    result = await Conductor(boss(FIRST), [worker], limits=Limits(rounds=9)).run("Q?")
    assert (result.answer, result.status, len(result.rounds)) == ("one", "ok", 2)
    assert len(worker.requests) == 1
    assert "repeats an earlier plan" in result.explain()


async def test_a_planner_that_fails_in_a_later_round_leaves_the_earlier_answer() -> None:
    conductor = Conductor(
        boss(FIRST, "no plan"), [_worker()], limits=Limits(rounds=3), fallback_planner=RulePlanner()
    )
    result = await conductor.run("Q?")
    assert (result.answer, result.status) == ("one", "partial")
    assert problem_of(result).code == "planner_unusable"
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


async def test_an_answer_never_accepted_is_partial() -> None:
    conductor = Conductor(
        boss(FIRST, SECOND), [_worker()], limits=Limits(rounds=2), accept=lambda q, a: False
    )
    result = await conductor.run("Q?")
    assert (result.answer, result.status) == ("two", "partial")
    assert problem_of(result).code == "not_accepted"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("YES", "one"),
        ("yes, fine", "one"),
        ("<think>No doubt about it.</think>\nYES", "one"),
        ("<think>Yes?</think>\nNO, it is wrong", "two"),
        ("NO it is wrong", "two"),
        ("**No.** It is wrong", "two"),
        ("no", "two"),
        ("NO:\nit is wrong", "two"),
    ],
)
async def test_a_worker_judges_by_its_first_word(reply: str, answer: str) -> None:
    judge = ScriptedWorker("judge", lambda r: reply if "\none\n" in r.messages[-1].text else "YES")
    conductor = Conductor(boss(FIRST, SECOND), [_worker()], limits=Limits(rounds=3), accept=judge)
    result = await conductor.run("Q?")
    assert (result.answer, result.status) == (answer, "ok")
    assert result.rounds[0].check.text == reply
    assert "Q?" in judge.requests[0].messages[-1].text


async def test_a_check_that_raises_leaves_the_answer_and_says_so() -> None:
    def accept(question: str, answer: str) -> bool:
        raise ZeroDivisionError("oops")

    result = await Conductor(boss(FIRST), [_worker()], limits=Limits(rounds=3), accept=accept).run("Q?")
    assert (result.answer, result.status, len(result.rounds)) == ("one", "partial", 1)
    assert (
        problem_of(result).message == "the answer could not be judged: accept raised ZeroDivisionError: oops"
    )


def _nested(
    *workers: object, name: str = "team", text: str = rows((0, "inner", ())), **options: object
) -> Conductor:
    return Conductor(boss(text), list(workers), card=Card(name=name), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("depth", "status"), [(1, "failed"), (2, "failed"), (3, "ok")])
async def test_conductors_nest_no_deeper_than_the_outer_run_says(depth: int, status: str) -> None:
    lowest = _nested(ScriptedWorker("w", "low"), name="lowest", limits=Limits(depth=9))
    outer = _nested(
        _nested(lowest, name="middle", limits=Limits(depth=9)), name="outer", limits=Limits(depth=depth)
    )
    result = await outer.run("Q?")
    assert result.status == status
    if status == "failed":
        assert "Limits.depth" in result.explain()
        assert result.outcomes[0].cost in (0.0, None)


async def test_a_judge_who_says_neither_yes_nor_no_has_not_judged() -> None:
    judge = ScriptedWorker("judge", "Nothing is missing")
    result = await Conductor(boss(FIRST), [_worker()], limits=Limits(rounds=3), accept=judge).run("Q?")
    assert (result.answer, result.status) == ("one", "partial")
    assert problem_of(result).code == "not_judged"
    assert "judge must begin with YES or NO, not 'Nothing is missing'" in problem_of(result).message


async def test_a_cancel_reaches_the_innermost_worker() -> None:
    worker = Actor(Card(name="w", price=FREE), never)
    lowest = _nested(worker, name="lowest")
    outer = _nested(_nested(lowest, name="middle"), name="outer", limits=Limits(depth=3))
    with anyio.move_on_after(5.0):
        await outer.run("Q?")
    assert (len(worker.requests), worker.stopped, worker.running) == (1, 1, 0)


async def test_a_judge_that_fails_lets_the_answer_pass_and_is_told_of() -> None:
    judge = ScriptedWorker("judge", RuntimeError("down"))
    result = await Conductor(boss(FIRST), [_worker()], limits=Limits(rounds=3), accept=judge).run("Q?")
    assert (result.answer, result.status) == ("one", "partial")
    assert problem_of(result).code == "not_judged"
    assert "judge judged the answer: worker_failed" in result.explain()


async def test_a_judge_out_of_time_is_still_counted() -> None:
    judge = Actor("judge", never)
    result = await Conductor(boss(FIRST), [_worker()], limits=Limits(seconds=5), accept=judge).run("Q?")
    assert (result.answer, result.status, judge.stopped) == ("one", "partial", 1)
    assert result.usage_by_worker["judge"].estimated
