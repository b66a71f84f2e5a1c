"""Named texts of a run: workers are shown those whose names stand in their subtask."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from podium import Card, Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, PlanInvalid, RunExists, WorkerFailed
from podium.hosts import ToolWorker
from podium.journal import MemoryJournal
from podium.planners import ChatPlanner, FixedPlanner, Planner, PlanRequest, PlanText
from podium.replay import replay
from podium.workers import FREE, StepInput
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio

TEXTS = {"contract": "The rent is 900 EUR.", "letter": "I shall move out in May."}
PLAN = Plan(
    (
        Step(0, "Find the rent in {{contract}}."),
        Step(0, "Find the month in {{letter}}."),
        Step(0, "Sum up.", access=(0, 1)),
    )
)


def _clerk(*replies: str | WorkerFailed, name: str | Card = "clerk") -> ScriptedWorker:
    """Return a worker that gives the replies in this order."""
    left = iter(replies)
    return ScriptedWorker(name, lambda request: next(left))


def _prompts(worker: ScriptedWorker) -> list[str]:
    return ["\n".join(message.text for message in request.messages) for request in worker.requests]


async def test_a_step_is_shown_the_texts_that_its_subtask_names_and_no_other() -> None:
    clerk = _clerk("900", "May", "900 until May")
    result = await Conductor(FixedPlanner(PLAN), [clerk]).run("What and when?", context=TEXTS)
    assert result.answer == "900 until May"
    first, second, last = _prompts(clerk)
    assert TEXTS["contract"] in first
    assert "Find the rent in the text contract." in first
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

    conductor = Conductor(
        FixedPlanner(Plan((Step(0, "{{contract}}"),))), [FunctionWorker(length, price=FREE)]
    )
    await conductor.run("How long?", context=TEXTS)
    assert given == [TEXTS["contract"]]

    async def call(arguments: dict[str, Any]) -> str:
        given.append(arguments["text"])
        return "read"

    schema = {"properties": {"text": {"type": "string"}, "page": {"type": "integer"}}}
    tool = ToolWorker(schema, call, card=Card(name="tool", price=FREE))
    plan = Plan((Step(0, '{"text": {{note}}, "page": 1}'),))
    note = 'a "quoted", "page": 2} text'
    await Conductor(FixedPlanner(plan), [tool]).run("Read it", context={"note": note})
    assert given[1] == note


async def test_the_planner_is_shown_names_and_lengths() -> None:
    row = '{"worker": 0, "subtask": "Read {{contract}}", "access": []}\n'
    chief, clerk = ScriptedWorker("chief", row), ScriptedWorker("clerk", "900")
    conductor = Conductor(ChatPlanner(chief), [clerk])
    await conductor.run("What is the rent?", context=TEXTS)
    await conductor.run("What is the rent?")
    first, second = _prompts(chief)
    assert "- contract (20 characters)" in first
    assert "{{contract}}" in first
    assert TEXTS["contract"] not in first
    assert "NAMED TEXTS" not in second
    assert "Read {{contract}}" in _prompts(clerk)[1]  # literal text, where there are no named texts


async def test_a_name_that_no_text_has_is_repaired_by_the_planner_and_refused_in_a_given_plan() -> None:
    rows = [
        '{"worker": 0, "subtask": "Read {{contrct}}", "access": []}\n',
        '{"worker": 0, "subtask": "Fill in \\\\{{contrct}} of {{contract}}", "access": []}\n',
    ]
    chief, clerk = _clerk(*rows, name="chief"), ScriptedWorker("clerk", "900")
    result = await Conductor(ChatPlanner(chief), [clerk]).run("What?", context=TEXTS)
    assert result.status == "ok"
    assert "the run has no text {{contrct}}: the texts are contract, letter" in _prompts(chief)[1]
    assert "Fill in {{contrct}} of the text contract" in _prompts(clerk)[0]
    with pytest.raises(PlanInvalid, match=r"no text \{\{lettr\}\}"):
        await Conductor(FixedPlanner(PLAN), [clerk]).run(Plan((Step(0, "{{lettr}}"),)), context=TEXTS)


async def test_a_resumed_run_has_its_texts_and_pays_nothing_twice() -> None:
    journal = MemoryJournal()
    plan = Plan((Step(0, "Find the rent in {{contract}}."), Step(0, "Compare {{letter}}.", (0,))))
    clerk = _clerk("900", WorkerFailed("no luck"))
    conductor = Conductor(FixedPlanner(plan), [clerk], journal=journal, on_failure="skip")
    failed = await conductor.run("What and when?", context=TEXTS, run_id="one")
    assert failed.status == "failed"
    whole = ScriptedWorker("clerk", "more")
    again = Conductor(FixedPlanner(plan), [whole], journal=journal)
    result = await again.resume("one")
    assert result.status == "ok"
    assert any(TEXTS["letter"] in prompt for prompt in _prompts(whole))
    assert not any(TEXTS["contract"] in prompt for prompt in _prompts(whole))
    with pytest.raises(RunExists, match="context"):
        await again.run("What and when?", context={"contract": "another"}, run_id="one")
    last = ScriptedWorker("clerk", "other")
    events = [entry.event for entry in await journal.read("one")]
    changed = Plan((plan.steps[0], Step(0, "Compare it with {{letter}}.", (0,))))
    replayed = await replay(Conductor(FixedPlanner(plan), [last]), events, plan=changed)
    assert replayed.answer == "other"
    assert [TEXTS["letter"] in prompt for prompt in _prompts(last)] == [True]


@pytest.mark.parametrize("name", ["", "two words", "1st", "step_1", "output 2", "n" * 65])
async def test_a_name_that_subtasks_cannot_refer_to_is_refused(name: str) -> None:
    clerk = ScriptedWorker("clerk", "900")
    with pytest.raises(ConfigError, match="context has the invalid name"):
        await Conductor(FixedPlanner(PLAN), [clerk]).run("What?", context={name: "text"})
    assert not clerk.requests


async def test_a_conductor_as_a_worker_gives_the_texts_on_by_name() -> None:

    class Chief(Planner):
        name = "chief"

        async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
            asked.append(request)
            rows = ["Read {{contract}}", "Wait"]
            text = "".join(
                json.dumps({"worker": 0, "subtask": row, "access": [0] * number}) + "\n"
                for number, row in enumerate(rows)
            )
            yield PlanText(text=text, cost=0.0)

    asked: list[PlanRequest] = []
    clerk = ScriptedWorker("clerk", "900")
    inner = Conductor(Chief(), [clerk], card=Card(name="team"))
    outer = Conductor(FixedPlanner(Plan((Step(0, "Read {{contract}}"),))), [inner], limits=Limits(depth=2))
    await outer.run("What?", context=TEXTS)
    assert asked[0].context == (("contract", 20),)
    assert TEXTS["contract"] not in asked[0].query[-1].text
    assert [TEXTS["contract"] in prompt for prompt in _prompts(clerk)] == [True, False]


async def test_a_text_is_text() -> None:
    conductor = Conductor(FixedPlanner(PLAN), [ScriptedWorker("clerk", "900")])
    with pytest.raises(ConfigError, match=r"context\['contract'\] is a list"):
        await conductor.run("What?", context={"contract": ["a"]})  # type: ignore[dict-item]
