"""Lists and shows runs, their events as a stream, and their prompts."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from anyio.streams.memory import MemoryObjectReceiveStream

from podium.errors import RunUnknown
from podium.hosts.completions import sse
from podium.journal import RunRow
from podium.types import Event, PlanDelta, RunStarted
from podium.types.steps import task_of
from podium_server.api.endpoint import told_fault
from podium_server.api.runs.forms import (
    KIND,
    RunDetail,
    RunList,
    detail,
    queued_detail,
    queued_event,
    queued_row,
)
from podium_server.api.runs.prompts import PromptList, prompts_of
from podium_server.api.runs.query import RunIndex, Wanted
from podium_server.api.runs.requests import EventsQuery, ListQuery, NotBegun, PromptsQuery
from podium_server.errors import public_data
from podium_server.http import BadRequest, Exchange, Stopping
from podium_server.http.exchange import read_query
from podium_server.jobs.table import JobTable, StoredJob
from podium_server.keys import Access, Caller, Role
from podium_server.models import Catalogue, ModelUnknown, ServedModel
from podium_server.turn import LivePieces, Written


class EventStream:
    """The events of a run."""

    def __init__(
        self,
        index: RunIndex,
        table: JobTable,
        run_id: str,
        stopping: Stopping,
        live: LivePieces | None = None,
    ) -> None:
        self._index = index
        self._table = table
        self._run_id = run_id
        self._stopping = stopping
        self._live = live

    async def frames(self, after: int) -> AsyncGenerator[bytes, None]:
        """Yield the events after the number `after`, until no process executes the run."""
        async with AsyncExitStack() as stack:
            follower = await stack.enter_async_context(self._table.following(self._run_id))
            stack.enter_context(self._stopping.waking(follower.wake))
            pieces = None
            if self._live is not None:
                pieces = stack.enter_context(self._live.of(self._run_id, follower.wake))
            seen, is_told = after + 1, False
            while True:
                job = await self._job()  # before the events, so that the last events are read
                is_open = job is not None or (await self._index.row(self._run_id)).state == "running"
                entries = await self._index.read(self._run_id, seen)
                if pieces is not None and job is not None and not (seen or entries or is_told):
                    yield _frame(queued_event(job), event="run_queued")
                    is_told = True
                for frame in _waiting(pieces):  # they were written before these events
                    yield frame
                for entry in entries:
                    data = {"number": entry.number, "recorded": entry.at, **entry.event.to_json()}
                    yield _frame(data, event=entry.event.type, number=entry.number)
                seen += len(entries)
                if not is_open:
                    break
                while not await follower.wait():
                    self._stopping.check()
                    if frames := b"".join(_waiting(pieces)):
                        yield frames
                self._stopping.check()

    async def _job(self) -> StoredJob | None:
        """Return the job of the run; `None` if it has none, or the job has ended."""
        job = await self._table.find(self._run_id)
        if job is not None and job.error is not None:
            raise NotBegun(job.error)
        return job


def _waiting(pieces: MemoryObjectReceiveStream[Written] | None) -> Iterator[bytes]:
    """Yield the frames of the pieces that wait."""
    while pieces is not None and pieces.statistics().current_buffer_used:
        yield _of_piece(pieces.receive_nowait())


def _of_piece(written: Written) -> bytes:
    data = {**written.piece.to_json(), "is_whole": written.is_whole}
    if isinstance(written.piece, PlanDelta):
        data["steps"] = [{"subtask": task_of(step), "access": list(step.access)} for step in written.steps]
    return _frame(data, event=written.piece.type)


def _frame(data: Mapping[str, Any], *, event: str | None = None, number: int | None = None) -> bytes:
    return sse(public_data(data), event=event, number=number)


PATH = "/v1/runs"


class RunsApi:
    """`GET /v1/runs`, `GET /v1/runs/{run_id}`, and the events and prompts of a run."""

    def __init__(
        self,
        index: RunIndex,
        table: JobTable,
        access: Access,
        stopping: Stopping,
        live: LivePieces,
        catalogue: Catalogue,
    ) -> None:
        self._index = index
        self._table = table
        self._access = access
        self._stopping = stopping
        self._live = live
        self.catalogue = catalogue

    async def list(self, exchange: Exchange, caller: Caller) -> None:
        """List the runs of the caller; with the role `see`, all runs."""
        query = read_query(exchange.query, ListQuery)
        wanted = Wanted(
            key_id=key_of(caller, query.key),
            model=query.model,
            status=query.status,
            label=query.label,
            search=query.search,
            since=query.since,
            until=query.until,
        )
        page = await self._index.page(wanted, limit=query.limit, after=query.after)
        listed = RunList(data=page.runs, has_more=page.next is not None, next=page.next)
        await exchange.json(public_data(listed.model_dump(mode="json")))

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show a run."""
        row = await self.find(exchange, caller)
        shown = await self.detail_of(row.run_id)
        await exchange.json(public_data(shown.model_dump(mode="json")))

    async def events(self, exchange: Exchange, caller: Caller) -> None:
        """Stream the events of a run until no process executes it."""
        query = read_query(exchange.query, EventsQuery)
        row = await self.find(exchange, caller)
        after = _last_event(exchange, query.after)
        if after >= 0 and not await self._index.has(row.run_id, after):
            told = f"run {row.run_id} has no event {after} yet: send the id of an event that it has sent"
            raise BadRequest(told, param="after")
        live = self._live if query.pieces else None
        stream = EventStream(self._index, self._table, row.run_id, self._stopping, live)

        async def answer() -> None:
            await exchange.stream(
                stream.frames(after),
                lambda: {"x-podium-run-id": row.run_id},
                lambda error: _frame(told_fault(error).to_openai(), event="error"),
            )

        await exchange.while_connected(answer)

    async def prompts(self, exchange: Exchange, caller: Caller) -> None:
        """Show the prompts of the steps of a run that have started."""
        query = read_query(exchange.query, PromptsQuery)
        row = await self.find(exchange, caller)
        events = [entry.event for entry in await self._index.read(row.run_id)]
        made = prompts_of(events, self._model_of(events))
        wanted = [
            each for each in made if query.round in (None, each.round) and query.step in (None, each.step)
        ]
        await exchange.json(public_data(PromptList(data=wanted).model_dump(mode="json")))

    def _model_of(self, events: Sequence[Event]) -> ServedModel | None:
        """Return the model of a run; `None` if the server does not have it."""
        try:
            return next(self.catalogue.find(e.conductor) for e in events if isinstance(e, RunStarted))
        except (ModelUnknown, StopIteration):
            return None

    async def find(self, exchange: Exchange, caller: Caller, role: Role = "see") -> RunRow:
        """Return the run of the URL."""
        run_id = str(exchange.path_params["run_id"])
        row = await self._row_or_job(run_id)
        if isinstance(row, StoredJob):
            if not (caller.may("see") or row.caller_id == caller.caller_id):
                raise RunUnknown(f"run {run_id:.200} does not exist")
            if role != "see" and row.caller_id != caller.caller_id:
                caller.check_role(role)
            return queued_row(row)
        root = await self._index.root(row)
        if not await self._access.may_see(caller, root.run_id):
            raise RunUnknown(f"run {row.run_id:.200} does not exist")
        if role != "see" and await self._access.owner(root.run_id) != caller.caller_id:
            caller.check_role(role)
        return row

    async def root(self, row: RunRow) -> RunRow:
        """Return the run in which a run is nested; for any other run, the run itself."""
        return await self._index.root(row)

    async def detail_of(self, run_id: str) -> RunDetail:
        """Return the whole run."""
        row = await self._row_or_job(run_id)
        if isinstance(row, StoredJob):
            return queued_detail(row)
        nested = await self._index.nested(run_id)
        return detail(row, await self._index.read(run_id), nested, await self._access.owner(run_id))

    async def _row_or_job(self, run_id: str) -> RunRow | StoredJob:
        """Return a run, or the job of a run that has not begun."""
        try:
            return await self._index.row(run_id)
        except RunUnknown:
            job = await self._table.find(run_id)
            if job is not None and job.kind == KIND:
                return job
        return await self._index.row(run_id)  # its job may have ended between the two looks


def key_of(caller: Caller, asked: str | None) -> str | None:
    """Return the API key whose runs are asked for; `None` for those of all keys."""
    if asked is not None and caller.key is None:
        raise BadRequest("the server has no API keys: leave out key", param="key")
    if asked is not None and asked != caller.caller_id:
        caller.check_role("see")
    return asked or (None if caller.may("see") else caller.caller_id)


def _last_event(exchange: Exchange, after: int) -> int:
    """Return the number of the last event that the client has."""
    given = exchange.header("last-event-id")
    if given is None or not given.strip():
        return after
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise BadRequest(f"Last-Event-ID must be the number of an event, not {given!r:.40}")
    return int(given)
