"""Conditions, skipped steps, branches, blocks, loops, and actions in workflows."""

from typing import Any

import pytest
from core.actors import problem_of
from core.execution.flows import NO, Case, block, call, carry_out, team, when
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Limits
from podium.errors import PodiumError

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
    "else stands for a map whose list was skipped": Case(
        [TYPED, call("A", when=NOT, returns=["string"]), call("B", each="{{1}}", when=IS, else_=0)],
        HAS_X,
        {"1": "skipped condition"},
        'ok = {"x":1}',
        ["go"],
    ),
    "else is the list of the map": Case(
        [TYPED, call("A", each=["a"]), call("B", each="{{1}}", when=NOT, else_=1), call("end", 2)],
        HAS_X,
        {"2": 'ok = ["did A"]'},
        "ok = did end",
    ),
    "a map over a map that was skipped takes the list of its else": Case(
        [
            TYPED,
            call("list", returns=["string"]),
            call("A {{item}}", each="{{1}}", when=NOT, else_=1),
            call("B {{item}}", each="{{2}}"),
        ],
        HAS_X | {"list": ["x", "y"]},
        run='ok = ["did B x","did B y"]',
        asked=["go", "list", "B x", "B y"],
    ),
    "a map over a map that was skipped takes the items of an earlier map": Case(
        [
            TYPED,
            call("A {{item}}", each=["x", "y"]),
            call("B {{item}}", each="{{1}}", when=NOT, else_=1),
            call("C {{item}}", each="{{2}}"),
        ],
        HAS_X,
        run='ok = ["did C did A x","did C did A y"]',
    ),
    "a map over a map whose else failed": Case(
        [
            TYPED,
            call("list", returns=["string"]),
            call("A {{item}}", each=["x"], when=NOT, else_=1),
            call("B {{item}}", each="{{2}}"),
        ],
        HAS_X | {"list": NO},
        run="failed",
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
DONE = when("{{0.done}}", is_=True)
FORM = {"done": "boolean", "note": "string"}


def done(note: str = "n") -> dict[str, Any]:
    return {"done": True, "note": note}


def again(note: str = "n") -> dict[str, Any]:
    return {"done": False, "note": note}


def loop(*steps: dict[str, Any], most: int = 3, **keys: Any) -> dict[str, Any]:
    return block(*steps, **{"until": DONE, "most": most} | keys)


GO = call("go", returns=FORM)
BLOCKS: dict[str, Case] = {
    "a block": Case(
        [call("A"), block(call("B", "outer"), call("C", 0), access=[0]), call("end", 1)],
        ends={"1.0": "ok = did B", "1.1": "ok = did C", "1": "ok = did C"},
        saw={"B": ["did A"], "C": ["did B"], "end": ["did C"]},
    ),
    "its numbers are its own": Case(
        [call("A"), block(call("B"), call("see {{0}} {{outer.0}}", 0), access=[0])],
        asked=["A", "B", "see the output of step 0 did A"],
    ),
    "a map in it": Case(
        [block(call("A {{p}}{{item}}{{index}}", each=["x", "y"]), each=["p", "q"], as_="p")],
        ends={"0[1].0[0]": "ok = did A qx0", "0[1].0": 'ok = ["did A qx0","did A qy1"]'},
        run='ok = [["did A px0","did A py1"],["did A qx0","did A qy1"]]',
    ),
    "a failure in it": Case(
        [block(call("A"), call("B", 0)), call("C"), call("end", 0, 1)],
        {"A": NO},
        {"0.0": "failed", "0.1": "skipped", "0": "failed"},
        "partial ? = did end",
    ),
}
LOOPS: dict[str, Case] = {
    "converges": Case(
        [loop(GO), call("see {{0.note}}", 0)],
        {"go": (again(), done("m"))},
        {"0(1).0": "ok", "0(2).0": "ok"},
        "ok = did see m",
        ["go", "go", "see m"],
    ),
    "does not converge": Case(
        [loop(GO), call("see {{0.note}}", 0)],
        {"go": (again("1"), again("2"), again("3"))},
        {"0": "ok not_converged", "1": "ok"},
        "partial ? = did see 3",
        ["go", "go", "go", "see 3"],
    ),
    "the turn before, in text": Case(
        [loop(call("it was: {{previous.note}}.", returns=FORM))],
        {"it was: .": again("one"), "it was: one.": done()},
        asked=["it was: .", "it was: one."],
    ),
    "is there a turn before": Case(
        [
            loop(
                call("first"),
                call("again", when=when("{{previous.done}}", exists=True), else_=0),
                call("go", 1, returns=FORM),
                until=when("{{2.done}}", is_=True),
            )
        ],
        {"go": (again(), done())},
        asked=["first", "go", "first", "again", "go"],
    ),
    "a failed turn": Case(
        [call("A"), loop(GO), call("end", 0, 1)],
        {"go": (again(), NO)},
        {"1": "failed turn"},
        "partial ? = did end",
        ["A", "go", "go", "end"],
    ),
    "for each item": Case(
        [loop(call("go {{item}}", returns=FORM), each=["a", "b"])],
        {"go a": (again(), done()), "go b": done()},
        {"0[0](2).0": "ok", "0[1](1).0": "ok"},
        "ok",
        ["go a", "go a", "go b"],
    ),
    "an item that does not converge is not enough": Case(
        [loop(call("go {{item}}", returns=FORM), each=["a", "b"], most=1, enough=2)],
        {"go a": again(), "go b": done()},
        {"0": "failed too_few"},
        "failed",
    ),
    "in a loop": Case(
        [loop(call("go", returns=FORM), loop(call("in", returns=FORM), most=2), most=2)],
        {"go": (again(), done()), "in": (again(), done(), done())},
        {"0(1).1(2).0": "ok", "0(2).1(1).0": "ok"},
        "ok",
        ["go", "go", "in", "in", "in"],
    ),
}
ACT = call("send", 0, worker=1)
GAPS: dict[str, Case] = {
    "a loop that did not converge": Case(
        [loop(GO, most=1), ACT, call("end", 0, 1)], {"go": again()}, {"1": "skipped"}, "partial", acts=True
    ),
    "a map with a failed item": Case(
        [call("read {{item}}", each=["a", "b"]), ACT, call("end", 0, 1)],
        {"read a": NO},
        {"1": "skipped"},
        "partial",
        acts=True,
    ),
    "a map with enough items": Case(
        [call("read {{item}}", each=["a", "b"], enough=1), ACT],
        {"read a": NO},
        {"1": "ok"},
        "ok = did send",
        acts=True,
    ),
    "a step that its condition skipped": Case(
        [
            call("go", returns=FORM),
            call("A", when=when("{{0.done}}", is_=True)),
            call("send", 0, 1, worker=1),
        ],
        {"go": again()},
        {"1": "skipped condition", "2": "ok"},
        "ok = did send",
        acts=True,
    ),
}
AGAIN: dict[str, Case] = {
    "equal items of a list": Case(
        [call("send {{item}}", worker=1, each=["a", "b", "a"])],
        ends={"0[0]": "ok", "0[2]": "ok"},
        run='ok = ["did send a","did send b","did send a"]',
        asked=["send a", "send b"],
        acts=True,
    ),
    "a number": Case([call("send", worker=1, each=3)], asked=["send"] * 3, acts=True),
    "turns": Case(
        [loop(GO, call("send", 0, worker=1))],
        {"go": (again(), done())},
        asked=["go", "go", "send", "send"],
        acts=True,
    ),
}
TABLES = {
    "condition": CONDITIONS,
    "skip": SKIPS,
    "branch": BRANCHES,
    "block": BLOCKS,
    "loop": LOOPS,
    "gap": GAPS,
    "again": AGAIN,
}
CASES = {f"{table}: {name}": case for table, cases in TABLES.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
async def test_branches_and_loops(name: str) -> None:
    """Each plan ends as the rules say."""
    await CASES[name].check()


async def test_an_item_that_does_not_converge_is_named() -> None:
    steps = [loop(call("go {{item}}", returns=FORM), each=["a", "b"], most=1)]
    ran = await carry_out(*steps, workers=team({"go a": done(), "go b": again()}))
    assert "0[1]" in problem_of(ran.result).message


async def test_more_turns_than_the_limits_allow() -> None:
    workers = team({"go": done()})
    with pytest.raises(PodiumError, match=r"(?s)4.*3|3.*4"):
        await carry_out(loop(GO, most=4), workers=workers, limits=Limits(turns=3))
    assert not any(worker.requests for worker in workers)
