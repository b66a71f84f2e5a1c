"""Plans as they are written, and what holds a decoder to them."""

import json
from typing import get_args

import jsonschema
import pytest
from core.actors import Row, plan_of
from core.plan_text.grammar import Grammar

from podium import Plan, Step, parse_plan
from podium.plan_text import Spelling, write_plan
from podium.plan_text.writer import plan_grammar, plan_schema

SPELLINGS = get_args(Spelling)
ODD: tuple[Row, ...] = ((1, 'Say "why", don\'t\n\\guess.', ()), (0, " 漢字 😀 \x01\x7f", (0,)))
CHAIN = plan_of(*ODD, (11, "]}, {[", (0, 1)), (2, "#", (1,)), (10, "\t(end)", (0, 2, 3)))
PLANS = [Plan(CHAIN.steps[:count]) for count in range(1, 6)]
PLANS += [Plan(tuple(Step(3, "again", tuple(range(0, i, 2))) for i in range(5)))]
TOOLS = ("run_tests", 'say "hi"')


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_grammar_takes_what_is_written(spelling: Spelling) -> None:
    grammar = Grammar(plan_grammar(spelling, 12, 5))
    for plan in PLANS:
        text = write_plan(plan, spelling)
        assert grammar.accepts(text)
        assert parse_plan(text, workers=12) == plan


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_grammar_takes_nothing_else(spelling: Spelling) -> None:
    """Too many steps, unknown workers, forward references, empty subtasks and rests are refused."""
    grammar = Grammar(plan_grammar(spelling, 3, 3))
    good = Plan((Step(0, "one"), Step(2, "two", (0,)), Step(1, "three", (1,))))
    text = write_plan(good, spelling)
    assert grammar.accepts(text)
    four = Plan((*good.steps, Step(0, "four")))
    changed = [text.replace("two", ""), text.replace("two", " ")]
    bad = [write_plan(four, spelling), text[:-2], text + "x", *changed]
    bad += [text.replace("[1]", "[2]"), text.replace("[1]", "[1, 0]"), text.replace("2", "3", 1)]
    bad += [write_plan(Plan(()), spelling)]
    assert [wrong for wrong in bad if grammar.accepts(wrong)] == []


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_round_before_is_in_the_grammar_where_there_is_one(spelling: Spelling) -> None:
    first, later = (Grammar(plan_grammar(spelling, 3, 3, keep=keep)) for keep in (False, True))
    for access in ((), (0,), (1,), (0, 1)):
        for previous in (True, False):
            last = Step(2, "c", access, None, previous)
            steps = (Step(0, "a", previous=previous), Step(1, "b", (0,)), last)
            text = write_plan(Plan(steps), spelling)
            assert parse_plan(text, workers=3) == Plan(steps)
            assert later.accepts(text)
            assert first.accepts(text) != previous
    nothing = write_plan(Plan(()), spelling)
    assert (first.accepts(nothing), later.accepts(nothing)) == (False, True)
    assert not later.accepts(write_plan(Plan(steps), spelling).replace("[0", '["next", 0'))


def test_the_schema_takes_plans_and_nothing_else() -> None:
    schema = plan_schema(3, 2)
    jsonschema.Draft202012Validator.check_schema(schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    step = {"worker": 2, "subtask": "Do it.", "access": [0]}
    assert valid(json.loads(write_plan(Plan((Step(0, "a b"), Step(2, "c", (0,)))), "json")))
    changes = [{"worker": 3}, {"worker": "0"}, {"access": [1]}, {"access": [0, 0]}]
    changes += [{"extra": 1}, {"subtask": 1}]
    wrong = [{"steps": [step | change]} for change in changes]
    wrong += [{"steps": []}, {"steps": [step] * 3}, {"steps": [step], "more": 1}, {}]
    assert [plan for plan in wrong if valid(plan)] == []
    fields = schema["properties"]["steps"]["items"]["properties"]
    types = {name: field["type"] for name, field in fields.items()}  # some providers refuse others
    assert types == {"worker": "integer", "subtask": "string", "access": "array"}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("workflows", [False, True])
def test_tools_that_a_step_may_call(spelling: Spelling, *, workflows: bool) -> None:
    """They are written and read, and held to those that there are; `lists` have no place for them."""
    plan = Plan((Step(0, "a", tools=()), Step(1, "b", (0,), tools=TOOLS), Step(0, "c", (1,))))
    text = write_plan(plan, spelling)
    assert parse_plan(text, workers=2) == plan
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    if spelling == "lists":
        assert text == write_plan(plan, "json")
        return
    offered = (TOOLS, TOOLS[:1], ())
    grammars = [Grammar(plan_grammar(spelling, 2, 3, workflows=workflows, tools=each)) for each in offered]
    assert [grammar.accepts(text) for grammar in grammars] == [True, False, False]
    schemas = [plan_schema(2, 3, workflows=workflows, tools=tools) for tools in (TOOLS, TOOLS[:1], ())]
    data = json.loads(write_plan(plan, "json"))
    valid = [jsonschema.Draft202012Validator(schema).is_valid(data) for schema in schemas]
    assert valid == [True, False, False]


def test_names_take_the_place_of_numbers() -> None:
    text = write_plan(Plan((Step(1, "go"),)), "lists", workers=["ann", "bob"])
    assert text == 'model_id = ["bob"]\nsubtasks = ["go"]\naccess_list = [[]]'
