"""Typed outputs, maps, conditions and branches in runs: what runs, what is shown, and how it ends."""

from typing import Any

import pytest
from core.execution.flows import NO, Case, block, call, carry_out, plan_of, team, told, when
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Limits

pytestmark = pytest.mark.anyio
LIST = call(
    "list",
    returns={"files": ["string"], "kind": "ok|bad", "n": "integer", "note?": "string", "note2?": "string"},
)
"""A step that finds three files."""
FOUND: dict[str, Any] = {"files": ["a", "b", "c"], "kind": "ok", "n": 2}
FILES: dict[str, Any] = {"list": FOUND}
ANY: dict[str, Any] = {"type": "object", "properties": {"x": {}}, "required": ["x"]}
TYPED = call("go", returns=ANY)
READ = call("read {{item}}", each="{{0.files}}")
HITS = call("read {{item}}", each="{{0.files}}", returns={"id": "integer", "hits": ["string"]})
HIT = FILES | {
    "read a": {"id": 1, "hits": ["x", "y"]},
    "read b": {"id": 2, "hits": []},
    "read c": {"id": 3, "hits": ["z"]},
}
"""The hits of three files."""


OUTPUTS: dict[str, Case] = {
    "a list at the top": Case(
        [call("go", returns=["string"]), call("see {{item}}", each="{{0}}")],
        {"go": ["a"]},
        asked=["go", "see a"],
    ),
    "an item that does not fit": Case(
        [call("go {{item}}", each=["a", "b"], returns="integer")],
        {"go a": "1", "go b": "one"},
        {"0[1]": "failed bad_output"},
        run="partial ? = [1,null]",
        asked=["go a", "go b", "go b"],
    ),
}
FILLED: dict[str, Case] = {
    "values in text": Case(
        [TYPED, call("say {{0.x.ok}} {{0.x.tags}} {{0.x.name}} {{0.x.none}}", 0)],
        {"go": {"x": {"ok": True, "tags": ["é"], "name": "ann", "none": None}}},
        asked=["go", 'say true ["é"] ann null'],
    ),
    "values in JSON": Case(
        [TYPED, call('{"q": "{{0.x.tags}}", "t": "of {{0.x.tags}}", "n": ["{{0.x.ok}}", 1]}', 0)],
        {"go": {"x": {"ok": True, "tags": ["a"]}}},
        asked=["go", '{"q":["a"],"t":"of [\\"a\\"]","n":[true,1]}'],
    ),
    "once": Case(
        [LIST, READ],
        {"list": FOUND | {"files": ["{{index}}", "{{0}}"]}},
        asked=["list", "read {{index}}", "read {{0}}"],
    ),
    "a bare number is words": Case(
        [call("A"), call("see {{0}}", 0)],
        asked=["A", "see the output of step 0"],
        saw={"see the output of step 0": ["did A"]},
    ),
    "items of a map": Case(
        [LIST, HITS, call("sum {{1.id}}, {{1.hits}}, {{1.2.id}}", 1)],
        HIT,
        run='ok = did sum [1,2,3], ["x","y","z"], 3',
    ),
}
MAPS: dict[str, Case] = {
    "a list": Case(
        [LIST, READ],
        FILES,
        {"1[0]": "ok = did read a", "1[2]": "ok = did read c"},
        run='ok = ["did read a","did read b","did read c"]',
        saw={"read a": []},
    ),
    "a number": Case(
        [call("try {{item}} {{index}}", each=3)],
        ends={"0(0)": "ok = did try 0 0", "0(2)": "ok = did try 2 2"},
        asked=["try 0 0", "try 1 1", "try 2 2"],
    ),
    "a name": Case(
        [call("read {{file}} {{item}} {{index}}", each=["a", "b"], as_="file")],
        asked=["read a a 0", "read b b 1"],
    ),
    "none": Case([LIST, READ], {"list": FOUND | {"files": []}}, run="ok = []", asked=["list"]),
    "none, but some wanted": Case(
        [LIST, READ | {"enough": 1}], {"list": FOUND | {"files": []}}, {"1": "failed too_few"}, run="failed"
    ),
    "a failed item": Case(
        [LIST, READ],
        FILES | {"read b": NO},
        {"1[1]": "failed worker_refused", "1": 'ok items = ["did read a",null,"did read c"]'},
        run='partial ? = ["did read a",null,"did read c"]',
    ),
    "all failed": Case(
        [call("read {{item}}", each=["a", "b"]), call("end", 0)],
        {"read a": NO, "read b": NO},
        {"0": "failed items", "1": "skipped"},
        run="failed",
        asked=["read a", "read b"],
    ),
    "too many": Case(
        [LIST, READ], FILES, {"1": "failed bad_list"}, "failed", ["list"], limits=Limits(items=2)
    ),
} | {
    f"no list: {value!r}": Case(
        [TYPED, call("try", each="{{0.x}}")], {"go": {"x": value}}, {"1": "failed bad_list"}, "failed", ["go"]
    )
    for value in (2.5, "abc")
}
CHAINS: dict[str, Case] = {
    "a failure before": Case(
        [LIST, READ, call("sum {{item}}", each="{{1}}")],
        FILES | {"read b": NO},
        {"2[1]": "skipped"},
        run='partial ? = ["did sum did read a",null,"did sum did read c"]',
        asked=["list", "read a", "read b", "read c", "sum did read a", "sum did read c"],
    ),
    "the same list, referred to": Case(
        [LIST, HITS, call("sum {{1.id}}", 1, each="{{0.files}}")],
        HIT,
        asked=["list", "read a", "read b", "read c", "sum 1", "sum 2", "sum 3"],
    ),
    "other lists": Case(
        [call("read {{item}}", each=["a", "b"]), call("sum {{item}}", 0, each=["a", "b"])],
        saw={"sum b": ['["did read a","did read b"]']},
    ),
    "joined lists": Case(
        [LIST, HITS, call("check {{item}}", 1, each="{{1.hits}}")],
        HIT,
        {"2[0.0]": "ok = did check x", "2[0.1]": "ok = did check y", "2[2.0]": "ok = did check z"},
        run='ok = ["did check x","did check y","did check z"]',
        saw={"check z": ['{"id":3,"hits":["z"]}']},
    ),
    "a block of the same list": Case(
        [
            LIST,
            HITS,
            block(
                call("see {{outer.1.id}}", "outer"),
                call("end {{file}}", 0),
                access=[1],
                each="{{0.files}}",
                as_="file",
            ),
        ],
        HIT,
        {"2[1].0": "ok = did see 2", "2[1]": "ok = did end b"},
        saw={"see 3": ['{"id":3,"hits":["z"]}'], "end c": ["did see 3"]},
    ),
}
ENOUGH: dict[str, Case] = {
    "reached": Case(
        [LIST, READ | {"enough": 2}],
        FILES | {"read b": NO},
        {"1": 'ok = ["did read a",null,"did read c"]'},
        run='ok = ["did read a",null,"did read c"]',
    ),
    "missed": Case(
        [LIST, READ | {"enough": 2}],
        FILES | {"read a": NO, "read b": NO},
        {"1": "failed too_few"},
        run="failed",
    ),
    "a failure before, then enough": Case(
        [LIST, READ, call("sum {{item}}", each="{{1}}", enough=2)],
        FILES | {"read b": NO},
        run='partial ? = ["did sum did read a",null,"did sum did read c"]',
    ),
}
FIX = block(
    call("judge {{item}}", returns="bug|good|other"),
    call("fix {{item}}", when=when("{{0}}", is_="bug")),
    call("praise {{item}}", when=when("{{0}}", is_="good")),
    each=["a", "b"],
)
FILTERS: dict[str, Case] = {
    "some": Case(
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
    "none": Case(
        [FIX],
        {"judge a": '"other"', "judge b": '"other"'},
        {"0": "skipped"},
        run="failed no_branch",
        asked=["judge a", "judge b"],
    ),
}
TABLES = {
    "output": OUTPUTS,
    "filled": FILLED,
    "map": MAPS,
    "chain": CHAINS,
    "enough": ENOUGH,
    "filter": FILTERS,
}
CASES = {f"{table}: {name}": case for table, cases in TABLES.items() for name, case in cases.items()}


@pytest.mark.parametrize("name", CASES)
async def test_maps(name: str) -> None:
    """Each plan ends as the rules say."""
    await CASES[name].check()


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
