"""Outputs of earlier steps, named texts and the numbers of steps, as workers and planners read them."""

import pytest
from core.actors import boss, in_turn, problem_of, rows, sent, told

from podium import ChatPlanner, Conductor, FunctionWorker, Limits, Plan, Retry, ScriptedWorker, Step
from podium.errors import ConfigError, PlanInvalid, RunExists, WorkerFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.workers import FREE, StepInput

pytestmark = pytest.mark.anyio
NUMBERED = """{"id": 1, "worker": 0, "subtask": "Find the price of copper.", "access": []}
{"id": 2, "worker": 0, "subtask": "Find the price of tin, in the currency of {{1}}.", "access": [1]}
{"id": 5, "worker": 1, "subtask": "Subtract step 2's price from step 1's: {{2}}.", "access": [1, 2]}
"""


def echo(step_input: StepInput) -> str:
    return step_input.subtask


async def test_what_is_filled_in_is_not_read_for_references() -> None:
    planner = boss(rows((0, r"a \{{1}} b \{{x}}", ()), (0, "secret", ()), (0, "{{0}}!", (0,))))
    assert (await Conductor(planner, [FunctionWorker(echo)]).run("Why?")).answer == "a {{1}} b {{x}}!"


async def test_a_subtask_that_grows_too_long_fails() -> None:
    plan = Plan((Step(0, "x" * 90), Step(0, "{{0}}" * 12, (0,))))
    limits = Limits(output_chars=1_000)
    result = await Conductor(boss("none"), [FunctionWorker(echo)], limits=limits).run(plan)
    problem = problem_of(result.outcomes[1])
    assert problem.code == "subtask_too_long"
    assert "1,080 characters" in problem.message
    assert result.outcomes[1].attempts == 0


async def test_workers_are_shown_the_ids_of_the_plan() -> None:
    copper, sums = ScriptedWorker("search", "12"), ScriptedWorker("sums", "0")
    journal = MemoryJournal()
    conductor = Conductor(boss(NUMBERED), [copper, sums])
    result = await conductor.run("How much?", journal=journal)
    assert result.plans[0].labels == (1, 2, 5)
    text = sums.requests[0].messages[-1].text
    assert all(part in text for part in ("Step 1 was given this subtask", "Step 2 was given this subtask"))
    assert "Step 0" not in text
    assert "Find the price of tin, in the currency of the output of step 1." in text
    assert "Subtract step 2's price from step 1's: the output of step 2." in text

    replayed = await conductor.run(result.plans[0], journal=journal)
    assert "Step 2 was given this subtask" in sums.requests[1].messages[-1].text
    assert replayed.status == "ok"


async def test_a_planner_is_told_of_failures_under_its_own_numbers() -> None:
    planner = boss(NUMBERED, '{"worker": 0, "subtask": "Answer.", "access": []}')
    search, broken = ScriptedWorker("search", "12"), ScriptedWorker("sums", WorkerFailed("down"))
    conductor = Conductor(planner, [search, broken], retry=Retry(attempts=1), on_failure="replan")
    assert (await conductor.run("How much?")).status == "ok"
    feedback = told(planner)
    assert all(text in feedback for text in ("Step 5 (failed):", "Step 1:"))
    assert "Step 0" not in feedback


TEXTS = {"contract": "The rent is 900 EUR.", "letter": "I shall move out in May."}
PLAN = Plan(
    (
        Step(0, "Find the rent in {{contract}}."),
        Step(0, "Find the month in {{letter}}."),
        Step(0, "Sum up.", access=(0, 1)),
    )
)


def _prompts(worker: ScriptedWorker) -> list[str]:
    return [sent(request) for request in worker.requests]


