"""Starts, approves, cancels, resumes, replays and deletes runs."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import anyio

from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError, RunHeld, RunUnknown
from podium.journal import RunRow, SqlJournal
from podium.run_state import fold
from podium.types import Event, Plan, RunStarted
from podium.types.messages import read_conversation
from podium_server.api.runs.forms import KIND, workers_of
from podium_server.api.runs.job import asked_of
from podium_server.api.runs.requests import (
    ActionEnd,
    Approval,
    ChangedRun,
    Decision,
    EditedPlan,
    JobRequest,
    NestedRun,
    NewRun,
    NotCancellable,
    NotWaiting,
    PlanBody,
    ReplayedRun,
    plan_of,
)
from podium_server.api.runs.route import PATH, RunsApi
from podium_server.errors import public_data
from podium_server.http import Exchange
from podium_server.http.exchange import fingerprint_of, read_body, read_messages
from podium_server.jobs.jobs import Jobs
from podium_server.jobs.table import FAILED, new_job
from podium_server.keys import Access, Caller, Role
from podium_server.turn import Turns, check_tool_results

_CANCEL_SECONDS = 10.0


class RunActions:
    """The `POST` and `DELETE` requests of the runs API."""

    def __init__(
        self,
        runs: RunsApi,
        jobs: Jobs,
        turns: Turns,
        access: Access,
        journal: SqlJournal,
    ) -> None:
        self._runs = runs
        self._jobs = jobs
        self._turns = turns
        self._access = access
        self._journal = journal

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Start a run in the background."""
        raw = await exchange.body()
        body = read_body(raw, NewRun)
        model = self._turns.find(caller, body.model)
        conductor = model.conductor
        query = [{"role": "user", "content": body.query}] if isinstance(body.query, str) else body.query
        messages = read_messages("query", query)
        read_conversation(query)
        check_tool_results(messages)
        request = JobRequest(
            kind="begin",
            model=model.name,
            query=query,
            plan=plan_of(body.plan, conductor),
            limits=body.limits or {},
            labels=body.labels,
            context=body.context,
            effort=body.effort,
            only_plans=body.only_plans,
        )
        while True:
            named = self._turns.named(caller, exchange.idempotency_key(), fingerprint_of(PATH, raw))
            async with named as (run_id, is_known):
                is_new = not is_known and await self._begin(run_id, caller.caller_id, request)
            try:
                return await self._accepted(exchange, run_id, is_repeated=not is_new)
            except RunUnknown:  # the run was just deleted, or was refused at another replica: begin it again
                if is_new:
                    raise

    async def approve(self, exchange: Exchange, caller: Caller) -> None:
        """Approve what waits, and continue the run when nothing waits any more."""
        body = read_body(await exchange.body(), Approval)
        await self._decide(exchange, caller, body, approved=True)

    async def refuse(self, exchange: Exchange, caller: Caller) -> None:
        """Refuse what waits, and continue the run when nothing waits any more."""
        body = read_body(await exchange.body(), Decision)
        await self._decide(exchange, caller, body, approved=False)

    async def edit(self, exchange: Exchange, caller: Caller) -> None:
        """Replace the plan that waits by another plan, approve it, and continue the run."""
        body = read_body(await exchange.body(), EditedPlan)
        await self._decide(exchange, caller, body, approved=True)

    async def decide(self, exchange: Exchange, caller: Caller) -> None:
        """Say whether an action was carried out, and continue the run, or the run in which it is nested.

        Or answer the question of a step (`answer`).
        """
        body = read_body(await exchange.body(), ActionEnd)
        found = await self._runs.find(exchange, caller, "approve")
        row = await self._runs.root(found)
        _check_ended(row)
        request, conductor = await self._continuing(row)
        try:
            await conductor.decide(
                found.run_id,
                action=body.action,
                round=body.round,
                done=body.done,
                answer=body.answer,
                by=_name(caller),
                why=body.why,
                journal=self._journal,
            )
        except ConfigError as error:
            raise NotWaiting(str(error)) from error
        await self._continue(row, caller.caller_id, request, await self._events(row))
        await self._accepted(exchange, row.run_id)

    async def continue_late(self, run_id: str) -> None:
        """Continue a run whose time to answer a question is over; the caller that began it pays.

        It does nothing for a run that waits no more, or that belongs to no caller of the server.
        """
        row, owner = await self._row(run_id), await self._access.owner(run_id)
        if row.state != "waiting" or owner is None:
            return
        events = await self._events(row)
        if any(asked.is_late for asked in fold(events).waiting):
            with suppress(RunHeld):  # another replica continues it
                await self._continue(row, owner, self._request("resume", events, None), events)

    async def cancel(self, exchange: Exchange, caller: Caller) -> None:
        """Cancel a run in the background or of an open request; a run that has ended stays as it is."""
        row = await self._find(exchange, caller, "admin")
        if not await self._jobs.cancel(row.run_id, _CANCEL_SECONDS) and row.state == "running":
            await self._cancel_request(row.run_id)
        await self._shown(exchange, row.run_id)

    async def _cancel_request(self, run_id: str) -> None:
        """Cancel the run of an open request of this process, or of another process."""
        table = self._jobs.table
        is_here = self._turns.running.cancel([run_id])
        if not is_here:
            await table.ask_cancel(run_id)
        try:
            async with self._journal.following(run_id) as follower:
                with anyio.move_on_after(_CANCEL_SECONDS):
                    while (await self._row(run_id)).state == "running":
                        await follower.wait()
                    return
        finally:
            if not is_here:
                await table.forget_cancel(run_id)
        told = f"no process of a server has ended run {run_id} within {_CANCEL_SECONDS:g} seconds"
        raise NotCancellable(f"{told}: it may belong to a command line, which Ctrl-C ends")

    async def _row(self, run_id: str) -> RunRow:
        (row,) = await self._journal.runs(ids=[run_id], limit=None)
        return row

    async def resume(self, exchange: Exchange, caller: Caller) -> None:
        """Continue a run in the background, as `podium resume` does."""
        body = read_body(await exchange.body(), ChangedRun)
        row = await self._find(exchange, caller, "admin")
        _check_ended(row)
        events = await self._events(row)
        request = self._request("resume", events, body.plan)
        changed = {"limits": body.limits or {}, "refresh": body.refresh, "force": body.force}
        await self._continue(row, caller.caller_id, request.model_copy(update=changed), events)
        await self._accepted(exchange, row.run_id)

    async def replay(self, exchange: Exchange, caller: Caller) -> None:
        """Repeat a run as a new run of the caller, as `podium resume --replay` does, or from a step on."""
        body = read_body(await exchange.body(), ReplayedRun)
        row = await self._find(exchange, caller, "see")
        events = await self._events(row)
        request = self._request("replay", events, body.plan)
        again = None if body.step is None else _step_of(events, body.round, body.step)
        run_id = uuid4().hex
        changed = {"of": row.run_id, "again": again}
        await self._begin(run_id, caller.caller_id, request.model_copy(update=changed))
        await self._accepted(exchange, run_id)

    async def delete(self, exchange: Exchange, caller: Caller) -> None:
        """Delete a run and the runs nested in it."""
        row = await self._find(exchange, caller, "admin")
        if await self._jobs.table.is_open(row.run_id):
            raise RunHeld(f"run {row.run_id} is in the background: cancel it first")
        with suppress(RunUnknown):  # it has not begun
            await self._journal.delete(row.run_id)
        await self._jobs.table.remove(row.run_id, FAILED)
        await exchange.json({"id": row.run_id, "object": "run", "deleted": True})

    async def _decide(
        self,
        exchange: Exchange,
        caller: Caller,
        body: Decision | EditedPlan,
        *,
        approved: bool,
    ) -> None:
        action = body.action if isinstance(body, Decision) else None
        arguments = body.arguments if isinstance(body, Approval) else None
        row = await self._find(exchange, caller, "approve")
        events = await self._events(row)
        names = [name for asked in fold(events).waiting for name in (None, asked.name, str(asked.step))]
        if (None if action is None else str(action)) not in names or row.state == "running":
            what = "an approval" if action is None else f"an approval of step {action}"
            raise NotWaiting(f"run {row.run_id} does not wait for {what}: its status is {row.state}")
        request, conductor = await self._continuing(row)
        changed = plan_of(body.plan if isinstance(body, EditedPlan) else None, conductor, workers_of(events))
        await conductor.decide(
            row.run_id,
            approved=approved,
            plan=None if changed is None else Plan.from_json(changed),
            arguments=arguments,
            action=action,
            by=_name(caller),
            why=body.why,
            journal=self._journal,
        )
        events = await self._events(row)
        if not fold(events).waiting:
            await self._continue(row, caller.caller_id, request, events)
        await self._accepted(exchange, row.run_id)

    async def _continuing(self, row: RunRow) -> tuple[JobRequest, Conductor]:
        """Return the request that continues a run, and its conductor."""
        request = self._request("resume", await self._events(row), None)
        return request, self._turns.catalogue.find(request.model).conductor

    def _request(self, kind: Any, events: Sequence[Event], plan: PlanBody | None) -> JobRequest:
        """Return the request for a recorded run."""
        started = events[0]
        assert isinstance(started, RunStarted)
        model = self._turns.catalogue.find(started.conductor)
        query = [message.to_wire() for message in (*started.query, *started.tool_messages)]
        changed = plan_of(plan, model.conductor, workers_of(events))
        return JobRequest(kind=kind, model=model.name, query=query, plan=changed)

    async def _continue(
        self, row: RunRow, caller_id: str, request: JobRequest, events: Sequence[Event]
    ) -> None:
        """Continue a run; the caller that began it pays, or if it is unknown, the caller `caller_id`."""
        job = await self._jobs.table.find(row.run_id)
        if job is not None and job.error is not None:
            await self._jobs.table.remove(row.run_id, FAILED)
        elif job is not None and job.kind != KIND:
            return  # the response in the background waits for the decision
        owner = await self._access.owner(row.run_id) or caller_id
        if not await self._begin(row.run_id, owner, request.model_copy(update={"events": len(events)})):
            raise RunHeld(f"run {row.run_id} is in the background: wait for its end")

    async def _begin(self, run_id: str, caller_id: str, request: JobRequest) -> bool:
        """Begin a job, and return whether there was none."""

        async def check() -> None:
            caller = await self._access.caller(caller_id)
            asked = asked_of(request, run_id)
            await self._turns.check_budget(caller, asked, is_new=request.kind == "begin")

        stored = new_job(run_id, KIND, caller_id, request.model_dump(mode="json"))
        return await self._jobs.begin(stored, check=check) is not None

    async def _find(self, exchange: Exchange, caller: Caller, role: Role) -> RunRow:
        row = await self._runs.find(exchange, caller, role)
        if row.parent is not None:
            raise NestedRun(f"run {row.run_id} is nested in run {row.parent}: name the outer run")
        return row

    async def _events(self, row: RunRow) -> list[Event]:
        if row.state == "queued":
            raise RunHeld(f"run {row.run_id} waits in the queue: wait until it begins, or cancel it")
        return [entry.event for entry in await self._journal.read(row.run_id)]

    async def _accepted(self, exchange: Exchange, run_id: str, *, is_repeated: bool = False) -> None:
        headers = {"location": f"{PATH}/{run_id}", "x-podium-run-id": run_id}
        if is_repeated:
            headers["idempotent-replayed"] = "true"
        await self._shown(exchange, run_id, status=202, headers=headers)

    async def _shown(self, exchange: Exchange, run_id: str, **more: Any) -> None:
        shown = await self._runs.detail_of(run_id)
        await exchange.json(public_data(shown.model_dump(mode="json")), **more)


def _check_ended(row: RunRow) -> None:
    if row.state == "running":
        raise RunHeld(f"run {row.run_id} is running: wait for it to end or stop")


def _step_of(events: Sequence[Event], number: int | None, step: int) -> list[int]:
    """Return the round and the index of a recorded step."""
    plans = {each.number: each.plan for each in fold(events).rounds_so_far() if each.plan is not None}
    found = max(plans, default=0) if number is None else number
    if found not in plans or step >= len(plans[found].steps):
        raise QueryError(f"the run has no step {step} in round {found}: name a step of a recorded plan")
    return [found, step]


def _name(caller: Caller) -> str:
    """Return the name that is recorded with a decision."""
    return caller.caller_id if caller.key is None else caller.key.name
