"""A stored response is a view of its run: the journal has the run, and `RunStarted.client` the request.

The run of a response in the background that has not begun is a job of the queue.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from time import time
from typing import Any

import anyio

from podium.errors import RunFailed, RunUnknown, RunWaiting
from podium.hosts import ChatAnswer
from podium.hosts.progress import Progress
from podium.hosts.results import answered
from podium.journal import Entry, RunRow, SqlJournal, Transaction
from podium.run_state import fold
from podium.run_state.state import UNFINISHED
from podium.types import Event as RunEvent, Problem, RunEnded, RunStarted, RunStopped
from podium_server.api.endpoint import logged_fault
from podium_server.api.responses.request import Item, ResponseRequest, messages_of
from podium_server.api.responses.writer import ENDED, Event, Response, ResponseWriter, id_of
from podium_server.api.runs.forms import CANCELLED
from podium_server.api.runs.job import deadline_of
from podium_server.api.runs.query import RunIndex
from podium_server.errors import Fault, fault_of, without_urls
from podium_server.http import BadRequest, Stopping
from podium_server.jobs.jobs import Job, Jobs, Postponed
from podium_server.jobs.table import FAILED, JobTable, StoredJob, new_job
from podium_server.keys import Access, Caller
from podium_server.settings import Show
from podium_server.turn import Asked, ProgressPiece, TextPiece, Turns, checked_answer

KIND = "response"
"""The kind of the jobs of responses."""
_MOST_PREVIOUS = 1000
"""Maximum number of responses in a conversation."""


class ResponseUnknown(BadRequest):
    """The caller has stored no response with this id."""

    code = "response_not_found"

    def __init__(self, response_id: str) -> None:
        super().__init__(f"there is no response {response_id!r:.200}", status=404, param="response_id")


class PreviousUnknown(BadRequest):
    """The caller has stored no response with the id in `previous_response_id`."""

    code = "previous_response_not_found"

    def __init__(self, message: str) -> None:
        super().__init__(message, param="previous_response_id")


class ItemUnknown(BadRequest):
    """No stored response of the caller has the item of a reference."""

    code = "item_not_found"

    def __init__(self, item_id: str) -> None:
        super().__init__(f"there is no item {item_id!r:.200}", param="input")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """What the record of a run keeps of the request for its response."""

    request: Mapping[str, Any]
    """The body of the request, without its input."""
    items: Sequence[Item] | None
    """The input, without the input of earlier responses; `None` if the run failed before it began."""
    model: str
    """The id of the model with its version."""
    show: Show
    """What the client sees of the run."""
    acts: bool
    """Whether the model acts."""
    created: int
    """In seconds of Unix time."""

    @classmethod
    def of_job(cls, job: StoredJob) -> "Client":
        """Return the request of a job; after a failure, the job has only its error and its model."""
        if job.error is None:
            return cls(**job.request)
        model = job.error["model"]
        request = {"model": model, "background": True}
        return cls(
            request=request, items=None, model=model, show="none", acts=False, created=int(job.created)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)

    @property
    def body(self) -> ResponseRequest:
        """The request, without its input."""
        return ResponseRequest.model_validate_json(json.dumps(self.request))

    def response(self, run_id: str, *, keeps: bool = True) -> Response:
        """Return the response at its beginning."""
        return Response(request=self.body, run_id=run_id, model=self.model, created=self.created, keeps=keeps)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the database has of a response."""

    job: StoredJob | None
    row: RunRow | None
    entries: Sequence[Entry]

    @property
    def is_open(self) -> bool:
        """Whether a process has the run, or takes it from the queue."""
        has_job = self.job is not None and self.job.error is None
        return has_job or (self.row is not None and self.row.state in ("running", "waiting"))


