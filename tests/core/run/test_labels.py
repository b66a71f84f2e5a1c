"""Workers and planners read of steps under the numbers that the plan's own text gives them."""

import pytest
from core.actors import boss, told

from podium.conductor import Conductor
from podium.errors import PlanInvalid, WorkerFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text import Move, edit_plan, parse_plan, write_plan
from podium.plan_text.edits import Insert
from podium.types import Plan, Step
from podium.workers import ScriptedWorker

pytestmark = pytest.mark.anyio
NUMBERED = """{"id": 1, "worker": 0, "subtask": "Find the price of copper.", "access": []}
{"id": 2, "worker": 0, "subtask": "Find the price of tin, in the currency of {{1}}.", "access": [1]}
{"id": 5, "worker": 1, "subtask": "Subtract step 2's price from step 1's: {{2}}.", "access": [1, 2]}
"""


async def test_workers_are_shown_the_ids_of_the_plan() -> None:
    copper, sums = ScriptedWorker("search", "12"), ScriptedWorker("sums", "0")
    journal = MemoryJournal()
    conductor = Conductor(boss(NUMBERED), [copper, sums])
    result = await conductor.run("How much?", journal=journal)
    assert result.plans[0].labels == (1, 2, 5)
    text = sums.requests[0].messages[-1].text
    assert "Step 1 was given this subtask" in text
    assert "Step 2 was given this subtask" in text
    assert "Step 0" not in text
    assert "Find the price of tin, in the currency of the output of step 1." in text
    assert "Subtract step 2's price from step 1's: the output of step 2." in text

    replayed = await conductor.run(result.plans[0], journal=journal)
    assert "Step 2 was given this subtask" in sums.requests[1].messages[-1].text
    assert replayed.status == "ok"


def test_labels_survive_writing_and_edits() -> None:
    plan = parse_plan(NUMBERED, workers=2)
    for written in (
        parse_plan(write_plan(plan, "rows"), workers=2),
        parse_plan(write_plan(plan, "json"), workers=2),
        Plan.from_json(plan.to_json()),
    ):
        assert written == plan
        assert written.labels == (1, 2, 5)
    assert write_plan(plan, "rows").startswith(NUMBERED.splitlines()[0])
    assert parse_plan(write_plan(plan, "lists"), workers=2) == plan
    changed = edit_plan(plan, Insert(at=0, step=Step(0, "Look around.")), Move(step=0, to=1))
    assert changed.labels == (1, 6, 2, 5)
    assert changed.steps[2].access == (0,)


@pytest.mark.parametrize("labels", [(1, None), (1, 1)])
def test_labels_that_mislead_are_refused(labels: tuple[int, int | None]) -> None:
    with pytest.raises(PlanInvalid) as caught:
        Plan(tuple(Step(0, "Say it.", label=label) for label in labels))
    assert caught.value.code == "bad_id"


async def test_a_planner_is_told_of_failures_under_its_own_numbers() -> None:
    planner = boss(NUMBERED, '{"worker": 0, "subtask": "Answer.", "access": []}')
    search, broken = ScriptedWorker("search", "12"), ScriptedWorker("sums", WorkerFailed("down"))
    conductor = Conductor(planner, [search, broken], retry=Retry(attempts=1), on_failure="replan")
    result = await conductor.run("How much?")
    assert result.status == "ok"
    feedback = told(planner)
    assert "Step 5 (failed):" in feedback
    assert "Step 1:" in feedback
    assert "Step 0" not in feedback
