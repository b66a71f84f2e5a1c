"""Plans in the forms of other planners: tasks with dependencies, tool calls, numbered calls."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podium import Plan, PlanReader, Step, parse_plan
from podium.errors import PlanError, PlanInvalid, PlanSyntaxError
from tests.core.plan_text.test_parser_properties import plans

WORKERS = ["search", "math", "writer"]
ROW = '{"worker": 0, "subtask": "a", "access": []}'
SAVED = '{"plan": "x", "args": {}}'
BLOCK = f'{{"steps": [{ROW}], "access": []}}'


def item(**fields: Any) -> dict[str, Any]:
    """Return a task; an underscore at the end of a key is left out."""
    return {key.rstrip("_"): value for key, value in fields.items()}


FIND = item(id="find", agent="search", task="Find it.", depends_on=[])
ADD = item(id="add", agent="Math", task="Add {{find}}.", depends_on=["find"])
TELL = item(id="tell", agent="writer", task="Tell it.", depends_on=["find", "add"])
NUMBERED = [item(worker="search", subtask="Find it.", depends_on=[]), item(worker=1, subtask="Add {{0}}.")]
NUMBERED += [item(worker="writer", subtask="Tell it.", depends_on=[0, 1])]
PLAN = Plan((Step(0, "Find it."), Step(1, "Add {{0}}.", (0,)), Step(2, "Tell it.", (0, 1))))
TITLED = [
    item(title="Find", description="Find it.", assignee="search"),
    item(title="Add up", description="Add {{Find}}.", assignee="math", dependsOn=["Find"]),
    item(title="Tell", description="Tell it.", assignee="writer", dependsOn=["find", "ADD UP"]),
]


@pytest.mark.parametrize(
    "text",
    [
        *(json.dumps({key: [FIND, ADD, TELL]}) for key in ("steps", "tasks", "plan", "todo")),
        f"Here it is:\n```json\n{json.dumps([FIND, ADD, TELL])}\n```\nThe last task answers.",
        "".join(json.dumps(task) + "\n" for task in (FIND, ADD, TELL)),
        json.dumps(TITLED),
        f"<think>{json.dumps([FIND])}</think>{json.dumps([FIND, ADD, TELL])}",
        json.dumps(NUMBERED),
        """Thought: [search] first, {then} the rest.
