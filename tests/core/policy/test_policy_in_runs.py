"""Policies hold in whole runs: when planning, when a prompt is built, in every round and nested run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from core.actors import boss, plan_of, rows, told
from core.plans import plans
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium import Card, Conductor, Limits, Plan, Retry, RulePlanner, ScriptedWorker
from podium.errors import PlanForbidden, PlannerError, WorkerUnavailable
from podium.plan_text.writer import KEEP
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.types.messages import read_query
from podium.workers import FREE, Request
from podium.workers.simple import Reply

pytestmark = pytest.mark.anyio

NO_MAIL = Rule("untrusted", never="write-tools")
BAD = rows((0, "find", ()), (1, "sum up", (0,)), (2, "mail", (1,)))
GOOD = rows((0, "find", ()), (1, "sum up", (0,)))
NAMES = ("w0", "w1", "w2", "w3")
LABELS = ("red", "green")


def worker(name: str, labels: str = "", reply: Any = None) -> ScriptedWorker:
    """Return a worker that answers with its name, unless told otherwise."""
    card = Card(name=name, price=FREE, labels=frozenset(labels.split()))
    return ScriptedWorker(card, reply if reply is not None else name)


def team() -> list[ScriptedWorker]:
    """Return workers, one of them untrusted and one that can write."""
    return [worker("retriever", "untrusted"), worker("writer"), worker("mailer", "write-tools")]


def calls(workers: Sequence[ScriptedWorker]) -> list[int]:
    return [len(one.requests) for one in workers]


async def test_a_forbidden_plan_is_repaired_by_its_planner() -> None:
    workers, planner = team(), boss(BAD, GOOD, piece=7)
    result = await Conductor(planner, workers, policy=Policy(rules=[NO_MAIL])).run("Why?")
    assert (result.status, result.answer) == ("ok", "writer")
    first, second = result.proposals
    assert first.problem.code == "policy"
    assert second.problem is None
    assert "step 0 (retriever: untrusted) → step 1 (writer) → step 2 (mailer: write-tools)" in told(planner)
    assert calls(workers) == [1, 1, 0]


async def test_nobody_plans_with_workers_who_may_not_work() -> None:
    workers, planner = team(), boss(rows((0, "write", ())))
    result = await Conductor(planner, workers, policy=Policy(denied="untrusted")).run("Why?")
    assert result.answer == "writer"
    assert "retriever" not in told(planner)
    assert calls(workers) == [0, 1, 0]


async def test_a_run_can_be_held_to_more_than_its_conductor() -> None:
    workers = team()
    conductor = Conductor(boss(rows((2, "mail", ())), rows((1, "write", ()))), workers)
    plan = plan_of((2, "mail", ()))
    with pytest.raises(PlanForbidden):
        await conductor.run(plan, policy=Policy(denied="write-tools"))
    assert (await conductor.run(plan)).answer == "mailer"
    strict = Conductor(boss(GOOD), workers, policy=Policy(denied="untrusted"))
    with pytest.raises(PlanForbidden):
        await strict.run(plan_of((0, "find", ())), policy=Policy(steps=3))


async def test_a_planner_that_may_not_see_the_query_is_not_asked() -> None:
    planner, workers = boss(GOOD), [worker("us"), worker("here", "eu")]
    policy = Policy(labels="confidential", rules=[Rule("confidential", only="eu")])
    with pytest.raises(PlannerError, match="confidential"):
        await Conductor(planner, workers, policy=policy).run("Why?", labels={"confidential"})
    conductor = Conductor(planner, workers, policy=policy, fallback_planner=RulePlanner())
    assert (await conductor.run("Why?", labels={"confidential"})).status == "partial"
    assert (calls(workers)[0], planner.worker.requests) == (0, [])
    assert calls(workers)[1] > 0


async def test_what_a_planner_read_is_in_all_it_writes_after() -> None:
    workers = team()
    mail = rows((2, "mail what I read", ()))
    limits = Limits(rounds=2)
    planner = boss(rows((0, "find", ())), mail, mail, KEEP)
    result = await Conductor(planner, workers, limits=limits, policy=Policy(rules=[NO_MAIL])).run("Why?")
    assert (calls(workers), result.answer) == ([1, 0, 0], "retriever")
    workers = team()
    planner = boss(rows((1, "think", ())), mail)
    await Conductor(planner, workers, limits=limits, policy=Policy(rules=[NO_MAIL])).run("Why?")
    assert calls(workers) == [0, 1, 1]


async def test_a_judge_is_held_to_the_rules_too() -> None:
    judge = worker("judge", "write-tools", "YES")
    result = await Conductor(boss(GOOD), team(), accept=judge, policy=Policy(rules=[NO_MAIL])).run("Why?")
    assert not judge.requests
    assert (result.status, result.answer, result.problem.code) == ("partial", "writer", "not_judged")


async def test_labels_go_into_nested_runs_with_what_the_conductor_is_shown() -> None:
    inner_team = [worker("inner mailer", "write-tools"), worker("inner writer")]
    policy = Policy(labels="untrusted", rules=[NO_MAIL])
    inner = Conductor(boss(rows((0, "mail", ())), rows((1, "write", ()))), inner_team, policy=policy)
    workers = [worker("retriever", "untrusted"), inner]
    planner = FixedPlanner(plan_of((0, "find", ()), (1, "use it", (0,))))
    result = await Conductor(planner, workers).run("Why?")
    assert (result.answer, calls(inner_team)) == ("inner writer", [0, 1])


async def test_in_a_nested_run_only_those_work_whom_the_outer_policy_admits() -> None:
    inner_team = [worker("far", "us"), worker("near", "eu")]
    # Its planner has no label, and is not asked.
    inner = Conductor(boss(rows((0, "x", ()))), inner_team, fallback_planner=RulePlanner())
    outer = Conductor(FixedPlanner(plan_of((0, "go", ()))), [inner], policy=Policy(regions=["eu"]))
    assert ((await outer.run("Why?")).answer, calls(inner_team)) == ("near", [0, 1])


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[str], Plan, list[Rule], str]:
    """Draw the labels of four workers, a plan, rules, and a label of the query."""
    word = st.sampled_from(LABELS + NAMES)
    never = st.builds(lambda label, whom: Rule(label, never=whom), word, word)
    only = st.builds(lambda label, whom: Rule(label, only=whom), word, word)
    labels = draw(st.lists(st.sampled_from(["", "red", "green", "red green"]), min_size=4, max_size=4))
    found = draw(st.lists(never | only, min_size=1, max_size=2))
    return labels, draw(plans(4, 6)), found, draw(st.sampled_from(["", "red"]))


@given(scenes(), st.sampled_from(["", "w0 is down"]), st.sampled_from(["given", "planned"]))
def test_no_run_shows_a_worker_what_a_rule_keeps_from_it(scene: Any, down: str, origin: str) -> None:
    """Whatever is planned and whoever stands in: looked up in what each call was really sent.

    Every worker writes what it saw into its answer, with its own name and labels, so that
    an answer tells of all it was made of.
    """
    labels, plan, rules, asked = scene
    own = zip(NAMES, labels, strict=True)
    cards = [Card(name=name, price=FREE, labels=frozenset(each.split())) for name, each in own]

    def act(card: Card) -> Callable[[Request], Reply]:
        def reply(request: Request) -> Reply:
            seen = request.messages[-1].text
            marks = {f"<{mark}>" for mark in (card.name, *card.labels)}
            marks |= {f"<{mark}>" for mark in LABELS + NAMES if f"<{mark}>" in seen}
            return " ".join(sorted(marks))

        return reply

    workers = [ScriptedWorker(card, act(card)) for card in cards]
    if down:
        workers[0] = ScriptedWorker(cards[0], WorkerUnavailable("down"))
    query = f"What? <{asked}>" if asked else "What?"
    policy = Policy(rules=rules, labels=LABELS)
    retry = Retry(attempts=2, first_wait=0.0001, break_after=None, fallbacks={"w0": ("w1", "w2")})
    options: dict[str, Any] = {"limits": Limits(plan_steps=6), "policy": policy, "retry": retry}
    conductor = Conductor(FixedPlanner(plan), workers, **options)
    messages = read_query(query)
    job = replace(plan, query=messages) if origin == "given" else messages
    try:
        anyio.run(partial(conductor.run, job, labels={asked} - {""}), backend_options=OPTIONS)
    except PlanForbidden:
        assert origin == "given"
    except PlannerError:
        assert origin == "planned"
    for one in workers:
        for request in one.requests:
            shown = {mark for mark in LABELS + NAMES if f"<{mark}>" in request.messages[-1].text}
            assert all(rule.allows(one.card, shown) for rule in rules)
