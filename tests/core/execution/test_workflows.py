"""Typed outputs, maps, conditions, branches, blocks, loops and actions: what runs, and how it ends."""

from typing import Any

import pytest
from core.actors import problem_of
from core.execution.flows import NO, Case, block, call, carry_out, plan_of, team, told, when
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Limits
from podium.errors import PodiumError

pytestmark = pytest.mark.anyio
KINDS = {"files": ["string"], "kind": "ok|bad", "n": "integer", "note?": "string", "note2?": "string"}
LIST = call("list", returns=KINDS)
"""A step that finds three files."""
FOUND: dict[str, Any] = {"files": ["a", "b", "c"], "kind": "ok", "n": 2}
FILES: dict[str, Any] = {"list": FOUND}
ANY = call("go", returns={"type": "object", "properties": {"x": {}}, "required": ["x"]})
READ = call("read {{item}}", each="{{0.files}}")
FIX = block(
    call("judge {{item}}", returns="bug|good|other"),
    call("fix {{item}}", when=when("{{0}}", is_="bug")),
    call("praise {{item}}", when=when("{{0}}", is_="good")),
    each=["a", "b"],
)
TYPED = call("go", returns={"type": "object", "properties": {"x": {}, "y": {}}, "required": ["x"]})
X = "{{0.x}}"


def absent(**tests: Any) -> list[dict[str, Any]]:
    """Return a condition on an absent field, in a plan that goes on."""
    return [TYPED, call("B", when=when("{{0.y}}", **tests), else_=0)]


HAS_X = {"go": {"x": 1}}
NOT = when(X, is_=2)
IS = when(X, is_=1)
DONE = when("{{0.done}}", is_=True)
FORM = {"done": "boolean", "note": "string"}


def again(note: str = "n") -> dict[str, Any]:
    return {"done": False, "note": note}


def loop(*steps: dict[str, Any], most: int = 3, **keys: Any) -> dict[str, Any]:
    return block(*steps, **{"until": DONE, "most": most} | keys)


GO = call("go", returns=FORM)
YES = {"done": True, "note": "n"}
ACT = call("send", 0, worker=1)

