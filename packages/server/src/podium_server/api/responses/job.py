"""Responses in the background: their jobs run them, also after a restart or on another replica."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from time import time

import anyio

from podium.errors import RunWaiting
from podium.journal import SqlJournal, Transaction
from podium.types import RunEnded, RunStopped
from podium_server.api.endpoint import logged_fault
from podium_server.api.responses.items import messages_of
from podium_server.api.responses.stored import KIND, Client, Responses
from podium_server.api.runs.deadlines import deadline_of
from podium_server.api.runs.index import RunIndex
from podium_server.api.runs.queued import CANCELLED
from podium_server.jobs.jobs import Job, Jobs, Postponed
from podium_server.jobs.table import new_job
from podium_server.keys import Access, Caller
from podium_server.turn import Asked, Turns

_BEGUN = "SELECT 1 FROM podium_runs WHERE run_id = ?"


async def begin(jobs: Jobs, turns: Turns, caller: Caller, asked: Asked, client: Client) -> Mapping[str, str]:
    """Begin the run of a response in the background; return headers for the client.

    If all slots are taken, the run begins later. If an earlier request with the same idempotency key has
    begun the run, nothing is begun.
    """
    run_id = asked.run_id
    assert run_id is not None
    caller.check_model(turns.catalogue.find(asked.model).name)

    async def is_new(transaction: Transaction) -> bool:
        return not await transaction.fetch(_BEGUN, run_id)

    new = new_job(run_id, KIND, caller.caller_id, client.to_json())
    async with turns.named(caller, asked.idempotency_key, asked.fingerprint) as (_, is_known):
        check = partial(turns.check_budget, caller, asked, is_new=True)
        job = await jobs.begin(new, is_new, None if is_known else check)
    headers = {"x-podium-run-id": run_id, "x-podium-model": client.model}
    if job is None:
        return headers | {"idempotent-replayed": "true"}
    return headers | dict(job.headers)


class ResponseWork:
    """The work of one response."""

    def __init__(
        self,
        job: Job,
        *,
        responses: Responses,
        index: RunIndex,
        journal: SqlJournal,
        turns: Turns,
        access: Access,
    ) -> None:
        self._job = job
        self._responses = responses
        self._index = index
        self._journal = journal
        self._turns = turns
        self._access = access

    async def run(self) -> None:
        """Run the response, or continue its run."""
        job = self._job
        if not job.is_new and isinstance(await self._last(), RunEnded) and not await self._waits():
            return
        caller = await self._access.caller(job.stored.caller_id)
        client = Client.of_job(job.stored)
        request = client.body
        before = await self._responses.conversation(caller.caller_id, request.previous_response_id)
        messages = messages_of(request.instructions, [*before, *(client.items or ())])
        asked = request.asked(messages, run_id=job.job_id, keeps=True, may_exist=True)
        asked = replace(asked, client=client.to_json())
        try:
            async with self._turns.admitted(caller, asked) as turn:
                job.is_admitted = True
                job.begin(turn.headers)
                await turn.run()
                job.result = turn.answer.result
        except RunWaiting as error:
            await self._decided()
            raise Postponed from error

    async def end(self, failure: Exception | None) -> Mapping[str, str] | None:
        """Return the end of a run that the journal does not have."""
        fault = None if failure is None else logged_fault(failure)
        if isinstance(await self._last(), RunEnded | RunStopped):
            return None
        told = CANCELLED if fault is None else {"code": fault.code, "message": fault.message}
        return {**told, "model": Client.of_job(self._job.stored).model}

    async def drop(self) -> None:
        """Do nothing: the run has not begun."""

    async def _last(self) -> object:
        """Return the last event of the run; `None` if it has not begun."""
        entries = await self._index.read(self._job.job_id)
        return entries[-1].event if entries else None

    async def _waits(self) -> bool:
        rows = await self._journal.runs(ids=[self._job.job_id])
        return any(row.state == "waiting" for row in rows)

    async def _decided(self) -> None:
        """Wait until a person has decided, or the time to answer is over."""
        self._job.needs_slot = False
        run_id = self._job.job_id
        left = await deadline_of(self._journal, run_id) - time()
        async with self._journal.following(run_id) as follower:
            with anyio.move_on_after(left):
                while await self._waits():
                    await follower.wait()
