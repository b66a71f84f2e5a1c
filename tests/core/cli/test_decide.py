"""`podium decide` on actions and questions, and what the other commands show of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from core.actors import ONCE
from core.execution.flows import call
from typer.testing import Result as Ran

from podium import Card, Conductor, FunctionWorker, Plan, Result, Step
from podium.errors import WorkerTimeout
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import FREE, StepInput

Podium = Callable[..., Ran]
PLAN = Plan((Step(0, "Refund 1017."), Step(0, "Refund 1018."), Step(1, "Answer.", (0, 1))))


def shop(
    journal: SqlJournal, refunds: Any, policy: Any = None, plan: Plan = PLAN, late: str = "Refund 1017."
) -> Conductor:
    """Return a conductor of whose refunds the late one has an unknown end, the first time."""

    async def refund(step: StepInput) -> str:
        refunds.append(step.subtask)
        if step.subtask == late and refunds.count(step.subtask) == 1:
            raise WorkerTimeout("late", maybe_paid=True)
        return "refunded"

    workers = [
        FunctionWorker(refund, card=Card(name="thinker", price=FREE), acts=True),
        FunctionWorker(lambda step: "text", card=Card(name="speaker", price=FREE)),
    ]
    return Conductor(FixedPlanner(plan), workers, journal=journal, retry=ONCE, policy=policy)


def ran(
    conductor: Conductor, run_id: str = "refunds", *, resumed: bool = False, refresh: bool = True
) -> Result:
    async def main() -> Result:
        if resumed:
            return await conductor.resume(run_id, refresh=refresh)
        return await conductor.run("What?", run_id=run_id)

    return anyio.run(main)


def test_an_approval_of_one_action(podium: Podium, journal: SqlJournal) -> None:
    refunds = list[str]()
    conductor = shop(journal, refunds, Policy(approve="later", ask="actions"))
    assert ran(conductor).status == "waiting"
    changed = ("--action", "1", "--arguments", "Refund 1020.")
    assert podium("decide", "refunds", "approve", *changed).exit_code == 0
    assert podium("decide", "refunds", "refuse", "--action", "0", "--why", "too much").exit_code == 0
    result = ran(conductor, resumed=True)
    assert (result.status, refunds) == ("partial", ["Refund 1020."])
    assert "refused by" in result.problem.message


WRONG_DECISIONS: list[tuple[tuple[str, ...], str]] = [
    (("refuse",), "needs a reason"),
    (("done",), "add --action STEP"),
    (("refuse", "--why", "x", "--arguments", "y"), "--arguments change an approved action"),
    (("approve", "--action", "0", "--step", "0", "--subtask", "x"), "only an approved plan can be changed"),
    (("approve",), "does not wait for a decision"),
    (("not-done", "--action", "2"), "no action whose end a person can decide"),
]


def test_decisions_that_do_not_fit(podium: Podium, journal: SqlJournal) -> None:
    ran(shop(journal, []))
    for words, told in WRONG_DECISIONS:
        result = podium("decide", "refunds", *words)
        assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("PODIUM_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "program.db"


def test_a_run_of_a_program_needs_no_config(podium: Podium, program: Path) -> None:
    place, journal = ("--journal", str(program)), SqlJournal(program)
    refunds = list[str]()
    conductor = shop(journal, refunds, Policy(approve="later", ask="actions"))
    assert ran(conductor).status == "waiting"
    (row,) = json.loads(podium("runs", "--json", *place).stdout)
    assert (row["run_id"], row["state"]) == ("refunds", "waiting")
    assert "step 0 and 1 more wait" in podium("show", "refunds", *place).stdout
    refused = podium("decide", "refunds", "approve", "--step", "0", "--subtask", "x", *place)
    assert (refused.exit_code, "the program that made the run can change it" in refused.stderr) == (2, True)
    decided = podium("decide", "refunds", "approve", *place)
    assert (decided.exit_code, refunds) == (0, [])
    assert "in the program that made the run with the same call" in decided.stderr
    assert (ran(conductor).status, sorted(refunds)) == ("partial", ["Refund 1017.", "Refund 1018."])
    assert "step 0 is an action (!): not known whether it is done" in podium("show", "refunds", *place).stdout
    actions = json.loads(podium("show", "refunds", "--json", *place).stdout)["actions"]
    ends = [(each["asked"], each["end"]) for each in actions]
    assert ends == [("Refund 1017.", "unknown"), ("Refund 1018.", "done")]
    assert podium("decide", "refunds", "done", "--action", "0", *place).exit_code == 0
    assert (ran(conductor, resumed=True).status, len(refunds)) == ("ok", 2)
    assert not list(program.parent.glob("**/podium.toml"))


ASKING = {"steps": [call("Find a date.", worker="thinker"), call("Is the date good?", 0, worker="ann")]}
ANN = """
[workers.ann]
type = "person"
choices = ["yes", "no"]
deadline = 3600.0
otherwise = "no"

[planner]
type = "fixed"
plan = "plan.json"
"""


@pytest.fixture
def person(config: Path) -> None:
    config.write_text(config.read_text().partition("[planner]")[0] + ANN)
    config.with_name("plan.json").write_text(json.dumps(ASKING))


@pytest.mark.usefixtures("person")
def test_a_question_is_answered(podium: Podium) -> None:
    ran = podium("run", "When?", "--run-id", "date")
    assert ran.exit_code == 4
    assert "`podium decide date --answer TEXT --action 1`" in ran.stderr
    shown = podium("show", "date").stdout
    assert "step 1 asks: Is the date good?\n\nStep 0: Find a date.\nforty-two\n" in shown
    assert "the answer is one of: yes, no\nthere is time until " in shown
    assert "answer it with `podium decide date --answer TEXT --action 1`" in shown
    for words, told in (
        (("--answer", "perhaps"), "write one of 'yes', 'no'"),
        (("approve",), "step 1 asks a question"),
        (("approve", "--answer", "yes"), "give a verdict"),
        (("--answer", "yes", "--action", "0"), "does not wait for a decision on step 0"),
    ):
        refused = podium("decide", "date", *words)
        assert (refused.exit_code, told in refused.stderr) == (2, True)
    assert podium("decide", "date", "--answer", "yes", "--by", "ann@office").exit_code == 0
    ran = podium("resume", "date")
    assert (ran.exit_code, ran.stdout) == (0, "yes\n")
    assert "answered by ann@office" in podium("show", "date").stdout
    exported = podium("audit", "export", "date").stdout
    assert '"by":"ann@office"' in exported.replace("\\", "").replace('": ', '":')
    assert podium("audit", "verify", "date").exit_code == 0
