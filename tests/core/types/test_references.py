"""References in subtasks: what is one, what is literal, and what becomes of each."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from podium.errors import PlanInvalid
from podium.plan_text import PlanReader, Spelling, parse_plan, write_plan
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
