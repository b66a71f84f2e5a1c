"""Steps start while the rest of their plan is still being written, wherever that is right."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import anyio
import pytest
from core.actors import Actor, PlanningActor, Row, answering, rows, slowly
from core.plans import plans
from core.virtual_clock import OPTIONS, anyio_backend  # noqa: F401 - a fixture
from hypothesis import given, strategies as st

from podium import Card, Conductor, Plan, Result, Sampling
from podium.errors import PlanForbidden, PlannerError
from podium.planners import PlanRequest, PlanText
from podium.policy import ApprovalRequest, Pin, Policy, Rule
from podium.types import Tools
from podium.workers import FREE

pytestmark = pytest.mark.anyio

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
DIAMOND: tuple[Row, ...] = ((0, "find", ()), (1, "seek", ()), (1, "compare", (0, 1)), (2, "answer", (2,)))
LABELS = {"finder": {"eu", "untrusted"}, "reader": {"eu"}, "writer": {"eu"}, "mailer": {"eu", "write-tools"}}


def team() -> list[Actor]:
    cards = [Card(name=name, price=FREE, labels=frozenset(own)) for name, own in LABELS.items()]
    team = [Actor(card, answering(card.name, latency=1.0)) for card in cards]
    for worker in team:
        worker.takes_tools = True
    return team


def starts(result: Result) -> list[float | None]:
    return [outcome.started for outcome in result.outcomes]


async def _approve(_: ApprovalRequest) -> bool:
    return True


ROW_BY_ROW = [
    Policy(),
    Policy(allowed=["eu"]),
    Policy(rules=[Rule("untrusted", never="write-tools")]),
    Policy(pins=[Pin("answer", "writer")]),
    Policy(also=(Policy(denied=["mailer"]),)),
]
WHOLE = [Policy(required=["writer"]), Policy(approve=_approve), Policy(also=(Policy(required=["writer"]),))]


@pytest.mark.parametrize(
    ("policy", "first"), [*((each, 1.0) for each in ROW_BY_ROW), *((each, 4.0) for each in WHOLE)]
)
async def test_only_a_rule_about_whole_plans_waits_for_the_whole_plan(policy: Policy, first: float) -> None:
    result = await Conductor(slowly(rows(*DIAMOND)), team(), policy=policy).run("Why?")
    assert (result.status, result.answer) == ("ok", "writer")
    assert starts(result) == ([1.0, 2.0, 3.0, 4.0] if first == 1.0 else [4.0, 4.0, 5.0, 6.0])


@pytest.mark.parametrize("options", [{"sampling": Sampling(max_tokens=5)}, {"tools": Tools((TOOL,), "none")}])
@pytest.mark.parametrize("policy", [None, ROW_BY_ROW[1]])
async def test_only_the_last_step_waits_for_the_end_of_the_plan(options: Any, policy: Policy | None) -> None:
    workers = team()
    result = await Conductor(slowly(rows(*DIAMOND)), workers).run("Why?", policy=policy, **options)
    assert (result.status, starts(result)) == ("ok", [2.0, 3.0, 4.0, 5.0])
    bound = {(request.tools is not None, request.sampling) for request in workers[2].requests}
    tools, sampling = "tools" in options, options.get("sampling", Sampling())
    assert bound == {(tools, sampling)}
    others = [request for worker in workers[:2] for request in worker.requests]
    assert {(request.tools, request.sampling) for request in others} == {(None, Sampling())}


async def test_steps_that_may_call_tools_wait_for_the_end_of_the_plan() -> None:
    workers = team()
    workers[0].takes_tools = False
    result = await Conductor(slowly(rows(*DIAMOND)), workers).run("Why?", tools=[TOOL])
    assert (result.status, starts(result)) == ("ok", [2.0, 4.0, 5.0, 6.0])


async def test_nothing_of_a_forbidden_line_starts_and_nothing_after_it() -> None:
    workers = team()
    bad = rows((0, "find", ()), (3, "mail", (0,)), (1, "compare", (0,)))
    policy = Policy(rules=[Rule("untrusted", never="write-tools")])
    planner = slowly(bad, rows((0, "find", ()), (2, "answer", (0,))))
    result = await Conductor(planner, workers, policy=policy).run("Why?")
    assert (result.status, result.answer) == ("ok", "writer")
    refused = result.proposals[0].problem
    assert (refused.code, [len(worker.requests) for worker in workers]) == (PlanForbidden.code, [1, 0, 1, 0])
    assert starts(result)[0] == 1.0


WORDS = ("finder", "reader", "writer", "mailer", "untrusted", "write-tools")
POLICIES = st.builds(
    Policy,
    denied=st.sets(st.sampled_from(WORDS), max_size=1),
    rules=st.lists(st.builds(Rule, st.sampled_from(WORDS), never=st.sampled_from(WORDS)), max_size=2),
    pins=st.lists(
        st.builds(Pin, st.sampled_from(["compare", "answer"]), st.sampled_from(WORDS[:4])), max_size=1
    ),
)


@given(plan=plans(4, 5, words=["find", "compare", "answer"]), policy=POLICIES, bound=st.booleans())
def test_an_early_start_changes_no_run(plan: Plan, policy: Policy, *, bound: bool) -> None:
    text = rows(*[(step.worker, step.subtask, step.access) for step in plan.steps])

    async def run(planner: PlanningActor) -> Sequence[object]:
        sampling = Sampling(max_tokens=5) if bound else Sampling()
        fallback = slowly(rows((2, "answer", ())))
        conductor = Conductor(planner, team(), policy=policy, fallback_planner=fallback)
        try:
            result = await conductor.run("Why?", sampling=sampling)
        except PlannerError as error:  # the policy forbids the fallback's plan, too
            return [error.code]
        current = result.rounds[-1]
        needed = () if current.plan is None else sorted(current.plan.needed)
        outcomes = [current.outcomes[index] for index in needed]
        return [result.status, result.answer, [(o.worker, o.status, o.text, o.shown) for o in outcomes]]

    async def at_once(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        yield PlanText(text=text)

    async def both() -> None:
        assert await run(slowly(text)) == await run(PlanningActor(at_once))

    anyio.run(both, backend_options=OPTIONS)
