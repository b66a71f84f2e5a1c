"""What the commands show of maps, branches and loops, and decisions on them."""

import json
from collections.abc import Callable

import pytest
from core.actors import ONCE
from core.cli.test_decide import ran, shop
from core.execution.flows import block, call, plan_of, when
from typer.testing import Result as Ran

from podium import Card, Conductor, FunctionWorker
from podium.errors import WorkerTimeout
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Completion
from podium.workers import StepInput

Podium = Callable[..., Ran]
TURN = call("Turn {{previous.note}}", returns={"done": "boolean", "note": "string"})
PLAN = plan_of(
    call("List.", returns={"items": [{"id": "integer", "name": "string"}]}),
    call("Find {{item.name}}", each="{{0.items}}"),
    block(TURN, until=when("{{0.done}}", is_=True), most=5),
    call("Escalate.", when=when("{{0.items.0.id}}", is_=7)),
    call("Sum {{1}} {{2.note}}", 1, 2, 3),
)


def conductor(journal: SqlJournal, items: int) -> Conductor:
    def answer(step: StepInput) -> Completion:
        return Completion(text(step), cost=0.01)

    def text(step: StepInput) -> str:
        if step.subtask == "List.":
            return json.dumps({"items": [{"id": n, "name": f"n{n}"} for n in range(items)]})
        if step.subtask == f"Find n{items - 1}":
            raise WorkerTimeout("nothing there")
        if step.subtask.startswith("Turn"):
            return json.dumps({"done": "xx" in step.subtask, "note": step.subtask[5:] + "x"})
        return step.subtask.lower()

    worker = FunctionWorker(answer, card=Card(name="thinker"))
    return Conductor(FixedPlanner(PLAN), [worker], journal=journal, retry=ONCE)


@pytest.fixture
def shown(podium: Podium, journal: SqlJournal) -> Callable[..., str]:
    def show(*args: str, code: int = 0) -> str:
        result = podium(*args, env={"COLUMNS": "140"})
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    return show


@pytest.mark.long
def test_a_run_is_shown_with_counts(shown: Callable[..., str], journal: SqlJournal) -> None:
    """A map is one row and one line, whatever its size; one step, item or turn can be opened."""
    explained = " ".join(ran(conductor(journal, 30), "flow").explain().split())
    for told in (
        "step 1[29]: nothing there), 30 items: 29 ok, 1 failed; ",
        "Step 2, block, seeing no step: ok, 3 turns; ",
        "Step 3, thinker, seeing no step: skipped (condition: its condition does not hold",
    ):
        assert told in explained
    assert explained.count("1[") == 2
    assert "0 tokens, $0.0300" in explained
    whole = shown("show", "flow")
    for told in (
        "1 thinker 30 of 30 items, 1 failed: Find",
        "2 block turn 3 of 5: ",
        "3 thinker Escalate. (if",
    ):
        assert told in whole
    assert shown("show", "flow", "--outputs").count("--- step") == 4
    assert "1[28] thinker ok $0.0100 find n28 1[29] thinker failed" in shown("show", "flow", "--step", "1")
    assert "2(2).0 thinker ok $0.0100" in shown("show", "flow", "--step", "2")
    assert shown("show", "flow", "--step", "1[3]") == "--- step 1[3] (thinker): ok --- find n3"
    turn = shown("show", "flow", "--step", "2(2)")
    assert turn.startswith("--- step 2(2) --- execution worker status cost output 2(2).0 thinker ok $0.0100")
    assert "2(1).0" not in turn
    assert "has no outcome of step 1[30]" in shown("show", "flow", "--step", "1[30]", code=2)


def test_actions_inside_of_a_map(shown: Callable[..., str], journal: SqlJournal) -> None:
    refunds = list[str]()
    plan = plan_of(call("Refund {{item}}", each=list("abcde")), call("Sum {{0}}", 0, worker=1))
    run = shop(journal, refunds, Policy(approve="later", ask="actions"), plan, late="Refund b")
    assert ran(run, "flow").status == "waiting"
    assert "0 thinker ! 5 wait for approval: Refund {{item}}" in shown("show", "flow")
    shown("decide", "flow", "refuse", "--action", "0[0]", "--why", "too much")
    shown("decide", "flow", "approve")
    result = ran(run, "flow", resumed=True, refresh=False)
    assert "step 0[1]: thinker Refund b: not known whether it is done" in shown("show", "flow")
    assert sorted(refunds) == ["Refund b", "Refund c", "Refund d", "Refund e"]
    assert "podium decide flow --action '0[1]' done|not-done" in result.problem.message
    assert "its end is 'done'" in shown("decide", "flow", "done", "--action", "0[2]", code=2)
    decided = shown("decide", "flow", "not-done", "--action", "0[1]")
    assert "run flow, step 0[1] (thinker: Refund b); continue with `podium resume flow --refresh`" in decided
    result = ran(run, "flow", resumed=True, refresh=False)
    assert refunds.count("Refund b") == 2
    assert [each.name for each in result.outcomes] == ["0", "1", *(f"0[{n}]" for n in range(5))]
