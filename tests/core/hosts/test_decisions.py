"""What a run waits for as text, and the text of a person as a decision."""

from contextlib import nullcontext
from typing import Any

import pytest

from podium import Card, Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import QueryError
from podium.hosts.decisions import asked_text, record_decision, waiting_of
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Result
from podium.workers import PersonWorker

pytestmark = pytest.mark.anyio


def conductor_of(*steps: Step, **policy: Any) -> Conductor:
    """Return a conductor of a model, an action and persons."""
    workers = [
        ScriptedWorker("writer", "written"),
        FunctionWorker(lambda step: "refunded", card=Card(name="refund"), acts=True),
        PersonWorker("boss"),
        PersonWorker("clerk", choices=["red", "blue"]),
    ]
    journal = MemoryJournal()
    return Conductor(FixedPlanner(Plan(steps)), workers, policy=Policy(**policy), journal=journal)


@pytest.mark.parametrize(
    ("step", "policy", "told"),
    [
        (Step(0, "Write."), {"approve": "later"}, ["May this plan run?", "0. writer: Write."]),
        (Step(1, "1017"), {"approve": "later", "ask": "actions"}, ["May refund do this? 1017"]),
        (Step(2, "Which?"), {}, ["Which?"]),
        (Step(3, "Which?"), {}, ["Which?", "Choices: red, blue"]),
        (Step(2, "How many?", returns={"type": "integer"}), {}, ["How many?", "Write JSON that fits"]),
        (
            Step(0, "{{item}}", each=("a", "b")),
            {"approve": "later", "ask": "fan-outs", "ask_above": {"calls": 1}},
            ["May step 0 start? 2 items"],
        ),
    ],
)
async def test_what_waits_is_told(step: Step, policy: dict[str, Any], told: list[str]) -> None:
    """With the words that answer it."""
    conductor = conductor_of(step, **policy)
    result = await conductor.run("?")
    (asked,) = await waiting_of(conductor, result.run_id)
    text = asked_text(asked, conductor.pool.names)
    assert all(part in text for part in told)
    assert ("Write `yes`, or `no` and the reason." in text) is (asked.question is None)


@pytest.mark.parametrize(
    ("step", "said", "problem", "status"),
    [
        (Step(0, "Write."), "Yes, please", "", "ok"),
        (Step(0, "Write."), "no: too dear", "", "failed"),
        (Step(0, "Write."), "perhaps", "'perhaps' is neither yes nor no", "waiting"),
        (Step(3, "Which?"), "green", "green", "waiting"),
    ],
)
async def test_a_text_decides(step: Step, said: str, problem: str, status: str) -> None:
    """Or it is told why it does not, and the run still waits."""
    conductor = conductor_of(step, **({} if step.worker == 3 else {"approve": "later"}))
    run_id = (await conductor.run("?")).run_id
    (asked,) = await waiting_of(conductor, run_id)
    with pytest.raises((ValueError, QueryError), match=problem) if problem else nullcontext():
        await record_decision(conductor, asked, said, by="ada")
    result: Result = await conductor.resume(run_id)
    assert result.status == status
    if "too dear" in said:
        assert result.problem is not None
        assert "too dear" in result.problem.message
