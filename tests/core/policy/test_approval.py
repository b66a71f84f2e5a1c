"""A plan is looked at before it is carried out: by a function, or later by somebody else."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from core.actors import boss, plan_of, rows

from podium import ChatPlanner, Conductor, Limits, Plan, Result, ScriptedWorker, Step
from podium.errors import ConfigError, PlanError, PlanForbidden
from podium.journal import Journal, MemoryJournal, SqlJournal
from podium.plan_text import Change, edit_plan
from podium.policy import ApprovalRequest, Policy, Rule
from podium.run import decide
from podium.types.references import Condition
from podium.types.steps import Block

pytestmark = pytest.mark.anyio

PLAN = plan_of((0, "find", ()), (1, "tell", (0,)))
ROWS = rows((0, "find", ()), (1, "tell", (0,)))
ANSWER = Step(1, "write", (0,))
TOLD = Step(0, "look", returns={"ok": "boolean"})
OK = Condition("{{0.ok}}", {"is": True})


def pool() -> list[ScriptedWorker]:
    return [ScriptedWorker(name, name) for name in ("search", "writer", "mailer")]


def conductor(approve: Any, workers: list[ScriptedWorker] | None = None, **options: Any) -> Conductor:
    policy = Policy(approve=approve) & options.pop("policy", Policy())
    return Conductor(boss(ROWS), workers or pool(), policy=policy, **options)


async def test_an_approved_plan_is_carried_out() -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    result = await conductor(approve).run("Why?")
    assert (result.status, result.answer) == ("ok", "writer")
    (request,) = asked
    assert (request.run_id, request.round, request.plan) == (result.run_id, 1, PLAN)
    assert request.workers == ("search", "writer", "mailer")
    assert (request.query[-1].text, request.forecast.calls.likely) == ("Why?", 2)


def ended(result: Result) -> tuple[str, str, str]:
    """Return status, code and message of a run with a problem."""
    return result.status, result.problem.code, result.problem.message


async def _no(request: ApprovalRequest) -> str:
    return f"no round {request.round} today"


def _fails(request: ApprovalRequest) -> bool:
    raise RuntimeError(f"nobody is there for {request.round}")


@pytest.mark.parametrize(
    ("approve", "code", "told"),
    [
        (_no, "refused", "the plan of round 1 was refused: no round 1 today"),
        (lambda _: False, "refused", "the plan of round 1 was refused"),
        (_fails, "config", "approve raised RuntimeError: nobody is there"),
        (lambda _: None, "config", "approve returned None"),
    ],
    ids=["async", "False", "raises", "None"],
)
async def test_what_is_not_clearly_a_yes_ends_the_run(approve: Any, code: str, told: str) -> None:
    """Nothing of the plan is started, and no other plan is asked for; also of a plan that was given."""
    for query in ("Why?", PLAN):
        workers = pool()
        result = await conductor(approve, workers, limits=Limits(rounds=3)).run(query)
        status, found, message = ended(result)
        assert (status, found) == ("failed", code)
        assert told in message
        assert not any(worker.requests for worker in workers)
        assert result.plans == (PLAN,)


async def test_a_plan_may_be_changed_while_it_is_approved() -> None:
    workers = pool()
    change = Change(step=1, worker=2, subtask="mail it")
    result = await conductor(lambda asked: edit_plan(asked.plan, change), workers).run("Why?")
    assert (result.answer, result.plans, workers[1].requests) == ("mailer", (edit_plan(PLAN, change),), [])
    assert "Why?" in workers[2].requests[0].messages[-1].text


async def test_a_run_nested_in_another_cannot_wait() -> None:
    worker = ScriptedWorker("inner", "done")
    policy, journal = Policy(approve="later"), MemoryJournal()
    inner = Conductor(boss(rows((0, "x", ()))), [worker], policy=policy, journal=journal)
    status, _, message = ended(await Conductor(boss(rows((0, "go", ()))), [inner]).run("Why?"))
    assert status == "failed"
    assert "a nested run cannot wait" in message
    assert not worker.requests


@dataclass
class Desk:
    """Conductors over one journal, each as in a process of its own."""

    journal: Journal
    policy: Policy = Policy(approve="later")
    workers: list[list[ScriptedWorker]] = field(default_factory=list)

    def conductor(self) -> Conductor:
        """Return a conductor with workers that were never called."""
        self.workers.append(pool())
        return Conductor(boss(ROWS), self.workers[-1], policy=self.policy, journal=self.journal)

    def calls(self) -> list[int]:
        return [sum(len(team[number].requests) for team in self.workers) for number in range(3)]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with SqlJournal(tmp_path / "runs.db") as journal:
        yield Desk(journal)


async def test_a_run_waits_in_its_journal_and_goes_on_when_approved(desk: Desk) -> None:
    waiting = await desk.conductor().run("Why?", run_id="r1")
    assert (waiting.plans, *ended(waiting)[:2]) == ((PLAN,), "waiting", "waiting")
    assert (await desk.conductor().run("Why?", run_id="r1")).status == "waiting"
    assert ((await desk.conductor().resume("r1")).status, desk.calls()) == ("waiting", [0, 0, 0])
    await desk.conductor().decide("r1", approved=True, by="an auditor")
    result = await desk.conductor().resume("r1")
    assert (result.status, result.answer, result.plans, desk.calls()) == ("ok", "writer", (PLAN,), [1, 1, 0])
    assert len(result.proposals) == 1


async def test_a_plan_is_changed_out_of_band(desk: Desk) -> None:
    await desk.conductor().run("Why?", run_id="r1")
    changed = edit_plan(PLAN, Change(step=1, worker=2, subtask="mail it"))
    with pytest.raises(TypeError, match=r"decide does not accept plans \(did you mean plan\?\)"):
        await desk.conductor().decide("r1", approved=True, plans=changed)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="a changed plan is checked by a conductor"):
        await decide(desk.journal, "r1", approved=True, plan=changed)
    await desk.conductor().decide("r1", approved=True, plan=changed)
    result = await desk.conductor().resume("r1")
    assert (result.status, result.answer, result.plans) == ("ok", "mailer", (changed,))
    assert desk.calls() == [1, 0, 1]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (edit_plan(PLAN, Change(step=1, worker=2, subtask="mail it")), "policy"),
        (Plan((Block(steps=(TOLD,), until=OK, most=500), ANSWER)), "bad_block"),
        (Plan((Step(0, "find"), Step(1, "write {{0.nope}}", (0,)))), "bad_reference"),
    ],
)
async def test_a_plan_that_was_changed_out_of_band_must_be_allowed(
    desk: Desk, changed: Any, code: str
) -> None:
    desk.policy &= Policy(denied="mailer")
    await desk.conductor().run("Why?", run_id="r1")
    one = desk.conductor()
    for change in (one.decide("r1", approved=True, plan=changed), one.resume("r1", plan=changed)):
        with pytest.raises(PlanError) as caught:
            await change
        assert caught.value.code == code
    assert (await desk.conductor().resume("r1")).status == "waiting"
    await desk.conductor().decide("r1", approved=True)
    assert (await desk.conductor().resume("r1")).status == "ok"


async def test_the_labels_of_a_run_are_there_when_it_goes_on(desk: Desk) -> None:
    """A plan that was changed meanwhile is checked for its query, and again before it is carried out."""
    known = desk.policy & Policy(labels="confidential")
    desk.policy = strict = known & Policy(rules=[Rule("confidential", never="mailer")])
    await desk.conductor().run("Why?", run_id="r1", labels={"confidential"})
    changed = edit_plan(PLAN, Change(step=1, worker=2, subtask="mail it"))
    with pytest.raises(PlanForbidden):
        await desk.conductor().decide("r1", approved=True, plan=changed)
    desk.policy = known
    await desk.conductor().decide("r1", approved=True, plan=changed)
    desk.policy = strict
    assert (ended(await desk.conductor().resume("r1"))[1], desk.calls()) == ("policy", [0, 0, 0])


async def test_a_plan_that_is_changed_after_it_was_approved_must_be_approved_again(desk: Desk) -> None:
    await desk.conductor().run("Why?", run_id="r1")
    await desk.conductor().decide("r1", approved=True)
    changed = edit_plan(PLAN, Change(step=1, worker=2, subtask="mail it"))
    assert (await desk.conductor().resume("r1", plan=changed)).status == "waiting"
    assert ((await desk.conductor().resume("r1")).status, desk.calls()) == ("waiting", [0, 0, 0])
    await desk.conductor().decide("r1", approved=True)
    assert (await desk.conductor().resume("r1")).answer == "mailer"


async def test_plans_cannot_wait_without_a_journal() -> None:
    later = Policy(approve="later")
    waiting = Conductor(boss(ROWS), pool(), policy=later)
    assert (await waiting.plan("Why?")).steps == PLAN.steps
    for conductor, policy in ((waiting, None), (Conductor(boss(ROWS), pool()), later)):
        with pytest.raises(ConfigError, match="journal"):
            await conductor.run("Why?", policy=policy)


async def test_who_refuses_may_ask_for_another_plan(desk: Desk) -> None:
    """The planner is shown the reason; the next plan waits, too, and repeats nothing that is paid for."""
    mailing = rows((0, "find", ()), (2, "send", (0,)))
    model = ScriptedWorker("boss", lambda asked: mailing if "by mail" in asked.messages[-1].text else ROWS)

    def conductor() -> Conductor:
        desk.conductor()
        return Conductor(ChatPlanner(model), desk.workers[-1], policy=desk.policy, journal=desk.journal)

    await conductor().run("Why?", run_id="r1")
    await conductor().decide("r1", approved=False, again=True, why="Send it by mail.")
    assert ((await conductor().resume("r1")).status, desk.calls()) == ("waiting", [0, 0, 0])
    await conductor().decide("r1", approved=True)
    result = await conductor().resume("r1")
    assert (result.status, result.answer, desk.calls(), len(model.requests)) == ("ok", "mailer", [1, 0, 1], 2)
