"""Labels go with what is shown, over steps and rounds, and nothing runs before it was looked at."""

import pytest
from core.actors import Actor, answering, boss, plan_of, problem_of, rows, told
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium.budget import Limits
from podium.conductor import Conductor
from podium.plan_text.writer import KEEP
from podium.policy import Policy, Rule
from podium.types import Plan, Step
from podium.workers import FREE, Card, ScriptedWorker

pytestmark = pytest.mark.anyio

NEVER = Policy(rules=[Rule("untrusted", never="write-tools")])


def _web() -> Actor:
    return Actor(Card(name="web", price=FREE, labels=frozenset({"untrusted"})), answering("W"))


def _mailer() -> Actor:
    return Actor(Card(name="mailer", price=FREE, labels=frozenset({"write-tools"})), answering("SENT"))


def _labels(worker: Actor) -> frozenset[str]:
    caller = worker.requests[-1].caller
    assert caller is not None
    return caller.labels


async def test_a_call_carries_the_labels_of_all_it_is_shown() -> None:
    web, a, b = _web(), Actor("a", answering("A")), Actor("b", answering("B"))
    plan = plan_of((0, "look", ()), (1, "sum up", (0,)), (2, "alone", ()), (2, "join", (1, 2)))
    await Conductor(boss(""), [web, a, b]).run(plan, labels={"confidential"})
    assert _labels(web) == {"confidential"}
    assert _labels(a) == {"confidential", "untrusted", "web"}
    assert _labels(b) == {"confidential", "untrusted", "web", "a", "b"}


async def test_a_step_is_labelled_by_what_it_was_really_shown() -> None:
    web, quick = _web(), Actor("quick", answering("Q"))
    slow = Actor(web.card, answering("W", latency=9.0))
    last = Actor("last", answering("L"))
    steps = (Step(0, "slow"), Step(1, "quick"), Step(2, "either", (0, 1), 1))
    await Conductor(boss(""), [slow, quick, last]).run(Plan(steps))
    assert _labels(last) == {"quick"}


async def test_what_a_planner_has_read_is_on_all_it_writes() -> None:
    planner = boss(rows((0, "look", ())), rows((1, "mail what it said", ())), KEEP)
    mailer = _mailer()
    conductor = Conductor(planner, [_web(), mailer], limits=Limits(rounds=2), policy=NEVER)
    result = await conductor.run("Q?")
    assert not mailer.requests
    assert result.answer == "W"
    free = Conductor(
        boss(rows((0, "look", ())), rows((1, "mail", ()))), [_web(), mailer], limits=Limits(rounds=2)
    )
    await free.run("Q?")
    assert _labels(mailer) == {"untrusted", "web"}


async def test_so_is_what_it_has_read_of_steps_that_failed() -> None:
    bad = ScriptedWorker("bad", RuntimeError("down"))
    first, second = rows((0, "look", ()), (2, "fails", (0,))), rows((1, "mail", ()))
    mailer = _mailer()
    conductor = Conductor(
        boss(first, second, second), [_web(), mailer, bad], policy=NEVER, on_failure="replan"
    )
    result = await conductor.run("Q?")
    assert not mailer.requests
    assert (result.status, result.answer) == ("failed", "")


async def test_a_judge_may_see_only_what_its_labels_allow() -> None:
    judge = Actor(Card(name="judge", price=FREE, labels=frozenset({"write-tools"})), answering("NO, worse"))
    conductor = Conductor(boss(rows((0, "look", ()))), [_web()], accept=judge, policy=NEVER)
    result = await conductor.run("Q?")
    assert not judge.requests
    assert (result.answer, result.status) == ("W", "partial")
    assert problem_of(result).code == "not_judged"


async def test_a_plan_is_quoted_by_names_once_workers_are_hidden_from_its_planner() -> None:
    plan = rows((1, "look", ()), (2, "draft", (0,)))
    planner = boss(plan, KEEP)
    conductor = Conductor(
        planner, [_mailer(), _web(), Actor("free", answering("F"))], limits=Limits(rounds=2), policy=NEVER
    )
    await conductor.run("Q?")
    assert '"worker": 0, "subtask": "look"' in told(planner, 1)
    assert '"worker": 1, "subtask": "draft"' in told(planner, 1)
    assert "mailer" not in told(planner, 1)
