"""Plans with typed outputs, maps, branches and loops: what is read, written, and refused."""

import json
import re
from typing import Any

import jsonschema
import pytest
from core.execution.flows import block, when
from core.plan_text.grammar import Grammar

from podium import Plan, parse_plan
from podium.errors import PlanInvalid
from podium.plan_text import Change, Spelling, edit_plan, read_edits, write_plan
from podium.plan_text.edits import Remove
from podium.plan_text.writer import plan_grammar, plan_schema
from podium.types.schemas import Form

CALL: dict[str, Any] = {"worker": 0, "subtask": "Do it.", "access": []}
FILES = CALL | {"returns": {"files": ["string"], "verdict": "ok|bad", "count": "integer", "note?": "string"}}
TEXT = CALL | {"subtask": "Say it."}


def call(**keys: Any) -> dict[str, Any]:
    return CALL | {key.rstrip("_"): value for key, value in keys.items()}


def read(*steps: dict[str, Any], strict: bool = False) -> Plan:
    return parse_plan(json.dumps({"steps": steps}), workers=["ann", "bob"], strict=strict)


LOOP = block(call(returns={"done": "boolean"}), most=3, until=when("{{0.done}}", is_=True))
AGAIN = call(returns={"done": "boolean"}, access=["previous"], subtask="It was {{previous.done}}.")
JUDGE = call(returns="bug|other", subtask="Judge {{item}}.")
OUTER = call(access=["outer"], subtask="{{outer.0.verdict}}")
BAD = call(when=when("{{0.verdict}}", is_="bad"))
VALID: dict[str, list[dict[str, Any]]] = {
    "map": [FILES, call(each="{{0.files}}", subtask="Read {{item}}, number {{index}}.", enough=2)],
    "named item": [FILES, call(each="{{0.files}}", as_="file", subtask="Read {{file}}.")],
    "literal list": [call(each=["a", None, {"b": 1}], subtask="Read {{item}}.")],
    "map over a map": [
        FILES,
        call(each="{{0.files}}", returns={"hits": [{"line": "integer"}]}),
        call(each="{{1.hits}}", subtask="Check {{item.line}}."),
        call(each="{{1}}", access=[1]),
    ],
    "item of a map": [
        FILES,
        call(each="{{0.files}}", returns={"hit": "string"}),
        call(access=[1], subtask="{{1.0.hit}} and {{1.hit}}"),
    ],
    "branches": [FILES, BAD, call(when=when("{{0.verdict}}", not_="bad"))],
    "else": [FILES, call(when=when("{{0.count}}", more=2, less=9), else_=0)],
    "block": [FILES, block(OUTER, call(access=[0]), access=[0], each="{{0.files}}", as_="file")],
    "loop": [LOOP, call(access=[0], subtask="{{0.done}}")],
    "previous turn": [LOOP | {"steps": [AGAIN]}],
    "filter": [FILES, block(JUDGE, call(when=when("{{0}}", is_="bug")), each="{{0.files}}")],
}


@pytest.mark.parametrize("name", VALID)
@pytest.mark.parametrize("spelling", ["json", "rows", "lists"])
def test_a_plan_is_written_as_it_was_read(name: str, spelling: Spelling) -> None:
    plan = read(*VALID[name], strict=True)
    assert plan.is_workflow
    assert parse_plan(write_plan(plan, spelling, workers=["ann", "bob"]), workers=["ann", "bob"]) == plan
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert plan.to_mermaid().startswith("flowchart TD\n")


def nested(depth: int) -> list[dict[str, Any]]:
    return [TEXT] if depth == 0 else [block(*nested(depth - 1))]


@pytest.mark.parametrize("steps", [*VALID.values(), nested(4)], ids=[*VALID, "nested"])
def test_decoders_can_write_all_keys(steps: list[dict[str, Any]]) -> None:
    """Held to the grammar or the schema: in the short form of types, and as `write_plan` writes it."""
    valid = jsonschema.Draft202012Validator(plan_schema(2, 4, workflows=True)).is_valid
    texts = [json.dumps({"steps": steps}, ensure_ascii=False), write_plan(read(*steps), "json").strip()]
    for text in texts:
        assert valid(json.loads(text))
    assert Grammar(plan_grammar("json", 2, 4, workflows=True)).accepts(texts[1])
    assert Grammar(plan_grammar("rows", 2, 4, workflows=True)).accepts(write_plan(read(*steps), "rows"))
    assert not jsonschema.Draft202012Validator(plan_schema(2, 4)).is_valid(json.loads(texts[1]))
    assert not Grammar(plan_grammar("json", 2, 4)).accepts(texts[1])


@pytest.mark.parametrize(
    "steps",
    [
        nested(5),
        [FILES, call(when="{{0.verdict}}")],
        [call(each=-1)],
        [call(untill=3)],
        [call(until=when("{{0.a}}", is_=1), most=2)],
        [LOOP | {"worker": 0}],
        [LOOP | {"steps": []}],
        [call(access=["outer"])],
    ],
)
def test_decoders_write_no_other_keys(steps: list[dict[str, Any]]) -> None:
    data = {"steps": steps}
    assert not jsonschema.Draft202012Validator(plan_schema(2, 4, workflows=True)).is_valid(data)
    assert not Grammar(plan_grammar("json", 2, 4, workflows=True)).accepts(json.dumps(data))


