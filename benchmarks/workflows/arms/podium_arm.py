"""Podium: the job as a plan, with the limits that it needs."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from benchmarks.workflows.job import MODELS, USD_IN, USD_OUT, answer_of, key_of, workflow
from podium import Card, ChatWorker, Conductor, Endpoint, Limits, Price
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Plan, Result
from podium.workers import StepInput, Worker
from podium.workers.simple import FunctionWorker

RUN = "the-run"


def limits(files: int, slots: int, cost: float | None = None) -> Limits:
    """Return the limits of the job: only these are raised, all others are the defaults."""
    return Limits(
        calls=12 * files + 100,
        items=max(256, files),
        output_chars=max(400_000, 1_500 * files),
        concurrency=slots,
        cost=cost,
    )


async def run(asked: dict[str, Any]) -> dict[str, Any]:
    """Do the job once."""
    plan, endpoint = Plan.from_json(workflow()), Endpoint(asked["url"], api_key="none")
    price = Price(input=USD_IN, output=USD_OUT)
    team = [ChatWorker(name, endpoint=endpoint, card=Card(name=name, price=price)) for name in MODELS]
    async with AsyncExitStack() as stack:
        journal = SqlJournal(asked["journal"]) if asked.get("journal") else None
        conductor = await stack.enter_async_context(_conductor(plan, team, asked, journal))
        if asked.get("resume"):
            return _told(await conductor.resume(RUN))
        return _told(await conductor.run(plan, run_id=RUN if journal else None))


async def run_in_process(files: int, slots: int) -> dict[str, Any]:
    """Do the job once with workers in this process, which answer at once."""

    async def answer(step_input: StepInput) -> dict[str, Any]:
        return answer_of(key_of(step_input.subtask), files)

    plan = Plan.from_json(workflow())
    team = [FunctionWorker(answer, card=Card(name=name)) for name in MODELS]
    async with _conductor(plan, team, {"files": files, "slots": slots}, None) as conductor:
        result = await conductor.run(plan)
        return {**_told(result), "calls": sum(max(len(each.calls), 1) for each in result.outcomes)}


def _conductor(
    plan: Plan, team: Sequence[Worker], asked: dict[str, Any], journal: SqlJournal | None
) -> Conductor:
    return Conductor(
        FixedPlanner(plan),
        team,
        limits=limits(asked["files"], asked["slots"], asked.get("cost")),
        policy=Policy(fan_out=asked["fan_out"]) if "fan_out" in asked else None,
        journal=journal,
    )


def _told(result: Result) -> dict[str, Any]:
    return {
        "status": result.status,
        "answer": result.answer,
        "cost": result.cost,
        "problem": str(result.problem),
    }
