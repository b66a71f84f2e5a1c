"""Steps, plans and references as data."""

import pytest

from podium import Plan, Step
from podium.errors import PlanInvalid, QueryError
from podium.types.references import literal

JOIN = Step(0, "Join.", (2, 1, 1))
DIAMOND = Plan((Step(0, "Start.", ()), Step(1, "Left.", (0,)), Step(2, "Right.", (0,)), JOIN))


def test_steps_and_plans_cannot_be_built_wrong() -> None:
    for worker, subtask, code in ((-1, "a", "bad_worker"), (0, " \n", "empty_subtask")):
        with pytest.raises(PlanInvalid) as caught:
            Step(worker, subtask)
        assert caught.value.code == code
    for seen in (1, -1):
        with pytest.raises(PlanInvalid) as caught:
            Plan((Step(0, "a"), Step(0, "b", (seen,))))
        assert (caught.value.code, caught.value.step) == ("forward_access", 1)


FOREIGN: tuple[tuple[dict[str, object], str], ...] = (
    ({"schema": 99}, "unknown_schema"),
    ({"steps": None}, "bad_shape"),
    ({"steps": [{"worker": 0, "subtask": "a"}]}, "missing_field"),
    ({"steps": [{"worker": True, "subtask": "a", "access": []}]}, "bad_shape"),
    ({"steps": [{"worker": 0, "subtask": "a", "access": [False]}]}, "bad_shape"),
    ({"steps": [{"worker": 0, "subtask": "a", "access": [0]}]}, "forward_access"),
    ({"query": "Why?"}, "bad_shape"),
)


def test_foreign_json_is_refused() -> None:
    """What `to_json` would not have written is an error of ours, never a guess."""
    for change, code in FOREIGN:
        with pytest.raises(PlanInvalid) as caught:
            Plan.from_json({**DIAMOND.to_json(), **change})
        assert caught.value.code == code
    with pytest.raises(PlanInvalid, match="lacks steps"):
        Plan.from_json({"schema": 1})
    for message in (3, {}, {"role": "user", "content": 7}):
        with pytest.raises(QueryError):
            Plan.from_json({**DIAMOND.to_json(), "query": [message]})


def test_mermaid_shows_workers_and_arrows() -> None:
    drawn = DIAMOND.to_mermaid(["ann", "bob", "cy"])
    assert all(text in drawn for text in ('    s1["1: bob<br/>Left."]\n', "    s1 --> s3\n"))
    assert drawn.endswith("    s3 --> answer([answer])\n")


def test_mermaid_is_not_written_by_subtasks() -> None:
    drawn = Plan((Step(0, '"] --> x\n%%{init: 1}%% <script> `#'),)).to_mermaid()
    assert 's0["0: worker 0<br/>#34;] --#62; x #37;#37;{init: 1}#37;#37; #60;script#62; #96;#35;"]' in drawn


def test_what_a_step_refers_to() -> None:
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
    for subtask in ("{{2}}", "{{-1}}", "{{1", "{{0, 1}}", "{{step_1}}", "{{ Output of step 0 }}", "{{#1}}"):
        with pytest.raises(PlanInvalid) as caught:
            Step(0, f"Look up {subtask}", (0, 1))
        assert caught.value.code == "bad_reference"
        assert Step(0, f"Look up {literal(subtask)}", (0, 1)).references == ()