def test_ids_are_the_numbers_of_references() -> None:
    inner = {"id": 4} | call(subtask="{{outer.7.count}}")
    middle = {"id": 9} | block(inner, access=[7], each="{{7.files}}")
    last = {"id": 2} | call(access=[9], subtask="{{9}}", when=when("{{7.count}}", more=1), else_=7)
    plan = read({"id": 7} | FILES, middle, last)
    _, second, third = plan.steps
    assert (second.each, third.when and third.when.ref, third.otherwise) == ("{{0.files}}", "{{0.count}}", 0)
    assert plan.calls[1].subtask == "{{outer.0.count}}"
    assert json.loads(write_plan(plan, "json"))["steps"][1]["steps"][0]["subtask"] == "{{outer.7.count}}"


def test_edits_renumber_all_references() -> None:
    plan = read(TEXT, FILES, call(each="{{1.files}}", when=when("{{1.count}}", more=1)), call(access=[2]))
    without = edit_plan(plan, Remove(step=0))
    each, when_ = without.steps[1].each, without.steps[1].when
    assert (each, when_ and when_.ref) == ("{{0.files}}", "{{0.count}}")
    with pytest.raises(PlanInvalid, match="step 1 cannot be removed while step 2 lists it"):
        edit_plan(plan, Remove(step=1))


def test_a_step_inside_of_a_block_is_changed_by_its_name() -> None:
    plan = read(TEXT, block(TEXT, block(call(), call(access=[0])), access=[0]), call(access=[1]))
    (edit,) = read_edits([{"op": "change", "step": "1.1.1", "subtask": "other", "access": []}], ["one"])
    changed = edit_plan(plan, edit, Change(step=1, access=()))
    inner, outer = plan.steps[1], changed.steps[1]
    assert (outer.access, outer.steps[0]) == ((), inner.steps[0])
    subtasks = [each.subtask for each in plan.calls]
    assert [each.subtask for each in changed.calls] == [*subtasks[:3], "other", subtasks[4]]
    for step, why in (("1.1", "step 1.1 is a block"), ("1.5", "steps are 0, 1, 2, 1.0, 1.1, 1.1.0, 1.1.1")):
        with pytest.raises(PlanInvalid, match=re.escape(why)):
            edit_plan(plan, Change(step=step, worker=1))


REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "misspelt type": ([call(returns={"id": "integr"})], "bad_returns: .*did you mean 'integer'"),
    "no such field": ([FILES, call(access=[0], subtask="{{0.name}}")], "bad_reference: .*it has no 'name'"),
    "item outside": ([call(subtask="{{item}}")], "bad_reference: .*outside of a step with each"),
    "when of a map on an item": (
        [FILES, call(each="{{0.files}}", when=when("{{item}}", is_="a.py"))],
        r"bad_condition: .*has the condition \{\{item}} on its own items: give the each to a block",
    ),
    "outer outside": ([call(access=["outer"])], "bad_access"),
    "reference in a list": (
        [FILES, call(each=["a", {"b": ["see {{0.verdict}}"]}])],
        r"bad_each: .*has \{\{0.verdict}} in a literal list: write one reference",
    ),
    "never": (
        [FILES, call(when=when("{{0.verdict}}", is_="maybe")), TEXT],
        r'bad_condition: .*never holds: "maybe" does not fit {.*"enum": \["ok", "bad"\]}',
    ),
    "less and more": (
        [FILES, call(when=when("{{0.count}}", less=3, more=5)), TEXT],
        r"bad_condition: .*no value passes all tests of \{\{0.count}} less 3, more 5",
    ),
    "single branch": ([FILES, TEXT, BAD], "bad_condition: .*no answer"),
    "later else": (
        [FILES, call(when=when("{{0.count}}", more=1), else_=1)],
        "bad_condition: .*has else 1, which is not an earlier step",
    ),
    "no most": ([{key: value for key, value in LOOP.items() if key != "most"}], "bad_block: .*lacks most"),
    "too deep": ([block(*nested(4))], "bad_block: .*deeper than 4"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    steps, told = REFUSED[name]
    with pytest.raises(PlanInvalid) as caught:
        read(*steps)
    assert caught.value.step is not None
    assert caught.value.position is not None
    assert re.search(told, f"{caught.value.code}: {caught.value}")


def test_unknown_keys() -> None:
    notes = read(call(reason="It is best.")).notes
    assert notes == ("step 0 has the unknown key 'reason', which was ignored",)
    for text in (json.dumps({"steps": [call(reason="x")]}), json.dumps({"steps": [CALL], "name": "x"})):
        with pytest.raises(PlanInvalid, match="unknown key") as caught:
            parse_plan(text, workers=1, strict=True)
        assert caught.value.code == "unknown_key"


def test_the_types_of_workers_are_checked_with_the_pool() -> None:
    plan = read(CALL, call(each="{{0.files}}"))
    plan.check_types([Form.of({"type": "object", "properties": {"files": {"type": "array"}}}), None])
    with pytest.raises(PlanInvalid, match="text without a type"):
        plan.check_types([None, None])
