"""What runs have cost, by day and worker, and what a plan is expected to cost."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from time import time
from typing import Annotated, Any, Literal

import anyio
from pydantic import BaseModel, Field

from podium.conductor import Conductor
from podium.errors import PlanInvalid
from podium.hosts.completions import Body
from podium.journal import SqlJournal, Transaction
from podium.run_state import fold
from podium.run_state.state import for_pool
from podium.types import Message, Plan
from podium.types.events import SCHEMA
from podium_server.api.runs.query import RunIndex
from podium_server.api.runs.requests import Name, PlanToForecast, Time, plan_of
from podium_server.api.runs.route import RunsApi, key_of
from podium_server.errors import public_data
from podium_server.http import BadRequest, Exchange
from podium_server.http.exchange import read_body, read_query
from podium_server.jobs.table import JobTable
from podium_server.keys import Caller

PATH = "/v1/sums"
_DAY = 86400.0
_DAYS = 30
"""The default time, in days."""
_MOST_DAYS = 366
_ENDS = ("step_ended", "attempt_failed", "planner_ended")
"""The events that end calls."""


class SumsQuery(Body):
    """The parameters of `GET /v1/sums`."""

    since: Annotated[Time | None, Field(description="Runs that began then or later; 30 days ago.")] = None
    until: Annotated[Time | None, Field(description="Runs that began then or earlier.")] = None
    model: Name | None = None


class DaySum(BaseModel):
    """The runs that began on one day."""

    day: str = Field(description="In UTC, as in 2026-11-30.")
    runs: int
    cost: float = Field(description="What the runs that have ended cost, in USD.")
    unknown: int = Field(description="Runs whose cost is not known, or that have not ended.")


class WorkerSum(BaseModel):
    """The ended calls of one worker, or of one planner, in the runs of one day, without nested runs."""

    day: str
    worker: str
    role: Literal["worker", "planner"]
    calls: int
    cost: float = Field(description="In USD.")
    unpriced: int = Field(description="Calls whose cost is not known.")
    input_tokens: int
    output_tokens: int
    timed: int = Field(description="The steps, or calls of a planner, that are in `seconds`.")
    seconds: float = Field(description="From their starts to their ends, with retries.")


class Sums(BaseModel):
    """Sums by day and worker."""

    object: str = "sums"
    since: float
    until: float
    days: list[DaySum]
    workers: list[WorkerSum]


class SumsApi:
    """`GET /v1/sums`."""

    def __init__(self, table: JobTable, *, has_keys: bool) -> None:
        self._table = table
        self._has_keys = has_keys
        self._turn = anyio.Lock()
        """Many runs take seconds: then other requests to the database do not wait for a thread."""

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Sum the runs of the caller; with the role `see`, all runs."""
        query = read_query(exchange.query, SumsQuery)
        until = time() if query.until is None else query.until
        since = max(until - _DAYS * _DAY, 0.0) if query.since is None else query.since
        if not 0 <= until - since <= _MOST_DAYS * _DAY:
            raise BadRequest(f"since must be before until, by at most {_MOST_DAYS} days", param="since")
        which, values = ["run.parent IS NULL", "run.began BETWEEN ? AND ?"], list[Any]([since, until])
        if self._has_keys and (key_id := key_of(caller, None)) is not None:
            which.append("EXISTS (SELECT 1 FROM podium_turns WHERE run_id = run.run_id AND key_id = ?)")
            values.append(key_id)
        async with self._turn, self._table.opened() as database:
            sql = _Sql(is_postgres=database.is_postgres)
            if query.model is not None:
                first = "SELECT 1 FROM podium_events AS event WHERE run_id = run.run_id AND number = 0"
                which.append(f"EXISTS ({first} AND {sql.field('conductor')} = ?)")
                values.append(query.model)
            statements = [make(" AND ".join(which)) for make in (sql.days, sql.workers)]

            async def read(transaction: Transaction) -> list[Sequence[Any]]:
                return [await transaction.fetch(each, *values) for each in statements]

            days, workers = await database.transaction(read, reads=True)
        found = Sums(
            since=since,
            until=until,
            days=[DaySum(**dict(row)) for row in days],
            workers=[WorkerSum(**dict(row)) for row in workers],
        )
        await exchange.json(found.model_dump(mode="json"))


