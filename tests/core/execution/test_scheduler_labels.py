"""Labels go with what is shown, over steps and rounds, and nothing runs before it was looked at."""

import anyio
import pytest
from core.actors import Actor, answering, boss, plan_of, rows, told
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium.budget import Limits
from podium.conductor import Conductor
from podium.plan_text.writer import KEEP
from podium.policy import ApprovalRequest, Policy, Rule
from podium.types import Event, Plan, PlanReady, Result, Step, StepEnded, StepStarted
from podium.workers import FREE, Card, ScriptedWorker

pytestmark = pytest.mark.anyio

YES = True
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
    """Those of the query, and of every step on the way, with the names of its workers."""
    web, a, b = _web(), Actor("a", answering("A")), Actor("b", answering("B"))
    plan = plan_of((0, "look", ()), (1, "sum up", (0,)), (2, "alone", ()), (2, "join", (1, 2)))
    await Conductor(boss(""), [web, a, b]).run(plan, labels={"confidential"})
    assert _labels(web) == {"confidential"}
    assert _labels(a) == {"confidential", "untrusted", "web"}
    assert _labels(b) == {"confidential", "untrusted", "web", "a", "b"}


async def test_a_step_is_labelled_by_what_it_was_really_shown() -> None:
    """What came too late for a step leaves no label on it."""
    web, quick = _web(), Actor("quick", answering("Q"))
    slow = Actor(web.card, answering("W", latency=9.0))
    last = Actor("last", answering("L"))
    steps = (Step(0, "slow"), Step(1, "quick"), Step(2, "either", (0, 1), 1))
    await Conductor(boss(""), [slow, quick, last]).run(Plan(steps))
    assert _labels(last) == {"quick"}


async def test_what_a_planner_has_read_is_on_all_it_writes() -> None:
    """After an untrusted answer a later round may not give it to a worker that can act, in any words."""
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
    """A plan around a failure is written by who was shown the other outputs."""
    bad = ScriptedWorker("bad", RuntimeError("down"))
    first, second = rows((0, "look", ()), (2, "fails", (0,))), rows((1, "mail", ()))
    mailer = _mailer()
    conductor = Conductor(
        boss(first, second, second),
        [_web(), mailer, bad],
        policy=NEVER,
        on_failure="replan",
    )
    result = await conductor.run("Q?")
    assert not mailer.requests
    assert (result.status, result.answer) == ("failed", "")


async def test_a_judge_may_see_only_what_its_labels_allow() -> None:
    """A check is a call like any other: nobody judges what nobody may see."""
    judge = Actor(Card(name="judge", price=FREE, labels=frozenset({"write-tools"})), answering("NO, worse"))
    conductor = Conductor(boss(rows((0, "look", ()))), [_web()], accept=judge, policy=NEVER)
    result = await conductor.run("Q?")
    assert not judge.requests
    assert (result.answer, result.status) == ("W", "partial")
    assert result.problem is not None
    assert result.problem.code == "not_judged"


def _asked(*verdicts: bool | str | Plan) -> Policy:
    """Return a policy by which somebody answers so, time after time."""
    left = list(verdicts)

    async def approve(request: ApprovalRequest) -> bool | str | Plan:
        await anyio.sleep(1.0)
        return left.pop(0)

    return Policy(approve=approve)


async def _events(conductor: Conductor) -> tuple[list[Event], Result]:
    events: list[Event] = []
    return events, await conductor.run("Q?", on_event=events.append)


async def test_nothing_starts_before_a_plan_is_approved() -> None:
    """Rows that are whole early wait with the rest."""
    text = rows((0, "first", ()), (0, "second", (0,)))
    policy = _asked(YES)
    events, _ = await _events(Conductor(boss(text, piece=10), [ScriptedWorker("a", "A")], policy=policy))
    kinds = [event.type for event in events]
    assert kinds.index("approval_given") < kinds.index("step_started")


async def test_a_changed_plan_is_told_again_and_carried_out() -> None:
    """What was approved runs, and not what was planned."""
    changed = Plan((Step(1, "other"),))
    policy = _asked(changed)
    workers = [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]
    events, result = await _events(Conductor(boss(rows((0, "go", ()))), workers, policy=policy))
    assert [(e.planner, e.plan.steps[0].worker) for e in events if isinstance(e, PlanReady)] == [
        ("boss", 0),
        ("user", 1),
    ]
    assert not workers[0].requests
    assert result.answer == "B"
    assert result.plans == (changed,)


async def test_a_refused_plan_runs_nothing_and_ends_the_run() -> None:
    """Each of its steps is told of as skipped, and no other plan is asked for."""
    planner = boss(rows((0, "go", ())))
    policy = _asked("too dear")
    conductor = Conductor(planner, [ScriptedWorker("a", "A")], policy=policy, limits=Limits(rounds=3))
    events, result = await _events(conductor)
    assert not [event for event in events if isinstance(event, StepStarted)]
    ended = [e.outcome for e in events if isinstance(e, StepEnded)]
    assert [(o.status, o.problem.code if o.problem else "") for o in ended] == [("skipped", "refused")]
    assert result.status == "failed"
    assert result.problem is not None
    assert "too dear" in result.problem.message
    assert len(result.rounds) == 1


async def test_a_later_plan_that_is_refused_leaves_the_answer() -> None:
    """What was paid for stands, and the result says why there is no more."""
    policy = _asked(YES, "no more")
    planner = boss(rows((0, "go", ())), rows((0, "better", ())))
    conductor = Conductor(planner, [ScriptedWorker("a", "A")], policy=policy, limits=Limits(rounds=3))
    _, result = await _events(conductor)
    assert (result.answer, result.status, len(result.rounds)) == ("A", "partial", 2)
    assert result.problem is not None
    assert result.problem.code == "refused"


async def test_a_plan_is_quoted_by_names_once_workers_are_hidden_from_its_planner() -> None:
    """Numbers that mean other workers now would mislead it."""
    plan = rows((1, "look", ()), (2, "draft", (0,)))
    planner = boss(plan, KEEP)
    conductor = Conductor(
        planner, [_mailer(), _web(), Actor("free", answering("F"))], limits=Limits(rounds=2), policy=NEVER
    )
    await conductor.run("Q?")
    assert '"worker": 0, "subtask": "look"' in told(planner, 1)
    assert '"worker": 1, "subtask": "draft"' in told(planner, 1)
    assert "mailer" not in told(planner, 1)