async def test_a_step_is_shown_the_texts_that_its_subtask_names_and_no_other() -> None:
    clerk = in_turn("clerk", "900", "May", "900 until May")
    result = await Conductor(FixedPlanner(PLAN), [clerk]).run("What and when?", context=TEXTS)
    assert result.answer == "900 until May"
    first, second, last = _prompts(clerk)
    assert all(text in first for text in (TEXTS["contract"], "Find the rent in the text contract."))
    assert TEXTS["letter"] not in first
    assert TEXTS["letter"] in second
    assert TEXTS["contract"] not in second
    assert not any(text in last for text in TEXTS.values())
    assert "Find the rent in the text contract." in last


async def test_what_reads_no_prose_is_given_the_text_itself() -> None:
    given: list[str] = []

    async def length(step_input: StepInput) -> str:
        given.append(step_input.subtask)
        return str(len(step_input.subtask))

    plan = Plan((Step(0, "{{contract}}"),))
    conductor = Conductor(FixedPlanner(plan), [FunctionWorker(length, price=FREE)])
    await conductor.run("How long?", context=TEXTS)
    assert given == [TEXTS["contract"]]


async def test_the_planner_is_shown_names_and_lengths() -> None:
    row = '{"worker": 0, "subtask": "Read {{contract}}", "access": []}\n'
    chief, clerk = ScriptedWorker("chief", row), ScriptedWorker("clerk", "900")
    conductor = Conductor(ChatPlanner(chief), [clerk])
    await conductor.run("What is the rent?", context=TEXTS)
    await conductor.run("What is the rent?")
    first, second = _prompts(chief)
    assert all(text in first for text in ("- contract (20 characters)", "{{contract}}"))
    assert TEXTS["contract"] not in first
    assert "NAMED TEXTS" not in second
    assert "Read {{contract}}" in _prompts(clerk)[1]  # literal text, where there are no named texts


async def test_a_name_that_no_text_has_is_repaired_by_the_planner_and_refused_in_a_given_plan() -> None:
    rows = [
        '{"worker": 0, "subtask": "Read {{contrct}}", "access": []}\n',
        '{"worker": 0, "subtask": "Fill in \\\\{{contrct}} of {{contract}}", "access": []}\n',
    ]
    chief, clerk = in_turn("chief", *rows), ScriptedWorker("clerk", "900")
    assert (await Conductor(ChatPlanner(chief), [clerk]).run("What?", context=TEXTS)).status == "ok"
    assert "the run has no text {{contrct}}: the texts are contract, letter" in _prompts(chief)[1]
    assert "Fill in {{contrct}} of the text contract" in _prompts(clerk)[0]
    with pytest.raises(PlanInvalid, match=r"no text \{\{lettr\}\}"):
        await Conductor(FixedPlanner(PLAN), [clerk]).run(Plan((Step(0, "{{lettr}}"),)), context=TEXTS)


async def test_a_resumed_run_has_its_texts_and_pays_nothing_twice() -> None:
    journal = MemoryJournal()
    plan = Plan((Step(0, "Find the rent in {{contract}}."), Step(0, "Compare {{letter}}.", (0,))))
    clerk = in_turn("clerk", "900", WorkerFailed("no luck"))
    conductor = Conductor(FixedPlanner(plan), [clerk], journal=journal, on_failure="skip")
    assert (await conductor.run("What and when?", context=TEXTS, run_id="one")).status == "failed"
    whole = ScriptedWorker("clerk", "more")
    again = Conductor(FixedPlanner(plan), [whole], journal=journal)
    assert (await again.resume("one")).status == "ok"
    assert any(TEXTS["letter"] in prompt for prompt in _prompts(whole))
    assert not any(TEXTS["contract"] in prompt for prompt in _prompts(whole))
    with pytest.raises(RunExists, match="context"):
        await again.run("What and when?", context={"contract": "another"}, run_id="one")


@pytest.mark.parametrize("name", ["", "two words", "n" * 65])
async def test_a_name_that_subtasks_cannot_refer_to_is_refused(name: str) -> None:
    clerk = ScriptedWorker("clerk", "900")
    with pytest.raises(ConfigError, match="context has the invalid name"):
        await Conductor(FixedPlanner(PLAN), [clerk]).run("What?", context={name: "text"})
    assert not clerk.requests