class _Sql:
    """The statements, in the SQL of a database."""

    def __init__(self, *, is_postgres: bool) -> None:
        self._is_postgres = is_postgres
        day = "to_char(to_timestamp(run.began) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
        self._day = day if is_postgres else "date(run.began, 'unixepoch')"

    def field(self, path: str) -> str:
        """Return the expression of a field of an event; `-1` in a path is the last item of a list."""
        if self._is_postgres:
            return f"(event.text::json #>> '{{event,{path.replace('.', ',')}}}')"
        return f"json_extract(event.text, '$.event.{path.replace('.-1', '[#-1]')}')"

    def _number(self, path: str) -> str:
        return f"CAST({self.field(path)} AS DOUBLE PRECISION)"

    def _billed(self, name: str) -> str:
        """Return the expression of a number of the bill of the call that an event ends.

        Of several calls of a step, its end is the end of the last.
        """
        bills = ", ".join(self._number(f"{each}.{name}") for each in ("outcome", "call", "proposal"))
        last = "outcome.calls.-1"
        is_last = f"{self.field(f'{last}.worker')} IS NOT NULL"
        return f"CASE WHEN {is_last} THEN {self._number(f'{last}.{name}')} ELSE coalesce({bills}) END"

    def days(self, which: str) -> str:
        """Return the query for the sums of runs by day."""
        return f"""
        SELECT {self._day} AS day, count(*) AS runs, coalesce(sum(run.cost), 0.0) AS cost,
        sum(CASE WHEN run.cost IS NULL THEN 1 ELSE 0 END) AS unknown
        FROM podium_runs AS run WHERE {which} GROUP BY 1 ORDER BY 1
        """  # noqa: S608 - no value from outside

    def workers(self, which: str) -> str:
        """Return the query for the sums of calls by day and worker.

        A failure that was told by itself, before its step ended, is counted once. A proposal that is reused
        has no seconds.
        """
        ends = [f'event.text LIKE \'{{"schema":{SCHEMA},"type":"{each}",%\'' for each in _ENDS]
        place = " || '.' || ".join(self.field(each) for each in ("round", "step", "attempt"))
        names = ("outcome.calls.-1.worker", "outcome.worker", "call.worker", "proposal.planner")
        read, written = (
            " + ".join(self._billed(f"usage.{kind}{name}_tokens") for kind in ("", "orchestration_"))
            for name in ("input", "output")
        )
        took = f"{self._number('outcome.ended')} - {self._number('outcome.started')}"
        is_new = "IS DISTINCT FROM 'true'" if self._is_postgres else "IS NOT 1"
        return f"""
        WITH call AS (
            SELECT {self._day} AS day, run.run_id, coalesce({place}, CAST(event.number AS TEXT)) AS place,
            coalesce({", ".join(self.field(each) for each in names)}) AS worker,
            CASE WHEN {self.field("proposal.planner")} IS NULL THEN 'worker' ELSE 'planner' END AS role,
            {self._billed("cost")} AS cost, {read} AS input_tokens, {written} AS output_tokens,
            max(coalesce({took}, {self._number("proposal.seconds")})) AS seconds
            FROM podium_runs AS run CROSS JOIN podium_events AS event
            WHERE event.run_id = run.run_id AND ({" OR ".join(ends)}) AND {which}
            AND coalesce({self._number("outcome.attempts")}, 1) > 0
            AND {self.field("outcome.reused")} {is_new}
            AND coalesce({self._number("proposal.seconds")}, 1) > 0
            GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
        )
        SELECT day, worker, role, count(*) AS calls, coalesce(sum(cost), 0.0) AS cost,
        sum(CASE WHEN cost IS NULL THEN 1 ELSE 0 END) AS unpriced,
        CAST(sum(input_tokens) AS BIGINT) AS input_tokens,
        CAST(sum(output_tokens) AS BIGINT) AS output_tokens, count(seconds) AS timed,
        coalesce(sum(seconds), 0.0) AS seconds
        FROM call GROUP BY 1, 2, 3 ORDER BY 1, 3, 2
        """  # noqa: S608 - as above


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
    """`POST /v1/runs/{run_id}/forecast`. It calls no worker."""

    def __init__(self, runs: RunsApi, index: RunIndex, journal: SqlJournal) -> None:
        self._runs = runs
        self._index = index
        self._journal = journal

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Forecast a plan of a run, by default the plan of its last round."""
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
