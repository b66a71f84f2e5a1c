"""Order, early start, labels, limits and resumes of runs of workflows."""

from typing import Any

import pytest
from core.actors import ONCE, problem_of, slowly
from core.execution.flows import Player, Ran, block, call, carry_out, conductor, plan_of, team, told, when
from core.virtual_clock import anyio_backend  # noqa: F401 - a fixture

from podium import Conductor, Limits
from podium.errors import WorkerRefused
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.policy import Policy, Rule

pytestmark = pytest.mark.anyio
LIST = call("list", returns={"files": ["string"], "ok": "boolean"})
FILES = {"list": {"files": ["a", "b"], "ok": True}}
READ = call("read {{item}}", each="{{0.files}}")
UNTRUSTED = Policy(rules=[Rule("untrusted", never="write-tools")])
SUM = call("sum {{item}}", each="{{0}}")
BOTH = "{{item}}{{index}}"
FAILING = {"read b": WorkerRefused("no")}


def starts(ran: Ran) -> dict[str, float | None]:
    return {name: ran.outcome(name).started for name in ran.ends}


async def test_a_map_over_a_map_has_no_barrier() -> None:
    steps = [LIST, READ, call("sum {{item}}", each="{{1}}"), call("end", 2)]
    begun = starts(await carry_out(*steps, workers=team(FILES, {"read a": 1.0, "read b": 5.0})))
    assert (begun["2[0]"], begun["2[1]"], begun["3"]) == (1.0, 5.0, 5.0)


async def test_only_plain_steps_start_early() -> None:
    steps = [
        call("plain"),
        call("typed", returns={"ok": "boolean"}),
        call("item {{item}}", each=["a"]),
        call("branch", when=when("{{1.ok}}", is_=True)),
        block(call("inner")),
        call("act", worker=1),
        call("end", 0, 2, 3, 4, 5),
    ]
    workers, planner = team({"typed": {"ok": True}}, acts=True), slowly(write_plan(plan_of(*steps), "rows"))
    begun = starts(Ran((await Conductor(planner, workers, retry=ONCE).run("What?")), workers))
    assert (begun["0"], [begun[name] for name in ("2[0]", "3", "4.0", "5")]) == (1.0, [7.0] * 4)


def labelled(answers: Any) -> list[Player]:
    """Return a worker that may not be trusted, and one that may not read what that one wrote."""
    return team(answers, labels=(["untrusted"], ["write-tools"]))


@pytest.mark.parametrize(
    "steps",
    [
        [LIST, call("send", worker=1, when=when("{{0.ok}}", is_=True), else_=0)],
        [LIST, block(call("send {{item}}", worker=1), each="{{0.files}}")],
        [LIST, block(call("send", "outer", worker=1), access=[0])],
    ],
    ids=["condition", "item of a block", "outer"],
)
async def test_a_forbidden_label_reaches_what_a_reference_leads_to(steps: list[dict[str, Any]]) -> None:
    workers = labelled(FILES)
    try:
        result = (await carry_out(*steps, workers=workers, policy=UNTRUSTED)).result
    except Exception as error:  # noqa: BLE001 - a given plan may be refused before the run, with any error of a policy
        assert "untrusted" in str(error)  # noqa: PT017
    else:
        assert all("send" not in each.text for each in result.outcomes)
    assert not workers[1].requests


@pytest.mark.parametrize(("calls", "end"), [(3, "failed limit"), (4, "ok = did end")])
async def test_a_gate_leaves_room_for_the_steps_after_the_map(calls: int, end: str) -> None:
    ran = await carry_out(LIST, READ, call("end", 1), workers=team(FILES), limits=Limits(calls=calls))
    assert (told(ran.result), len(ran.requests)) == (end, (4 if calls == 4 else 1))


async def test_a_gate_before_a_turn() -> None:
    go, until = call("go", returns={"ok": "boolean"}), when("{{0.ok}}", is_=True)
    loop = block(go, call("say", 0), until=until, most=5)
    ran = await carry_out(loop, workers=team({"go": {"ok": False}}), limits=Limits(calls=3))
    assert (ran.asked, problem_of(ran.result).code) == (["go", "say"], "limit")


async def test_a_threshold_without_a_person_ends_the_run_and_a_higher_one_goes_on() -> None:
    journal, steps = MemoryJournal(), [LIST, READ, call("end", 1)]
    options: dict[str, Any] = {"ask_above": {"calls": 3}}
    given: dict[str, Any] = {"journal": journal, "policy": Policy(**options), "run": {"run_id": "R"}}
    ran = await carry_out(*steps, workers=team(FILES), **given)
    assert (told(ran.result), ran.asked) == ("failed limit", ["list"])
    workers, options = team(FILES), {"ask_above": {"calls": 4}}
    result = await conductor(workers, plan_of(*steps), journal=journal, policy=Policy(**options)).resume("R")
    assert (told(result), Ran(result, workers).asked) == ("ok = did end", ["end", "read a", "read b"])


async def resumed(old: Any, new: Any, before: list[Player], after: list[Player], **options: Any) -> Ran:
    """Run a plan, and resume the run, with a new plan if one is given."""
    journal, plan = MemoryJournal(), plan_of(*old)
    await conductor(before, plan, journal=journal).run(plan, run_id="R")
    changed = {} if new is None else {"plan": plan_of(*new)}
    return Ran((await conductor(after, plan, journal=journal).resume("R", **changed, **options)), after)


def over(*items: object, subtask: str = "read {{item}}") -> dict[str, Any]:
    return call(subtask, each=[*items])


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ([over("a", "b")], [over("a", "b", "c", "d", "e")], ["read c", "read d", "read e"]),
        ([over("a", "a")], [over("a", "a", "a")], ["read a"]),
        ([over("a", "b", subtask=BOTH)], [over("c", "a", "b", subtask=BOTH)], ["a1", "b2", "c0"]),
        ([over("a", "b"), SUM], [over("a", "c", "b"), SUM], ["read c", "sum did read c"]),
        (
            [call("vote {{index}}", each=3, enough=2), call("count", 0), call("end", 1)],
            [call("vote {{index}}", each=3, enough=2), call("count", 0), call("last", 1)],
            ["last"],
        ),
    ],
)
async def test_a_changed_plan_pays_for_what_is_new(old: Any, new: Any, asked: list[str]) -> None:
    ran = await resumed(old, new, team(), team())
    assert (ran.result.status, ran.asked) == ("ok", asked)
    maps = [each.name for each in ran.result.outcomes if not each.attempts]
    assert len(maps) == len({*maps})


async def test_failed_items_are_asked_again_and_readers_are_kept() -> None:
    steps = [over("a", "b"), call("end", 0)]
    ran = await resumed(steps, None, team(FAILING), team())
    assert (ran.result.status, ran.asked) == ("partial", ["read b"])
    ran = await resumed(steps, None, team(FAILING), team(), refresh=True)
    assert (told(ran.result), ran.asked) == ("ok = did end", ["end", "read b"])
