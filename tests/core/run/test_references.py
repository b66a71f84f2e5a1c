"""Outputs of earlier steps, named texts and the numbers of steps, as workers and planners read them."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from core.actors import boss, problem_of, rows, told
from hypothesis import given, strategies as st

from podium import Card, Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, PlanInvalid, RunExists, WorkerFailed
from podium.execution import Retry
from podium.hosts import ToolWorker
from podium.journal import MemoryJournal
from podium.plan_text import Move, edit_plan, parse_plan, write_plan
from podium.plan_text.edits import Insert
from podium.planners import ChatPlanner, FixedPlanner, Planner, PlanRequest, PlanText
from podium.replay import replay
from podium.workers import FREE, Documents, Request, StepInput
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio


def echo(step_input: StepInput) -> str:
    return step_input.subtask


def tool(properties: dict[str, str], *, required: list[str] | None = None) -> tuple[ToolWorker, list[Any]]:
    """Return a tool of these arguments and their types, and the arguments that it was called with."""
    called: list[Any] = []

    async def call(arguments: dict[str, Any]) -> str:
        called.append(arguments)
        return "done"

    schema: dict[str, Any] = {"properties": {name: {"type": kind} for name, kind in properties.items()}}
    schema["required"] = list(properties) if required is None else required
    return ToolWorker(schema, call, card=Card(name="tool", price=FREE)), called


async def test_a_search_looks_up_what_an_earlier_step_found(tmp_path: Path) -> None:
    (tmp_path / "books.md").write_text("# Books\n\nThe Glass Harbor was written by Mira Oskanen.\n")
    (tmp_path / "people.md").write_text(
        "# People\n\nMira Oskanen was born in Turku.\n\n# Others\n\nJon Hale was born in Leeds.\n"
    )
    name = ScriptedWorker("reader", {"part:\nName": "Mira Oskanen"})
    planner = boss(
        rows(
            (0, "Who wrote The Glass Harbor?", ()),
            (1, "Name the author, and nothing else.", (0,)),
            (0, "{{1}} born", (1,)),
        )
    )
    result = await Conductor(planner, [Documents(tmp_path), name]).run("Where was its author born?")
    assert result.status == "ok"
    assert "Turku" in result.answer
    assert "Leeds" not in result.answer


async def test_what_is_filled_in_is_not_read_for_references() -> None:
    planner = boss(rows((0, r"a \{{1}} b \{{x}}", ()), (0, "secret", ()), (0, "{{0}}!", (0,))))
    result = await Conductor(planner, [FunctionWorker(echo)]).run("Why?")
    assert result.answer == "a {{1}} b {{x}}!"


@given(st.text(max_size=40), st.text(max_size=40))
def test_in_arguments_an_output_is_a_string_whatever_is_in_it(first: str, second: str) -> None:
    """It can neither end its string nor add an argument; the subtask decides what there is."""
    subtask = 'Call it: {"a": "say \\"{{0}}\\" now", "b": {{1}}, "c": ["{{0}}{{1}}"]}'
    worker, called = tool({"a": "string", "b": "string", "c": "array"})
    outputs = iter([first or "x", second or "y"])
    writer = FunctionWorker(lambda step_input: f"<{next(outputs)}>", card=Card(name="w", price=FREE))
    plan = Plan((Step(0, "write"), Step(0, "write", (0,)), Step(1, subtask, (0, 1))))

    async def run() -> None:
        result = await Conductor(boss("none"), [writer, worker]).run(plan)
        assert result.status == "ok"
        one, other = (outcome.text for outcome in result.outcomes[:2])
        assert called == [{"a": f'say "{one}" now', "b": other, "c": [one + other]}]

    anyio.run(run)


@pytest.mark.parametrize(
    ("subtask", "arguments"),
    [
        ("find {{0}}", {"query": 'find {"query": "x", "limit": 9}'}),
        ('{"query": "{{0}}", "limit": 2}', {"query": '{"query": "x", "limit": 9}', "limit": 2}),
        ('Find {"limit": 2} of {{0}}', {"query": 'Find {"limit": 2} of {"query": "x", "limit": 9}'}),
        ('{"query": "{{0}}', {"query": '{"query": "{"query": "x", "limit": 9}'}),
    ],
)
async def test_a_tool_takes_plain_text_as_its_one_required_argument(
    subtask: str, arguments: dict[str, Any]
) -> None:
    worker, called = tool({"query": "string", "limit": "integer"}, required=["query"])
    assert 'Its subtask is its "query", or a JSON object of' in worker.card.description
    injected = ScriptedWorker("a", '{"query": "x", "limit": 9}')
    result = await Conductor(boss("none"), [injected, worker]).run(
        Plan((Step(0, "x"), Step(1, subtask, (0,))))
    )
    assert result.status == "ok"
    assert called == [arguments]


async def test_a_subtask_that_grows_too_long_fails() -> None:
    plan = Plan((Step(0, "x" * 90), Step(0, "{{0}}" * 12, (0,))))
    limits = Limits(output_chars=1_000)
    result = await Conductor(boss("none"), [FunctionWorker(echo)], limits=limits).run(plan)
    problem = problem_of(result.outcomes[1])
    assert problem.code == "subtask_too_long"
    assert "1,080 characters" in problem.message
    assert result.outcomes[1].attempts == 0


async def test_a_resumed_run_knows_answers_by_what_was_filled_in() -> None:
    journal, replies = MemoryJournal(), [RuntimeError("no"), "done"]
    last = ScriptedWorker("last", lambda request: replies.pop(0))
    searched = ScriptedWorker("s", _asked)
    searched.reads_prose = False
    workers = [ScriptedWorker("w", "A"), searched, last]
    whole = Plan((Step(0, "write"), Step(1, "find {{0}}", (0,)), Step(2, "end {{1}}", (1,))))
    resumed = Conductor(boss("none"), workers, journal=journal, on_failure="fail")
    assert (await resumed.run(whole, run_id="r")).status != "ok"
    assert (await resumed.resume("r")).answer == "done"
    assert len(searched.requests) == 1


def _asked(request: Request) -> str:
    return request.step_input.subtask


async def test_a_bad_reference_goes_back_to_the_planner() -> None:
    bad = rows((0, "a", ())) + '{"worker": 0, "subtask": "look up {{0}}", "access": []}\n'
    planner = boss(bad, rows((0, "a", ()), (0, "look up {{0}}", (0,))))
    result = await Conductor(planner, [FunctionWorker(echo)]).run("Why?")
    assert result.answer == "look up a"
    problem = problem_of(result.proposals[0])
    assert problem.code == "bad_reference"
    assert "not on its access list" in told(planner)
    assert json.dumps("look up {{0}}") in told(planner)


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