1. search("Find it.")
Thought: now math
2. math("Add $1.")
3. writer("Tell it.", ["$1", "${2}"])
4. join()<END_OF_PLAN>
""",
        "1. search('Find it.')\n2) math(text=\"Add ${1}.\")  # add\n3. writer('Tell it.', $1, $2)\n",
    ],
)
def test_every_form_gives_the_same_plan(text: str) -> None:
    assert parse_plan(text, workers=WORKERS) == PLAN
    reader = PlanReader(workers=WORKERS)
    assert not [step for char in text for step in reader.feed(char)]
    assert reader.close() == PLAN


@pytest.mark.parametrize(
    ("calls", "subtask"),
    [
        ([item(name="search", arguments={"query": "Egg."})], "Egg."),
        ([item(name="search", arguments={"most": 3})], '{"most":3}'),
        ([item(name="search", arguments={})], "{}"),
        ([item(tool="search", input="Egg.")], "Egg."),
        ([item(id="call_1", type="function", function=item(name="search", arguments='{"q": "A"}'))], "A"),
        ([item(type="tool_use", id="toolu_1", name="search", input={"q": "Egg."})], "Egg."),
    ],
)
def test_tool_calls(calls: list[dict[str, Any]], subtask: str) -> None:
    for text in (json.dumps(calls), json.dumps({"role": "assistant", "content": None, "tool_calls": calls})):
        assert parse_plan(text, workers=WORKERS) == Plan((Step(0, subtask),))


def test_numbers_stay_the_ids_of_steps() -> None:
    tasks = [
        item(id="task_7", agent="search", task="Find.", returns={"names": ["string"]}),
        item(id="task_3", agent="math", each="{{7.names}}", task="Count {{item}}.", depends_on=[]),
    ]
    plan = parse_plan(json.dumps(tasks), workers=WORKERS)
    assert ([step.label for step in plan.steps], plan.steps[1].each) == ([7, 3], "{{0.names}}")
    numbered = parse_plan('0. search("a")\n1. math("$0")', workers=WORKERS)
    assert [step.label for step in numbered.steps] == [0, 1]


def test_notes_tell_the_form() -> None:
    assert parse_plan(json.dumps([TELL, ADD, FIND]), workers=WORKERS).notes == (
        "the steps are objects with agent, task, depends_on",
        "'find' is step 0, 'add' is step 1, 'tell' is step 2",
    )
    calls = [item(name="search", arguments={"q": "a"}), item(name="search", arguments={"q": "b"})]
    assert parse_plan(json.dumps(calls), workers=WORKERS).notes == (
        "the steps are objects with name, arguments",
        "the answer does not use the output of 0",
    )
    assert parse_plan('1. search("It costs $9 or $1,000.")', workers=WORKERS).notes == (
        "the steps are numbered calls",
        "step 0 has $9, which is not the number of a call and stays text",
    )
    odd = parse_plan(json.dumps([{**FIND, "priority": "high"}]), workers=WORKERS)
    assert "step 0 has the unknown key 'priority', which was ignored" in odd.notes


@pytest.mark.parametrize(
    ("text", "code", "told", "at"),
    [
        ([{**FIND, "depends_on": ["tell"]}, ADD, TELL], "forward_access", "'find' depends on 't", '{"id"'),
        ([FIND, {**ADD, "depends_on": ["fin"]}], "bad_access", "is not a step: write 'find', 'add'", '"fin"'),
        ([FIND, {**ADD, "when": {"ref": "{{0.a}}", "is": 1}}], "bad_id", "write numbers as ids", '{"ref"'),
        ([FIND, {**ADD, "depends_on": []}], "bad_reference", "refers to 'find', and does not", '"Add {{'),
        ([{**FIND, "description": "More."}], "duplicate_field", "another key for its subtask", '"More."'),
        ([{**FIND, "task": 3}], "bad_subtask", "is not text", "3, "),
        ([item(name="search", arguments='{"q": ')], "bad_subtask", "arguments that are not JSON", '"{\\"q'),
        ('{"tasks": [' + json.dumps(FIND) + ", ", "truncated", "the text ends inside the plan", ""),
        ('1. search("a")\n3. math("b")', "bad_value", "calls are missing or cannot be read", "1. search"),
        ('1. search("a")\n1. search("b")', "bad_id", "has the id 1 of step 0", '1. search("b")'),
        ('1. search(q="a", q="b")', "duplicate_key", "has the argument 'q' twice", 'q="b"'),
        ('1. join()\n2. search("a")', "bad_value", "call 2 is after join()", "2. search"),
        ([item(id="a", task="t"), FIND], "missing_field", "no worker: write it under 'agent'", '{"id"'),
        (json.dumps([FIND]) + json.dumps([ADD]), "two_plans", "in several lists or forms", ""),
        ('1. search("a $2")\n2. search("b $1")', "forward_access", "1 depends on 2 depends on 1", "1."),
        ('1. search("a")\n2. math("b", $1, $3)', "bad_access", "refers to $3", '"b"'),
        ('1. search("a", 3)', "bad_subtask", 'write each with its name, as in query="…"', '"a"'),
        ("1. search(two eggs)", "bad_value", "write each text in one pair of quotes", "eggs)"),
    ],
)
def test_errors_have_a_position_and_a_remedy(text: Any, code: str, told: str, at: str) -> None:
    text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    with pytest.raises(PlanError) as caught:
        parse_plan(text, workers=WORKERS)
    error = caught.value
    assert isinstance(error, PlanSyntaxError | PlanInvalid)
    assert error.code == code
    assert told in str(error)
    assert error.position == (text.index(at) if at else len(text))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(item(name="search", arguments={"query": "a"})),
        json.dumps([item(type="function", function=item(name="search", description="Finds."))]),
        'I would ask {"agent": "search", "task": "a"} for it.',
    ],
)
def test_other_texts_are_no_plans(text: str) -> None:
    with pytest.raises(PlanSyntaxError) as caught:
        parse_plan(text, workers=WORKERS)
    assert caught.value.code == "no_plan"


@pytest.mark.parametrize("other", [json.dumps([FIND]), '1. search("a")'])
@pytest.mark.parametrize(("own", "between"), [(ROW, "\n"), (SAVED, "\n]\n"), (BLOCK, "\nOr:\n")])
def test_a_step_in_another_form_is_not_left_out(own: str, other: str, between: str) -> None:
    assert parse_plan(own, workers=WORKERS).steps
    for first, second in ((own, other), (other, own)):
        text = first + between + second
        for strict in (False, True):
            with pytest.raises(PlanSyntaxError) as caught:
                parse_plan(text, workers=WORKERS, strict=strict)
            assert caught.value.code == "two_plans"
            assert text[caught.value.position :].startswith(other[:3].lstrip("[")[:1])
    assert parse_plan(f"<think>{other}</think>\n{own}", workers=WORKERS) == parse_plan(own, workers=WORKERS)


@st.composite
def joined(draw: st.DrawFn) -> Plan:
    """Plans of the forms: without the round before and `enough`, and the last step uses all."""
    steps = [Step(step.worker, step.subtask.replace("$", "€"), step.access) for step in draw(plans()).steps]
    if not steps:
        return Plan((Step(0, "a"),))
    own = {*range(len(steps) - 1)} - {seen for step in steps for seen in step.access} | {*steps[-1].access}
    steps[-1] = Step(steps[-1].worker, steps[-1].subtask, tuple(own))
    return Plan(tuple(steps))


@given(st.data(), joined())
def test_tasks_in_any_order(data: st.DataObject, plan: Plan) -> None:
    size = len(plan.steps)
    name = st.text("abcxyz_ é", min_size=1, max_size=8).map("t {}".format).map(str.strip)
    numbers = st.lists(st.integers(0, 99), min_size=size, max_size=size, unique=True)
    ids: Any = st.lists(name, min_size=size, max_size=size, unique_by=str.casefold) | numbers
    own = data.draw(ids)
    keys = data.draw(st.sampled_from(["id agent task depends_on", "title assignee description dependsOn"]))
    named, agent, task, deps = keys.split()
    rows = [
        {named: own[at], agent: WORKERS[step.worker], task: step.subtask, deps: [own[n] for n in step.access]}
        for at, step in enumerate(plan.steps)
    ]
    assert parse_plan(json.dumps(rows, ensure_ascii=False), workers=WORKERS) == plan
    shuffled = data.draw(st.permutations(range(size)))
    found = parse_plan(json.dumps([rows[at] for at in shuffled]), workers=WORKERS)
    subtasks = [step.subtask for step in found.steps]
    order = sorted(range(size), key=lambda at: subtasks.index(plan.steps[at].subtask))
    if len({step.subtask for step in plan.steps}) == size:
        for place, at in enumerate(order):
            assert {order[seen] for seen in found.steps[place].access} == {*plan.steps[at].access}
    assert found.steps[-1].subtask == plan.steps[-1].subtask
