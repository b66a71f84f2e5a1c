"""References in subtasks: what is one, what is literal, and what becomes of each."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from podium.errors import PlanInvalid
from podium.plan_text import Change, Move, PlanReader, Remove, Spelling, edit_plan, parse_plan, write_plan
from podium.plan_text.edits import Insert
from podium.types import Plan, Step
from podium.types.references import literal

BRACES = st.lists(
    st.sampled_from(
        ["{{", "}}", "{", "}", "\\", "0", "1", " ", "-", "step", "output", "_", ".", "{{0}}", "é"]
    ),
    max_size=14,
).map("".join)
TEXTS = st.one_of(BRACES, st.text(max_size=30))


def test_what_a_step_refers_to() -> None:
    """Only digits in double braces are a reference; a backslash takes the meaning away."""
    for subtask, references in (
        ("Use {{0}} and {{ 1 }}, then {{0}} again.", (0, 1)),
        (r"Write \{{0}} with braces.", ()),
        (r"A backslash before one: \\{{0}}", ()),
        ("Fill {{name}} and {{user_1}} and {{ x2 }} in.", ()),
        ("{{{0}}}", (0,)),
        ('{"a": {"b": {}}}', ()),
    ):
        assert Step(0, subtask, (0, 1)).references == references


def test_what_no_step_may_hold() -> None:
    """A reference outside of the access list, and what looks like one and is none."""
    for subtask in ("{{2}}", "{{-1}}", "{{1", "{{0, 1}}", "{{step_1}}", "{{ Output of step 0 }}", "{{#1}}"):
        with pytest.raises(PlanInvalid) as caught:
            Step(0, f"Look up {subtask}", (0, 1))
        assert caught.value.code == "bad_reference"
        assert Step(0, f"Look up {literal(subtask)}", (0, 1)).references == ()


@pytest.mark.parametrize("spelling", ["rows", "json", "lists"])
def test_a_parser_says_where_and_why(spelling: Spelling) -> None:
    """The error has the step, a position, and what to write."""
    good = write_plan(Plan((Step(0, "find"), Step(1, "look up {{0}}", (0,)))), spelling)
    assert parse_plan(good, workers=2).steps[1].references == (0,)
    for wrong, told in (("{{1}}", "not on its access list"), ("{{step 0}}", "write {{n}} for the output")):
        text = good.replace("{{0}}", wrong)
        with pytest.raises(PlanInvalid, match="write") as caught:
            parse_plan(text, workers=2)
        assert (caught.value.code, caught.value.step) == ("bad_reference", 1)
        assert told in str(caught.value)
        assert caught.value.position is not None
        assert text[caught.value.position :].startswith('"look up')


def test_references_name_ids_where_steps_have_them() -> None:
    """The numbers are those of access lists; a plan holds positions."""
    rows = [
        {"id": 7, "worker": 0, "subtask": "find", "access": []},
        {"id": 3, "worker": 0, "subtask": "look up {{7}}", "access": [7]},
        {"id": 0, "worker": 0, "subtask": "join {{3}} with {{ 7 }}", "access": ["3", 7]},
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    plan = parse_plan(text, workers=1)
    assert [step.subtask for step in plan.steps] == ["find", "look up {{0}}", "join {{1}} with {{0}}"]
    reader, early = PlanReader(workers=1), list[Step]()
    for character in text:
        early += reader.feed(character)
    assert reader.close() == plan
    assert plan.steps == tuple(early)
    for wrong in ("{{0}}", "{{9}}"):  # a position, and nothing
        with pytest.raises(PlanInvalid, match="not on its access list"):
            parse_plan(text.replace("{{7}}", wrong), workers=1)


def test_edits_follow_references() -> None:
    """Steps that move are followed; one that is referred to is not lost."""
    plan = Plan((Step(0, "a"), Step(0, "b"), Step(0, r"use {{0}}, {{1}} and \{{0}}", (0, 1))))
    moved = edit_plan(plan, Move(step=0, to=1))
    assert moved.steps[2].subtask == r"use {{1}}, {{0}} and \{{0}}"
    inserted = edit_plan(plan, Insert(at=1, step=Step(0, "see {{0}}", (0,))))
    assert inserted.steps[1].subtask == "see {{0}}"
    assert inserted.steps[3].subtask == r"use {{0}}, {{2}} and \{{0}}"
    assert edit_plan(inserted, Remove(step=1)) == plan
    with pytest.raises(PlanInvalid, match="access list"):
        edit_plan(plan, Change(step=2, access=(0,)))


@given(TEXTS, st.sampled_from(["rows", "json", "lists"]), st.lists(st.integers(0, 200), max_size=6))
def test_what_is_written_is_read(text: str, spelling: Spelling, places: list[int]) -> None:
    """Whole or in pieces, in each spelling and as JSON; and any text can be written literally."""
    assert Step(0, f"Say: {literal(text)}", (0,)).references == ()
    subtask = "Say: " + literal(text).replace("\0", "") + " with {{0}} and {{1}}"
    plan = Plan((Step(0, "a"), Step(0, "b", (0,)), Step(0, subtask, (0, 1))))
    written = write_plan(plan, spelling)
    assert parse_plan(written, workers=1) == plan
    assert Plan.from_json(plan.to_json()) == plan
    reader = PlanReader(workers=1)
    ends = sorted({min(place, len(written)) for place in places} | {0, len(written)})
    for start, end in pairwise(ends):
        reader.feed(written[start:end])
    assert reader.close() == plan
