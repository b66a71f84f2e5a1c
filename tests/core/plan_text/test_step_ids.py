"""Steps that number themselves are referred to by those numbers, or the plan is refused with a reason."""

import pytest

from podium.errors import PlanInvalid
from podium.plan_text import Spelling, parse_plan, write_plan


def row(access: str, **ids: object) -> str:
    """Write a row with these keys before its fields."""
    own = "".join(f'"{key}": {value}, ' for key, value in ids.items())
    return f'{{{own}"worker": 0, "subtask": "a", "access": {access}}}\n'


THIRD_SEES_FIRST: dict[str, str] = {
    "from 1": row("[]", id=1) + row("[1]", id=2) + row("[1]", id=3),
    "text with s": row("[]", id='"s1"') + row('["step 1"]', id='"s2"') + row("[1]", id='"S3"'),
    "names and positions": row("[]", id='"a"') + row("[0]", id='"b"') + row("[0]", id='"c"'),
    "names": row("[]", id='"Find it"') + row('["find it"]', step='"b"') + row('"Find it"', id='"b"'),
    "written freely": row("[]", id='"#1"') + row('["1."]', id='"2)"') + row('["1.0"]', id='"Task 3"'),
    "large": row("[]", id=10**16) + row(f"[{10**16}]", id=10**16 + 1) + row(f"[{10**16}]", id=10**17),
    "task_id": row("[]", task_id=1) + row("[1]", task_id=2) + row("[1]", task_id=3),
    "null is no id": row("[]", id="null") + row("[0]", id="null") + row("[0]"),
}


@pytest.mark.parametrize("text", THIRD_SEES_FIRST.values(), ids=THIRD_SEES_FIRST)
def test_access_lists_name_ids(text: str) -> None:
    """The third step sees the first, however that is numbered."""
    plan = parse_plan(text, workers=1)
    assert [step.access for step in plan.steps] == [(), (0,), (0,)]
    spelling: Spelling
    for spelling in ("lists", "json", "rows"):
        assert parse_plan(write_plan(plan, spelling), workers=1) == plan


@pytest.mark.parametrize(
    "text",
    [
        row("[]", id='"a"') + row('["b"]', id='"b"'),
        row('["b"]', id='"a"') + row("[]", id='"b"'),
        row("[]", id='"a"') + row("[]", id='"a"') + row('["a"]'),
        row("[]", id="null") + row("null"),
    ],
    ids=["itself", "a later step", "two steps", "null"],
)
def test_names_of_no_earlier_step_are_refused(text: str) -> None:
    """A name in an access list is the id of one earlier step."""
    with pytest.raises(PlanInvalid) as caught:
        parse_plan(text, workers=1)
    assert caught.value.code == "bad_access"


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        (row("[]", id=1) + row("[1]"), "bad_id", "step 1 has no id, and earlier steps have one"),
        (
            row("[]", id=1) + row("[1]", step=2),
            "bad_id",
            "has its id under 'step', and earlier steps have theirs under 'id'",
        ),
        (row("[]", id=1) + row("[]", id=1), "bad_id", "step 1 has the id 1 of an earlier step"),
        (row("[]", id=1) + row("[]", id=2, ID=3), "bad_id", "step 1 has two ids, 2 and 3"),
        (row("[]", id="10**30"), "bad_id", "step 0 has the id '10**30', which is not a whole number"),
        (row("[]", id=f'"{"9" * 150_000}"'), "bad_id", "which is not a whole number"),
        (row("[]", phase_number=1), "bad_id", "step 0 has a number under 'phasenumber', which may be its id"),
        (row("[]", id=1) + row("[0]", id=2), "forward_access", "write [] or ids of earlier steps (1)"),
        (row("[]", id=1) + row("[2]", id=2), "forward_access", "lists 2, which is not the id of an earlier"),
    ],
)
def test_ids_that_mislead_are_refused(text: str, code: str, told: str) -> None:
    """The reason names the step and says how to mend it; rows and json give the same one."""
    rows = ", ".join(text.splitlines())
    for spelled in (text, f'{{"steps": [{rows}]}}'):
        with pytest.raises(PlanInvalid) as caught:
            parse_plan(spelled, workers=1)
        assert caught.value.code == code
        assert told in str(caught.value)
        assert caught.value.position is not None
        assert caught.value.step is not None