class Stored:
    """A stored response."""

    def __init__(self, client: Client, run_id: str) -> None:
        self.client = client
        self.run_id = run_id
        self.response_id = id_of(run_id)
        self.is_background = bool(client.request.get("background"))
        self._at = 0.0
        self._writer = ResponseWriter(client.response(run_id), lambda: self._at)
        self.events: list[Event] = self._writer.begin("queued" if self.is_background else "in_progress")
        """The events of the response so far. A restart of the run takes none of them back."""
        self._progress = Progress(client.show, run_id)
        self.recorded: list[RunEvent] = []
        """The events of the run so far."""

    @property
    def response(self) -> dict[str, Any]:
        """The response object."""
        return self._writer.response.to_json()

    @property
    def has_ended(self) -> bool:
        """Whether the response does not change any more."""
        return self._writer.response.status in ENDED

    @property
    def items(self) -> Sequence[Item]:
        """The input of the request."""
        return self.client.items or ()

    async def take(self, found: _Found, index: RunIndex) -> None:
        """Write the next events. The text of the answer is written with the end."""
        writer = self._writer
        for entry in found.entries:
            if not self.recorded and self.is_background:
                self.events += writer.proceed()
            self._at = entry.at
            self.recorded.append(entry.event)
            if told := self._progress.text(entry.event):
                self.events += writer.piece(ProgressPiece(told))
        last = self.recorded[-1] if self.recorded else None
        if isinstance(last, RunEnded) and last.result.status != "waiting":
            await self._end(index)
        elif found.job is not None and (error := found.job.error) is not None:
            await self._stop(Problem(error["code"], error["message"]), index)
        elif not found.is_open:
            await self._stop(last.problem if isinstance(last, RunStopped) else UNFINISHED, index)

    async def _end(self, index: RunIndex) -> None:
        """Write the end of a run that has a result."""
        result = fold(self.recorded, await index.nested(self.run_id)).result()
        try:
            answer = ChatAnswer(answered(result))
        except RunFailed as error:
            self.events += self._writer.fail(fault_of(error))
            return
        asked = self.client.body.asked([], run_id=self.run_id, keeps=True)
        ended = await checked_answer(asked, self.run_id, answer, acts=self.client.acts)
        if ended.answer.text:
            self.events += self._writer.piece(TextPiece(ended.answer.text))
        self.events += self._writer.end(ended)

    async def _stop(self, problem: Problem, index: RunIndex) -> None:
        """Write the end of a run without a result."""
        nested = await index.nested(self.run_id)
        actions = fold(self.recorded, nested).result().actions if self.recorded else ()
        if problem.code == CANCELLED["code"]:
            self.events += self._writer.cancel(actions)
        else:
            told = without_urls(problem.message)
            self.events += self._writer.fail(
                Fault(status=502, code=problem.code, message=told, actions=actions)
            )


class Responses:
    """The stored responses."""

    def __init__(self, journal: SqlJournal, index: RunIndex, table: JobTable) -> None:
        self._journal = journal
        self._index = index
        self.table = table

    async def find(self, caller_id: str, response_id: str) -> Stored:
        """Return a response of a caller."""
        run_id = response_id.removeprefix("resp_")
        found = await self._found(run_id) if response_id == id_of(run_id) else _Found(None, None, ())
        started = found.entries[0].event if found.entries else None
        if isinstance(started, RunStarted) and started.client is not None:
            client, owner = Client(**started.client), started.asker
        elif found.job is not None and found.job.kind == KIND and started is None:
            client, owner = Client.of_job(found.job), found.job.caller_id
        else:
            raise ResponseUnknown(response_id)
        if owner != caller_id:
            raise ResponseUnknown(response_id)
        stored = Stored(client, run_id)
        await stored.take(found, self._index)
        return stored

    async def conversation(self, caller_id: str, response_id: str | None) -> list[Item]:
        """Return the items of all responses up to a response; nothing for `None`."""
        chain: list[Stored] = []
        while response_id is not None and len(chain) < _MOST_PREVIOUS:
            told = f"the previous response {response_id!r:.200}"
            try:
                stored = await self.find(caller_id, response_id)
            except ResponseUnknown:
                raise PreviousUnknown(f"{told} does not exist, or was deleted or not stored") from None
            if not stored.has_ended:
                raise BadRequest(f"{told} has not ended", param="previous_response_id")
            if stored.client.items is None:
                raise PreviousUnknown(f"{told} failed before its run began: send the whole conversation")
            chain.append(stored)
            response_id = stored.client.request.get("previous_response_id")
        if response_id is not None:
            most = f"the conversation has more than {_MOST_PREVIOUS} responses: begin a new one"
            raise PreviousUnknown(most)
        return [item for each in chain[::-1] for item in (*each.items, *each.response["output"])]

    async def item(self, caller_id: str, name: str) -> Item:
        """Return the item of a stored response that a reference names."""
        run_id = name.partition("_")[2].rpartition("_")[0]
        try:
            stored = await self.find(caller_id, id_of(run_id))
        except ResponseUnknown:
            raise ItemUnknown(name) from None
        for each in (*stored.response["output"], *stored.items):
            if each["id"] == name:
                return dict(each)
        raise ItemUnknown(name)

    async def events(self, stored: Stored, after: int, stopping: Stopping) -> AsyncGenerator[Event, None]:
        """Yield the events of a response after a number, until the response has ended."""
        async with self._journal.following(stored.run_id) as follower:
            with stopping.waking(follower.wake):
                while True:
                    if not stored.has_ended:
                        found = await self._found(stored.run_id, len(stored.recorded))
                        if found.job is None and found.row is None:
                            raise ResponseUnknown(stored.response_id)
                        await stored.take(found, self._index)
                    for event in stored.events[after + 1 :]:
                        yield event
                        after = event["sequence_number"]
                    if stored.has_ended:
                        return
                    await follower.wait()
                    stopping.check()

    async def delete(self, stored: Stored) -> None:
        """Delete a response and its run."""
        if stored.recorded:
            await self._journal.delete(stored.run_id)
        await self.table.remove(stored.run_id, FAILED)

    async def _found(self, run_id: str, first: int = 0) -> _Found:
        """Return a run from one of its events on; the job is read first, so that no last event is missed."""
        job = await self.table.find(run_id)
        try:
            row = await self._index.row(run_id)
        except RunUnknown:
            return _Found(job, None, ())
        return _Found(job, row, await self._index.read(run_id, first))


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
                job.result = turn.answered.answer.result
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
