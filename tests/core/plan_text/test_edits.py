"""Changes of a plan: each gives a whole plan, or says why it cannot be made."""

import json
from typing import Any

import pytest
from core.actors import Row, plan_of
from core.plans import plans
from hypothesis import given, strategies as st

from podium import Message, Plan, Step
from podium.errors import PlanInvalid
from podium.plan_text import Change, Move, Remove, edit_plan, read_edits, write_plan
from podium.plan_text.edits import Edit, Insert, read_saved_plan
from podium.types.steps import Block

A, B, C, D = (0, "find a", ()), (1, "find b", ()), (2, "check", (1,)), (0, "answer", (0, 2))
PLAN = Plan(plan_of(A, B, C, D).steps, query=(Message("user", "Why?"),))
NAMES = ("search", "reader", "critic")
BLOCK = Plan((*PLAN.steps, Block(steps=(Step(2, "judge"),), access=(3,), each=2)))


@pytest.mark.parametrize(
    ("edit", "rows"),
    [
        (Change(step=2, worker=1, subtask="check all", access=(0, 1)), (A, B, (1, "check all", (0, 1)), D)),
        (Insert(at=1, step=Step(1, "c", (0,))), (A, (1, "c", (0,)), B, (2, "check", (2,)), (*D[:2], (0, 3)))),
        (Remove(step=3), (A, B, C)),
        (Move(step=0, to=2), (B, (2, "check", (0,)), A, (0, "answer", (1, 2)))),
        (Move(step=2, to=2), (A, B, C, D)),
    ],
    ids=["change", "insert", "remove", "move", "move nowhere"],
)
def test_what_an_edit_makes_of_a_plan(edit: Edit, rows: tuple[Row, ...]) -> None:
    made = edit_plan(PLAN, edit)
    assert (made.steps, made.query) == (plan_of(*rows).steps, PLAN.query)


def test_an_edit_leaves_how_many_steps_are_enough() -> None:
    race = Plan((Step(0, "a"), Step(1, "b"), Step(2, "tell", (0, 1), 1)))
    assert edit_plan(race, Change(step=2, subtask="say")).steps[2] == Step(2, "say", (0, 1), 1)
    assert edit_plan(race, Change(step=2, enough=2)).steps[2] == Step(2, "tell", (0, 1))
    assert edit_plan(race, Insert(at=0, step=Step(0, "x"))).steps[3] == Step(2, "tell", (1, 2), 1)
    assert edit_plan(race, Move(step=1, to=0)).steps[2].enough == 1


@pytest.mark.parametrize(
    ("edit", "code", "told"),
    [
        (Remove(step=0), "bad_access", "step 0 cannot be removed while step 3 lists it"),
        (Remove(step=4), "bad_shape", "there is no step 4: write a number from 0 to 3"),
        (Move(step=0, to=-1), "bad_shape", "there is no position -1"),
        (Move(step=2, to=0), "forward_access", "which is not an earlier step"),
        (Insert(at=0, step=Step(0, "x", (0,))), "forward_access", "lists itself"),
        (Change(step=0, subtask=" "), "empty_subtask", ""),
        (Change(step="0.0", subtask="x"), "bad_shape", "there is no step 0.0: the steps are 0, 1, 2, 3"),
    ],
)
def test_an_edit_that_leaves_no_plan_is_refused(edit: Edit, code: str, told: str) -> None:
    with pytest.raises(PlanInvalid) as caught:
        edit_plan(PLAN, edit)
    assert caught.value.code == code
    assert (caught.value.step is not None) == code.endswith("_access")  # it is about a step of the plan
    assert told in str(caught.value)


@st.composite
def plans_and_edits(draw: st.DrawFn) -> tuple[Plan, list[Edit]]:
    """Draw a plan whose subtasks are all different, and edits that may or may not fit it."""
    at = st.integers(0, 6)
    insert = st.builds(Insert, at=at, step=st.just(Step(1, "new")))
    edits: Any = st.builds(Remove, step=at) | st.builds(Move, step=at, to=at) | insert
    return draw(plans(1, 6)), draw(st.lists(edits, max_size=4))


def seen_by(plan: Plan) -> dict[str, set[str]]:
    return {s.subtask: {plan.steps[i].subtask for i in s.access} for s in plan.steps if s.subtask != "new"}


@given(plans_and_edits())
def test_who_sees_whom_stays_when_steps_come_go_and_move(drawn: tuple[Plan, list[Edit]]) -> None:
    plan, edits = drawn
    try:
        made = edit_plan(plan, *edits)
    except PlanInvalid:
        return
    before, after = seen_by(plan), seen_by(made)
    assert after == {subtask: before[subtask] for subtask in after}


@pytest.mark.parametrize("plan", [PLAN, BLOCK])
@pytest.mark.parametrize("names", [None, NAMES])
def test_a_saved_plan_may_name_its_workers(plan: Plan, names: tuple[str, ...] | None) -> None:
    for text in (json.dumps(plan.to_json(names)), write_plan(plan, "json", workers=names)):
        assert read_saved_plan(text, NAMES, 8).steps == plan.steps


def test_edits_are_read_from_plain_data() -> None:
    data = [
        {"op": "change", "step": 0, "worker": "critic", "subtask": "x"},
        {"op": "insert", "at": 1, "worker": 1, "subtask": "y", "access": [0], "enough": 1},
        {"op": "remove", "step": 2},
        {"op": "move", "step": 0, "to": 1},
    ]
    assert read_edits(data, NAMES) == (
        Change(step=0, worker=2, subtask="x"),
        Insert(at=1, step=Step(1, "y", (0,))),
        Remove(step=2),
        Move(step=0, to=1),
    )


@pytest.mark.parametrize(
    ("data", "code", "told"),
    [
        ({}, "bad_shape", "edits must be a list"),
        (["x"], "bad_shape", "edit 0 is 'x': write an op of change, insert, remove, move"),
        ([{"op": "remove", "step": "0"}], "bad_shape", "step is '0': write a number"),
        ([{"op": "change", "step": 0, "subtask": None}], "bad_shape", "write text"),
        ([{"op": "obey"}], "bad_shape", "write an op of"),
        ([{"op": "remove", "step": 0, "lc": 1}], "bad_shape", "has step, lc; the keys of 'remove' are step"),
        ([{"op": "change", "step": 0, "access": "all"}], "bad_shape", "write a list of numbers"),
        ([{"op": "change", "step": 0, "worker": "nobody"}], "unknown_worker", "workers are search, reader"),
    ],
)
def test_what_is_no_edit_is_refused(data: Any, code: str, told: str) -> None:
    with pytest.raises(PlanInvalid) as caught:
        read_edits(data, NAMES)
    assert caught.value.code == code
    assert told in str(caught.value)