CASES: dict[str, Case] = {
    "map: a list": Case(
        [LIST, READ],
        FILES,
        {"1[0]": "ok = did read a", "1[2]": "ok = did read c"},
        run='ok = ["did read a","did read b","did read c"]',
        saw={"read a": []},
    ),
    "map: a failed item": Case(
        [LIST, READ],
        FILES | {"read b": NO},
        {"1[1]": "failed worker_refused", "1": 'ok items = ["did read a",null,"did read c"]'},
        run='partial ? = ["did read a",null,"did read c"]',
    ),
    "map: all failed": Case(
        [call("read {{item}}", each=["a", "b"]), call("end", 0)],
        {"read a": NO, "read b": NO},
        {"0": "failed items", "1": "skipped"},
        run="failed",
        asked=["read a", "read b"],
    ),
    "map: too many": Case(
        [LIST, READ], FILES, {"1": "failed bad_list"}, "failed", ["list"], limits=Limits(items=2)
    ),
    "map: no list": Case(
        [ANY, call("try", each="{{0.x}}")], {"go": {"x": "abc"}}, {"1": "failed bad_list"}, "failed", ["go"]
    ),
    "enough: reached": Case(
        [LIST, READ | {"enough": 2}],
        FILES | {"read b": NO},
        {"1": 'ok = ["did read a",null,"did read c"]'},
        run='ok = ["did read a",null,"did read c"]',
    ),
    "enough: missed": Case(
        [LIST, READ | {"enough": 2}],
        FILES | {"read a": NO, "read b": NO},
        {"1": "failed too_few"},
        run="failed",
    ),
    "filter: some": Case(
        [FIX, call("see {{item}}", each="{{0}}")],
        {"judge a": '"bug"', "judge b": '"other"'},
        {
            "0[1]": "skipped no_branch",
            "0": 'ok = ["did fix a",null]',
            "0[1].1": "skipped condition",
            "1[1]": "skipped",
        },
        run='ok = ["did see did fix a",null]',
    ),
    "condition: an absent field": Case(absent(is_=1), HAS_X, {"1": "failed bad_value"}, "failed", ["go"]),
    "condition: presence is asked first": Case(
        absent(exists=True, is_=1), HAS_X, run='ok = {"x":1}', asked=["go"]
    ),
    "branch: the last of two": Case(
        [TYPED, call("A", when=IS), call("B", when=IS)], HAS_X, {"1": "skipped"}, "ok = did B", ["go", "B"]
    ),
    "branch: an action": Case(
        [TYPED, call("A", worker=1, when=IS), call("B", when=IS)],
        HAS_X,
        {"1": "ok"},
        "ok = did B",
        ["go", "A", "B"],
        acts=True,
    ),
    "branch: a map over a map that was skipped takes the list of its else": Case(
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
    "branch: a map over its list beside a skipped step": Case(
        [
            TYPED,
            call("A", when=NOT),
            call("B {{item}}", each=["x", "y"]),
            call("C", 1, 2, each="{{2}}"),
        ],
        HAS_X,
        {"1": "skipped condition"},
        run='ok = ["did C","did C"]',
        asked=["go", "B x", "B y", "C", "C"],
    ),
    "branch: a block without a branch": Case(
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
    "branch: none, and no step after it": Case(
        [
            TYPED,
            block(call("A", when=when("{{outer.0.x}}", is_=3)), call("B", when=when("{{outer.0.x}}", is_=2))),
        ],
        HAS_X,
        {"1": "skipped no_branch"},
        "failed no_branch",
    ),
    "block: a block": Case(
        [call("A"), block(call("B", "outer"), call("C", 0), access=[0]), call("end", 1)],
        ends={"1.0": "ok = did B", "1.1": "ok = did C", "1": "ok = did C"},
        saw={"B": ["did A"], "C": ["did B"], "end": ["did C"]},
    ),
    "loop: does not converge": Case(
        [loop(GO), call("see {{0.note}}", 0)],
        {"go": (again("1"), again("2"), again("3"))},
        {"0": "ok not_converged", "1": "ok"},
        "partial ? = did see 3",
        ["go", "go", "go", "see 3"],
    ),
    "loop: is there a turn before": Case(
        [
            loop(
                call("first"),
                call("again", when=when("{{previous.done}}", exists=True), else_=0),
                call("go", 1, returns=FORM),
                until=when("{{2.done}}", is_=True),
            )
        ],
        {"go": (again(), YES)},
        asked=["first", "go", "first", "again", "go"],
    ),
    "loop: an item that does not converge is not enough": Case(
        [loop(call("go {{item}}", returns=FORM), each=["a", "b"], most=1, enough=2)],
        {"go a": again(), "go b": YES},
        {"0": "failed too_few"},
        "failed",
    ),
    "gap: a loop that did not converge": Case(
        [loop(GO, most=1), ACT, call("end", 0, 1)], {"go": again()}, {"1": "skipped"}, "partial", acts=True
    ),
    "gap: a map with a failed item": Case(
        [call("read {{item}}", each=["a", "b"]), ACT, call("end", 0, 1)],
        {"read a": NO},
        {"1": "skipped"},
        "partial",
        acts=True,
    ),
    "gap: a map with enough items": Case(
        [call("read {{item}}", each=["a", "b"], enough=1), ACT],
        {"read a": NO},
        {"1": "ok"},
        "ok = did send",
        acts=True,
    ),
    "gap: a step that its condition skipped": Case(
        [call("go", returns=FORM), call("A", when=DONE), call("send", 0, 1, worker=1)],
        {"go": again()},
        {"1": "skipped condition", "2": "ok"},
        "ok = did send",
        acts=True,
    ),
    "again: equal items of a list": Case(
        [call("send {{item}}", worker=1, each=["a", "b", "a"])],
        ends={"0[0]": "ok", "0[2]": "ok"},
        run='ok = ["did send a","did send b","did send a"]',
        asked=["send a", "send b"],
        acts=True,
    ),
    "again: a number": Case([call("send", worker=1, each=3)], asked=["send"] * 3, acts=True),
    "again: turns": Case(
        [loop(GO, call("send", 0, worker=1))],
        {"go": (again(), YES)},
        asked=["go", "go", "send", "send"],
        acts=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_each_plan_ends_as_the_rules_say(name: str) -> None:
    await CASES[name].check()


async def test_an_item_that_does_not_converge_is_named() -> None:
    steps = [loop(call("go {{item}}", returns=FORM), each=["a", "b"], most=1)]
    ran = await carry_out(*steps, workers=team({"go a": YES, "go b": again()}))
    assert "0[1]" in problem_of(ran.result).message


async def test_more_turns_than_the_limits_allow() -> None:
    workers = team({"go": YES})
    with pytest.raises(PodiumError, match=r"(?s)4.*3|3.*4"):
        await carry_out(loop(GO, most=4), workers=workers, limits=Limits(turns=3))
    assert not any(worker.requests for worker in workers)


async def test_a_whole_map_for_a_tool() -> None:
    steps = [call("read {{item}}", each=["a", "b"]), call("{{0}}", 0, worker=1)]
    ran = await carry_out(*steps, workers=team(prose=False))
    assert ran.workers[1].requests[0].step_input.subtask == '["did read a","did read b"]'


async def test_enough_stops_the_other_items() -> None:
    steps = [LIST, READ | {"enough": 2}, call("sum {{item}}", each="{{1}}")]
    workers = team(FILES, {"read a": 1.0, "read b": 9.0, "read c": 2.0, "sum did read a": 20.0})
    ran = await carry_out(*steps, workers=workers)
    assert (ran.ends["1[1]"], ran.ends["2[1]"].split()[0]) == ("cancelled enough", "skipped")
    assert ran.ends["1"] == 'ok = ["did read a",null,"did read c"]'
    assert told(ran.result) == 'ok = ["did sum did read a",null,"did sum did read c"]'
    assert (ran.result.seconds, workers[0].stopped) == (21.0, 1)


async def test_steps_of_plans_count_and_items_do_not() -> None:
    steps = [block(call("a {{item}}"), call("b", 0), each=["x", "y", "z"])]
    ran = await carry_out(*steps, limits=Limits(plan_steps=2, steps=2))
    assert (ran.result.status, len(ran.requests)) == ("ok", 6)
    refused = plan_of(*steps, call("c"))
    with pytest.raises(Exception, match="3 steps"):
        refused.fit(2, 2)
