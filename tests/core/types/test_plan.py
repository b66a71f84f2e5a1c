"""Steps and plans as data."""

import pytest

from podium.errors import PlanInvalid, QueryError
from podium.types import Plan, Step

DIAMOND = Plan(
    (Step(0, "Start.", ()), Step(1, "Left.", (0,)), Step(2, "Right.", (0,)), Step(0, "Join.", (2, 1, 1)))
)


def test_steps_and_plans_cannot_be_built_wrong() -> None:
    """Workers count from 0, subtasks say something, and a step sees earlier steps only."""
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
    """The drawing has a box per step and an arrow per visible step."""
    drawn = DIAMOND.to_mermaid(["ann", "bob", "cy"])
    assert '    s1["1: bob<br/>Left."]\n' in drawn
    assert "    s1 --> s3\n" in drawn
    assert drawn.endswith("    s3 --> answer([answer])\n")


def test_the_planners_own_number_stands_beside_the_index() -> None:
    """Only where it is another."""
    plan = Plan((Step(0, "a", label=0), Step(0, "b", (0,), label=7)))
    assert [plan.numbered(index) for index in (0, 1, 2)] == ["0", "1 (id 7)", "2"]
    assert '"1 (id 7): worker 0<br/>b"' in plan.to_mermaid()
    assert DIAMOND.numbered(2) == "2"


def test_mermaid_is_not_written_by_subtasks() -> None:
    """Quotes, tags and directives in a subtask stay text."""
    drawn = Plan((Step(0, '"] --> x\n%%{init: 1}%% <script> `#'),)).to_mermaid()
    assert 's0["0: worker 0<br/>#34;] --#62; x #37;#37;{init: 1}#37;#37; #60;script#62; #96;#35;"]' in drawn
