"""`podium decide` on actions, and what the other commands show of them."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from typer.testing import Result as Ran

from podium import Card, Conductor, FunctionWorker, Plan, Result, Retry, Step
from podium.errors import WorkerTimeout
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import FREE, StepInput

Podium = Callable[..., Ran]
PLAN = Plan((Step(0, "Refund 1017."), Step(0, "Refund 1018."), Step(1, "Answer.", (0, 1))))


@pytest.fixture
def journal(tmp_path: Path, config: Path) -> SqlJournal:
    """Let the config name a journal that the test shares."""
    config.write_text(config.read_text() + f'[journal]\npath = "{tmp_path / "runs.db"}"\n')
    return SqlJournal(tmp_path / "runs.db")


def shop(journal: SqlJournal, refunds: list[str], policy: Policy | None = None) -> Conductor:
    """Return a conductor whose first refund has an unknown end, the first time."""

    async def refund(step: StepInput) -> str:
        refunds.append(step.subtask)
        if step.subtask == "Refund 1017." and refunds.count(step.subtask) == 1:
            raise WorkerTimeout("late", maybe_paid=True)
        return "refunded"

    workers = [
        FunctionWorker(refund, card=Card(name="thinker", price=FREE), acts=True),
        FunctionWorker(lambda step: "text", card=Card(name="speaker", price=FREE)),
    ]
    planner = FixedPlanner(PLAN)
    return Conductor(planner, workers, journal=journal, retry=Retry(attempts=1), policy=policy)


def ran(conductor: Conductor, *, resumed: bool = False) -> Result:
    """Run or resume a run."""

    async def main() -> Result:
        if resumed:
            return await conductor.resume("refunds", refresh=True)
        return await conductor.run("What?", run_id="refunds")

    return anyio.run(main)


def test_an_approval_of_one_action(podium: Podium, journal: SqlJournal) -> None:
    """With changed arguments; the other is refused."""
    refunds = list[str]()
    conductor = shop(journal, refunds, Policy(approve="later", ask="actions"))
    assert ran(conductor).status == "waiting"
    changed = ("--action", "1", "--arguments", "Refund 1020.")
    assert podium("decide", "refunds", "approve", *changed).exit_code == 0
    assert podium("decide", "refunds", "refuse", "--action", "0", "--why", "too much").exit_code == 0
    result = ran(conductor, resumed=True)
    assert (result.status, refunds) == ("partial", ["Refund 1020."])
    assert result.problem is not None
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
    """Each has a reason, and exit code 2."""
    ran(shop(journal, []))
    for words, told in WRONG_DECISIONS:
        result = podium("decide", "refunds", *words)
        assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the journal of a program, in a folder without a config."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("PODIUM_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "program.db"


def test_a_run_of_a_program_needs_no_config(podium: Podium, program: Path) -> None:
    """A person sees the run and decides on it with the journal alone; the program's next call ends it."""
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
    result = ran(conductor)
    assert (result.status, sorted(refunds)) == ("partial", ["Refund 1017.", "Refund 1018."])
    assert "step 0 is an action (!): not known whether it is done" in podium("show", "refunds", *place).stdout
    actions = json.loads(podium("show", "refunds", "--json", *place).stdout)["actions"]
    ends = [(each["asked"], each["end"]) for each in actions]
    assert ends == [("Refund 1017.", "unknown"), ("Refund 1018.", "done")]
    assert podium("decide", "refunds", "done", "--action", "0", *place).exit_code == 0
    assert ran(conductor, resumed=True).status == "ok"
    assert len(refunds) == 2
    assert not list(program.parent.glob("**/podium.toml"))


WRONG_JOURNALS: list[tuple[tuple[str, ...], str]] = [
    (("--journal", "no.db"), "there is no journal no.db"),
    (("--journal", "mysql://h/d"), "needs SQLite or PostgreSQL"),
    (("--journal", "program.db", "--config", "podium.toml"), "name one of them"),
    ((), "no run begins with 'refunds' in"),
]


def test_a_journal_that_is_not_found(podium: Podium, program: Path) -> None:
    """The error names the journal or the option, and nothing is written."""
    ran(shop(SqlJournal(program), [], Policy(approve="later")))
    for words, told in WRONG_JOURNALS:
        refused = podium("decide", "refunds", "approve", *words)
        assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    assert not program.with_name("no.db").exists()
