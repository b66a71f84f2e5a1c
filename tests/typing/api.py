"""Typed uses of the public face: checked by mypy, never run."""

from collections.abc import AsyncGenerator
from typing import assert_type

from podium import (
    Card,
    ChatPlanner,
    ChatWorker,
    Conductor,
    Endpoint,
    FunctionWorker,
    Limits,
    Message,
    Plan,
    PlanReader,
    Pool,
    Result,
    RulePlanner,
    Sampling,
    ScriptedWorker,
    Step,
    parse_plan,
)
from podium.planners import CachedPlanner, FixedPlanner, Planner, PlanRequest, PlanText
from podium.types import Block, Completion, Event, Outcome, Proposal
from podium.workers import FREE, Request, StepInput, Worker


class Echo(Worker):
    """A worker of one's own."""

    card = Card(name="echo", price=FREE)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer with the request's text."""
        yield request.messages[-1].text
        yield Completion(request.messages[-1].text)


class One(Planner):
    """A planner of one's own."""

    name = "one"

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write one step."""
        yield PlanText(text='{"worker": 0, "subtask": "Answer.", "access": []}')


async def search(step_input: StepInput) -> str:
    """Find something."""
    return step_input.subtask


def count(step_input: StepInput) -> Completion:
    """Count something."""
    return Completion(str(len(step_input.visible)))


async def use() -> None:
    """Use everything the way people do."""
    server = Endpoint("https://example.org/v1", api_key="k", provider="vllm")
    model = ChatWorker("m", endpoint=server, sampling=Sampling(max_tokens=10))
    functions = FunctionWorker(search), FunctionWorker(count, price=FREE)
    pool = Pool([model, Echo(), *functions, ScriptedWorker("s", "x")])
    planner = CachedPlanner(ChatPlanner(model, spelling="json", show="ordinals"))
    limits = Limits(rounds=2)
    async with Conductor(planner, pool, limits=limits, accept=lambda q, a: len(a) > len(q)) as conductor:
        plan = await conductor.plan("why?")
        assert_type(plan, Plan)
        result = await conductor.run([Message("user", "why?")])
        assert_type(result, Result)
        assert_type(result.outcomes, tuple[Outcome, ...])
        assert_type(result.proposals, tuple[Proposal, ...])
        assert_type(result.cost, float | None)
        async for event in conductor.stream(plan):
            assert_type(event, Event)
    other = Conductor(FixedPlanner(plan), [conductor], fallback_planner=RulePlanner())
    assert_type(other.run_sync("why?"), Result)
    assert_type(await Conductor.of(ChatWorker("fugu", endpoint=server, api="responses")).run("why?"), Result)
    assert_type(parse_plan("", workers=["a"]), Plan)
    assert_type(PlanReader(workers=2).feed("…"), list[Step | Block])
