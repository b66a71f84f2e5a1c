"""What a plan is expected to cost before it is approved, or before a run is repeated with it."""

from dataclasses import asdict, replace

from pydantic import BaseModel, Field

from podium.conductor import Conductor
from podium.errors import PlanInvalid
from podium.journal import SqlJournal
from podium.run_state import fold
from podium.run_state.state import for_pool
from podium.types import Message, Plan
from podium_server.api.bodies import read_body
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.requests import PlanToForecast, plan_of
from podium_server.api.runs.route import RunsApi
from podium_server.errors import public_data
from podium_server.http import Exchange
from podium_server.keys import Caller


class Interval(BaseModel):
    """The expected range of an amount: 90% of runs are expected inside it."""

    low: float
    likely: float | None = Field(description="Null if it depends on outputs.")
    high: float


class PlanForecast(BaseModel):
    """What a plan is expected to need by itself."""

    calls: Interval
    input_tokens: Interval
    output_tokens: Interval
    cost: Interval | None = Field(description="In USD; null if the price of a worker is unknown.")
    seconds: Interval
    actions: int
    guessed: list[str] = Field(description="The workers with too few recorded calls, which are assumed.")


class Kept(BaseModel):
    """What of the plan is recorded in the run, and what is called."""

    results: int = Field(description="The recorded results that are reused.")
    cost: float | None = Field(description="What they have cost, in USD.")
    calls: int = Field(description="The calls that are expected, at least.")
    expected_cost: float | None = Field(description="The expected cost of these calls, in USD.")
    unlisted: list[str] = Field(description="The maps whose items are known only when they run.")


class ForecastAnswer(BaseModel):
    """The forecast of a plan of a run."""

    object: str = "forecast"
    plan: PlanForecast | None = Field(description="Null for a plan that sees the round before.")
    resumed: Kept = Field(description="If the run is continued with the plan.")


class ForecastApi:
    """`POST /v1/runs/{run_id}/forecast`. It calls no worker.

    Args:
        runs: finds runs.
        index: reads them.
        journal: has their records.
    """

    def __init__(self, runs: RunsApi, index: RunIndex, journal: SqlJournal) -> None:
        self._runs = runs
        self._index = index
        self._journal = journal

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Forecast a plan of a run, by default the plan of its last round.

        Raises:
            RunUnknown: there is no such run, or the caller may not see it.
            ModelUnknown: the server has no model with the name of the run's conductor.
            PlanError: the run has no plan yet, or the given plan is invalid or not allowed.
        """
        body = read_body(await exchange.body(), PlanToForecast)
        row = await self._runs.find(exchange, caller)
        events = [entry.event for entry in await self._index.read(row.run_id)]
        state = fold(events)
        if state.started is None:  # it waits in the queue
            raise PlanInvalid("nothing_to_keep", f"run {row.run_id} has not begun, and has no plan")
        conductor = self._runs.catalogue.find(state.started.conductor).conductor
        changed = plan_of(body.plan, conductor, state.workers)
        if changed is not None:
            plan = Plan.from_json(changed)
        else:
            plans = [each.plan for each in state.rounds_so_far() if each.plan is not None]
            if not plans:
                raise PlanInvalid("nothing_to_keep", f"run {row.run_id} has no plan yet")
            plan = for_pool(plans[-1], state.workers, conductor.pool.names)
        answer = ForecastAnswer(
            plan=_forecast(conductor, plan, state.started.query, state.started.context),
            resumed=await self._kept(conductor, row.run_id, plan),
        )
        await exchange.json(public_data(answer.model_dump(mode="json")))

    async def _kept(self, conductor: Conductor, run_id: str, plan: Plan) -> Kept:
        found = await conductor.preview(run_id, plan, journal=self._journal)
        return Kept(
            results=found.kept,
            cost=found.kept_cost,
            calls=found.expected.calls,
            expected_cost=found.expected.cost,
            unlisted=list(found.unlisted),
        )


def _forecast(
    conductor: Conductor, plan: Plan, query: tuple[Message, ...], context: dict[str, str]
) -> PlanForecast | None:
    if any(step.previous for step in plan.steps):
        return None
    found = asdict(conductor.forecast(replace(plan, query=query), context=context))
    return PlanForecast(**{name: found[name] for name in PlanForecast.model_fields})
