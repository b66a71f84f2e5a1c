"""Responses in the background: they are begun, read and cancelled by clients, and run by jobs."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from functools import partial

from podium.journal import SqlJournal, Transaction
from podium_server.api.responses.asks import Ask
from podium_server.api.responses.events import ResponseEvents, add_events
from podium_server.api.responses.job import KIND
from podium_server.api.responses.store import ResponseStore, ResponseUnknown, Stored
from podium_server.api.responses.writer import Event, ResponseWriter
from podium_server.http import Stopping
from podium_server.jobs.jobs import Jobs
from podium_server.jobs.table import new_job
from podium_server.turn import Turns

_CANCEL_SECONDS = 10.0


class Background:
    """The responses in the background, as clients see them.

    Args:
        journal: tells when a response has changed.
        store: the stored responses.
        jobs: runs them.
        turns: has the models.
        stopping: ends the streams of events when the server stops.
    """

    def __init__(
        self, journal: SqlJournal, store: ResponseStore, jobs: Jobs, turns: Turns, stopping: Stopping
    ) -> None:
        self._journal = journal
        self._store = store
        self._jobs = jobs
        self._turns = turns
        self._stopping = stopping
        self._events = ResponseEvents(store)

    async def begin(self, ask: Ask) -> Mapping[str, str]:
        """Store a response and begin its run; return headers for the client.

        If all slots are taken, the run begins later. If an earlier request with the same idempotency key has
        stored the response, nothing is begun.

        Raises:
            KeyReused: the idempotency key was used with another request.
            PodiumError: see `Turns.admitted`; the response is then not stored.
        """
        model = self._turns.catalogue.find(ask.request.model)
        ask.caller.check_model(model.name)
        writer = ResponseWriter(ask.response(model.versioned_id))
        begun = writer.begin("queued")
        stored = replace(ask.stored(writer.response), is_background=True)

        async def also(transaction: Transaction) -> bool:
            if not await stored.insert(transaction):
                return False
            await add_events(transaction, stored.response_id, begun)
            return True

        new = new_job(ask.run_id, KIND, ask.caller.caller_id, {})
        named = self._turns.named(ask.caller, ask.asked.idempotency_key, ask.asked.fingerprint)
        async with named as (_, is_known):
            check = partial(self._turns.check_budget, ask.caller, ask.asked, is_new=True)
            job = await self._jobs.begin(new, also, None if is_known else check)
        headers = {"x-podium-run-id": ask.run_id, "x-podium-model": model.versioned_id}
        if job is None:
            return headers | {"idempotent-replayed": "true"}
        return headers | dict(job.headers)

    async def events(self, response_id: str, after: int = -1) -> AsyncGenerator[Event, None]:
        """Yield the events of a response, until the response has ended.

        Args:
            response_id: the response.
            after: the number of the last known event.

        Raises:
            ResponseUnknown: the response was deleted.
            ServerStopping: the server stops before the response has ended.
        """
        has_ended = False
        run_id = response_id.removeprefix("resp_")
        async with self._journal.following(run_id) as follower:
            with self._stopping.waking(follower.wake):
                while True:
                    found = await self._events.next(response_id, after)
                    for event in found:
                        yield event
                        after = event["sequence_number"]
                    if found:
                        continue
                    if has_ended:
                        return
                    stored = await self._store.any(response_id)
                    if stored is None:
                        raise ResponseUnknown(response_id)
                    has_ended = stored.has_ended  # its last events may be later than those that were read
                    if not has_ended:
                        await follower.wait()
                        self._stopping.check()

    async def has_event(self, response_id: str, number: int) -> bool:
        """Return whether a response has an event with this number."""
        return bool(await self._events.next(response_id, number - 1))

    async def cancel(self, stored: Stored) -> None:
        """Cancel a response, and wait some seconds until it has ended."""
        await self._jobs.cancel(stored.run_id, _CANCEL_SECONDS)
