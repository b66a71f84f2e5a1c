"""Conditions, skipped steps and branches in runs."""

from typing import Any

import pytest
from core.execution.flows import NO, Case, block, call, when
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

pytestmark = pytest.mark.anyio
TYPED = call("go", returns={"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x"]})
X = "{{0.x}}"
TRUE: object = True


def on_value(value: object, **tests: Any) -> Case:
    """Return a step with a condition on a value, whose `else` is the step of the value."""
    return Case([TYPED, call("B", when=when(X, **tests), else_=0)], {"go": {"x": value}})


HOLDS = [
    on_value(1, is_=1),
    on_value("a", is_="a"),
    on_value(None, is_=None),
    on_value(2, in_=[1, 2]),
    on_value(1, not_="1"),
    on_value(TRUE, not_=1),
    on_value(2, less=3),
    on_value(3, more=1, less=5),
    on_value(None, exists=True),
]
FAILS_TO_HOLD = [
    on_value("1", is_=1),
    on_value(1, is_=True),
    on_value(3, in_=[1, "3"]),
    on_value(3, less=3),
    on_value(3, more=1, less=2),
    on_value(1, exists=False),
    on_value("b", in_=["b", "c"], not_="b"),
]
FAILS = [on_value("2", less=3), on_value(TRUE, more=0), on_value([1], less=2)]


@pytest.mark.parametrize("case", HOLDS, ids=lambda case: str(case.steps[1]["when"]))
async def test_a_condition_that_holds(case: Case) -> None:
    """The step runs."""
    assert (await case.check()).result.answer == "did B"


@pytest.mark.parametrize("case", FAILS_TO_HOLD, ids=lambda case: str(case.steps[1]["when"]))
async def test_a_condition_that_does_not_hold(case: Case) -> None:
    ran = await case.check()
    assert (ran.asked, ran.outcome("1").text) == (["go"], ran.result.answer)
    assert ran.result.answer.startswith('{"x":')


@pytest.mark.parametrize("case", FAILS, ids=lambda case: str(case.steps[1]["when"]))
async def test_a_condition_on_a_value_of_another_type(case: Case) -> None:
    ran = await Case(case.steps, case.answers, {"1": "failed bad_value"}, "failed", ["go"]).check()
    assert ran.result.answer == ""


def absent(**tests: Any) -> list[dict[str, Any]]:
    """Return a condition on an absent field, in a plan that goes on."""
    return [TYPED, call("B", when=when("{{0.y}}", **tests), else_=0)]


HAS_X = {"go": {"x": 1}}
CONDITIONS: dict[str, Case] = {
    "an absent field": Case(absent(is_=1), HAS_X, {"1": "failed bad_value"}, "failed", ["go"]),
    "presence is asked first": Case(absent(exists=True, is_=1), HAS_X, run='ok = {"x":1}', asked=["go"]),
    "once for a whole map": Case(
        [TYPED, call("read {{item}}", each=["a", "b"], when=when(X, is_=2)), call("end", 0, 1)],
        HAS_X,
        {"1": "skipped condition"},
        "ok = did end",
        ["go", "end"],
        {"end": ['{"x":1}']},
    ),
    "shows nothing": Case(
        [TYPED, call("B", when=when(X, is_=1), else_=0)], HAS_X, run="ok = did B", saw={"B": []}
    ),
}
NOT = when(X, is_=2)
SKIPS: dict[str, Case] = {
    "drops out of access lists": Case(
        [TYPED, call("A", when=NOT), call("end", 0, 1)],
        HAS_X,
        {"1": "skipped condition"},
        "ok = did end",
        saw={"end": ['{"x":1}']},
    ),
    "the whole list": Case(
        [TYPED, call("A", when=NOT), call("B", 1), call("end", 2)],
        HAS_X,
        {"2": "skipped condition", "3": "skipped condition"},
        "failed no_branch",
        ["go"],
    ),
    "a failure is no skip": Case(
        [TYPED, call("A"), call("end", 0, 1)], HAS_X | {"A": NO}, {"1": "failed"}, "partial ? = did end"
    ),
}
IS = when(X, is_=1)
BRANCHES: dict[str, Case] = {
    "the second": Case(
        [TYPED, call("A", when=NOT), call("B", when=IS)], HAS_X, {"1": "skipped"}, "ok = did B", ["go", "B"]
    ),
    "the last of two": Case(
        [TYPED, call("A", when=IS), call("B", when=IS)], HAS_X, {"1": "skipped"}, "ok = did B", ["go", "B"]
    ),
    "both, if one reads the other": Case(
        [TYPED, call("A", when=IS), call("B", 1, when=IS)], HAS_X, {"1": "ok"}, "ok = did B", ["go", "A", "B"]
    ),
    "an action": Case(
        [TYPED, call("A", worker=1, when=IS), call("B", when=IS)],
        HAS_X,
        {"1": "ok"},
        "ok = did B",
        ["go", "A", "B"],
        acts=True,
    ),
    "none": Case(
        [TYPED, call("A", when=NOT), call("B", when=NOT)],
        HAS_X,
        {"1": "skipped condition"},
        "failed no_branch",
        ["go"],
    ),
    "the else of the last that has one": Case(
        [TYPED, call("C"), call("A", when=NOT, else_=0), call("B", when=NOT, else_=1), call("D", when=NOT)],
        HAS_X,
        run="ok = did C",
        asked=["go", "C"],
    ),
    "only the row at the end": Case(
        [TYPED, call("A", when=IS), call("C"), call("B", when=NOT), call("D", when=NOT)],
        HAS_X,
        run="failed no_branch",
        asked=["go"],
    ),
    "the last that holds fails": Case(
        [TYPED, call("A", when=IS), call("B", when=IS)],
        HAS_X | {"B": NO},
        {"1": "skipped", "2": "failed"},
        "failed",
        ["go", "B"],
    ),
    "else is shown and referred to": Case(
        [TYPED, call("A", 0, when=NOT, else_=0, returns={"x": "integer"}), call("see {{1.x}}", 1)],
        HAS_X,
        run="ok = did see 1",
        saw={"see 1": ['{"x":1}']},
    ),
    "a block of branches": Case(
        [
            TYPED,
            block(call("A", when=when("{{outer.0.x}}", is_=1)), call("B", when=when("{{outer.0.x}}", is_=2))),
            call("end", 1),
        ],
        HAS_X,
        {"1.0": "ok = did A", "1.1": "skipped condition", "1": "ok = did A"},
        saw={"end": ["did A"]},
    ),
    "a block without a branch": Case(
        [
            TYPED,
            block(call("A", when=when("{{outer.0.x}}", is_=3)), call("B", when=when("{{outer.0.x}}", is_=2))),
            call("end", 0, 1),
        ],
        HAS_X,
        {"1": "skipped no_branch"},
        "ok = did end",
        saw={"end": ['{"x":1}']},
    ),
}
CASES = {
    f"{table}: {name}": case
    for table, cases in {"condition": CONDITIONS, "skip": SKIPS, "branch": BRANCHES}.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", CASES)
async def test_branches(name: str) -> None:
    """Each plan ends as the rules say."""
    await CASES[name].check()
