"""Blocks, loops, and actions in workflows."""

from typing import Any

import pytest
from core.actors import problem_of
from core.execution.flows import NO, Case, block, call, carry_out, team, when
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Limits
from podium.errors import PodiumError

pytestmark = pytest.mark.anyio
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
TABLES = {"block": BLOCKS, "loop": LOOPS, "gap": GAPS, "again": AGAIN}
CASES = {f"{table}: {name}": case for table, cases in TABLES.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
async def test_loops(name: str) -> None:
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
