"""Makes responses, and shows, cancels and deletes those that are stored."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from time import time
from typing import Literal

from pydantic import Field

from podium.errors import RunUnknown
from podium.hosts.completions import Body, sse
from podium_server.api.endpoint import told_fault
from podium_server.api.responses.request import Item, ResponseRequest, messages_of, read_items
from podium_server.api.responses.stored import (
    Client,
    ItemUnknown,
    PreviousUnknown,
    Responses,
    ResponseUnknown,
    Stored,
    begin,
)
from podium_server.api.responses.writer import Event, ResponseWriter, error_event, list_form
from podium_server.http import BadRequest, Exchange, Stopping
from podium_server.http.exchange import fingerprint_of, read_body, read_query
from podium_server.jobs.jobs import Jobs
from podium_server.keys import Caller
from podium_server.turn import Asked, Turn, Turns

PATH = "/v1/responses"
_CANCEL_SECONDS = 10.0
_END = b"data: [DONE]\n\n"
"""The end of a stream."""


class ResponsesApi:
    """`/v1/responses` and the paths below it."""

    def __init__(
        self, turns: Turns, stopping: Stopping, responses: Responses | None, jobs: Jobs | None
    ) -> None:
        self._turns = turns
        self._stopping = stopping
        self._responses = responses
        self._jobs = jobs

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a request with a response."""
        raw = await exchange.body()
        request = read_body(raw, ResponseRequest)
        key, fingerprint = exchange.idempotency_key(), fingerprint_of(PATH, raw)

        async def answer() -> None:
            run_id = self._turns.run_id(caller, key, fingerprint)
            client, asked = await self._asked(caller, request, run_id, key, fingerprint)
            if request.background:
                await self._begin(exchange, caller, asked, client)
                return
            async with self._turns.admitted(caller, asked) as turn:
                exchange.run_id = turn.run_id
                writer = ResponseWriter(client.response(run_id, keeps=asked.is_recorded))
                if request.stream:
                    await exchange.stream(
                        self._frames(turn, writer),
                        lambda: turn.headers,
                        lambda error: _sent([writer.error(told_fault(error))]) + _END,
                    )
                else:
                    await writer.write(turn)
                    await exchange.json(writer.response.to_json(), headers=turn.headers)

        await exchange.while_connected(answer)

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show a response, or with `stream=true` its events after the number `starting_after`."""
        stored = await self._find(exchange, caller)
        query = read_query(exchange.query, ShowQuery)
        after = query.starting_after
        headers = {"x-podium-run-id": stored.run_id}
        if query.stream != "true":
            if after is not None:
                raise BadRequest("starting_after needs stream=true", param="starting_after")
            await exchange.json(stored.response, headers=headers)
            return
        if after is not None and not 0 <= after < len(stored.events):
            told = f"starting_after is {after}, and the response has no event with this sequence_number"
            raise BadRequest(f"{told}: leave it out for all events", param="starting_after")
        if not stored.is_background:
            raise BadRequest("only a response with `background` has events to stream", param="stream")
        after = -1 if after is None else after
        await exchange.while_connected(lambda: self._stream(exchange, stored, after, headers))

    async def cancel(self, exchange: Exchange, caller: Caller) -> None:
        """Cancel a response in the background, and show it. A response that has ended is only shown."""
        stored = await self._find(exchange, caller)
        if not stored.is_background:
            raise BadRequest("only a response with `background` can be cancelled", param="response_id")
        await self._stop(stored)
        stored = await self._find(exchange, caller)
        await exchange.json(stored.response, headers={"x-podium-run-id": stored.run_id})

    async def delete(self, exchange: Exchange, caller: Caller) -> None:
        """Delete a response and its run; a response that runs in the background is cancelled before."""
        stored = await self._find(exchange, caller)
        await self._stop(stored)
        assert self._responses is not None
        with suppress(RunUnknown):  # it was deleted before
            await self._responses.delete(await self._find(exchange, caller))
        await exchange.json({"id": stored.response_id, "object": "response", "deleted": True})

    async def input_items(self, exchange: Exchange, caller: Caller) -> None:
        """List the input items of a response, also those of earlier responses of its conversation."""
        stored = await self._find(exchange, caller)
        query = read_query(exchange.query, ItemsQuery)
        before = await self._conversation(caller, stored.client.request.get("previous_response_id"))
        items = [*before, *stored.items]
        if query.order == "desc":
            items.reverse()
        if query.after is not None:
            at = next((at for at, item in enumerate(items) if item["id"] == query.after), None)
            if at is None:
                raise BadRequest(f"there is no item {query.after!r:.200}", param="after")
            items = items[at + 1 :]
        await exchange.json(list_form(items[: query.limit], has_more=len(items) > query.limit))

    async def _asked(
        self, caller: Caller, request: ResponseRequest, run_id: str, key: str | None, fingerprint: str
    ) -> tuple[Client, Asked]:
        """Return a request with its conversation."""
        keeps = request.store is not False and self._responses is not None and caller.keeps_texts
        if request.background and not keeps:
            told = "a response in the background is stored: it needs `store`, a [journal], and an API key"
            raise BadRequest(f"{told} whose prompts and answers are kept", param="background")
        items = [await self._resolved(caller, item) for item in read_items(request.input, run_id)]
        before = await self._conversation(caller, request.previous_response_id)
        model = self._turns.catalogue.find(request.model)
        client = Client(
            request=request.model_dump(mode="json", exclude_unset=True, exclude={"input"}),
            items=items,
            model=model.versioned_id,
            show=model.show,
            acts=model.conductor.acts,
            created=int(time()),
        )
        asked = request.asked(
            messages_of(request.instructions, [*before, *items]),
            run_id=run_id,
            keeps=keeps,
            idempotency_key=key,
            fingerprint=fingerprint,
        )
        return client, replace(asked, client=client.to_json()) if keeps else asked

    async def _conversation(self, caller: Caller, response_id: str | None) -> list[Item]:
        if response_id is not None and self._responses is None:
            raise PreviousUnknown("the server stores no responses, because its config has no [journal]")
        if self._responses is None:
            return []
        return await self._responses.conversation(caller.caller_id, response_id)

    async def _resolved(self, caller: Caller, item: Item) -> Item:
        if item["type"] != "item_reference":
            return item
        if self._responses is None:
            raise ItemUnknown(str(item.get("id")))
        return await self._responses.item(caller.caller_id, str(item.get("id")))

    async def _begin(self, exchange: Exchange, caller: Caller, asked: Asked, client: Client) -> None:
        """Begin a response in the background, and show it or stream its events."""
        assert self._responses is not None
        assert self._jobs is not None
        headers = await begin(self._jobs, self._turns, caller, asked, client)
        stored = await self._responses.find(caller.caller_id, f"resp_{asked.run_id}")
        if client.request.get("stream"):
            await self._stream(exchange, stored, -1, headers)
        else:
            await exchange.json(stored.response, headers=headers)

    async def _stream(
        self, exchange: Exchange, stored: Stored, after: int, headers: Mapping[str, str]
    ) -> None:
        """Send the events of a response until it has ended, or the client has gone."""
        assert self._responses is not None
        events, number = self._responses.events(stored, after, self._stopping), 0

        async def written() -> AsyncGenerator[bytes, None]:
            nonlocal number
            async with aclosing(events):
                async for event in events:
                    number = event["sequence_number"] + 1
                    yield _sent([event])
            yield _END

        def error(failure: Exception) -> bytes:
            return _sent([error_event(told_fault(failure), number)]) + _END

        await exchange.stream(written(), lambda: headers, error)

    async def _frames(self, turn: Turn, writer: ResponseWriter) -> AsyncGenerator[bytes, None]:
        yield _sent(writer.begin())
        try:
            async with aclosing(turn.pieces()) as pieces:
                async for piece in pieces:
                    yield _sent(writer.piece(piece))
            last = writer.end(turn.answered)
        except Exception as error:  # noqa: BLE001 - the client gets it as an event, and the log if it is ours
            last = writer.fail(told_fault(error))
        yield _sent(last) + _END

    async def _stop(self, stored: Stored) -> None:
        if self._jobs is not None and stored.is_background and not stored.has_ended:
            await self._jobs.cancel(stored.run_id, _CANCEL_SECONDS)

    async def _find(self, exchange: Exchange, caller: Caller) -> Stored:
        response_id = str(exchange.path_params["response_id"])
        if self._responses is None:
            raise ResponseUnknown(response_id)
        return await self._responses.find(caller.caller_id, response_id)


class ShowQuery(Body, extra="ignore"):
    """The parameters of `GET /v1/responses/{response_id}`."""

    stream: Literal["false", "true"] = "false"
    starting_after: int | None = Field(None, description="The sequence_number of an event.")


class ItemsQuery(Body, extra="ignore"):
    """The parameters of `GET /v1/responses/{response_id}/input_items`."""

    order: Literal["desc", "asc"] = "desc"
    after: str | None = None
    limit: int = Field(20, ge=1, le=100)


def _sent(events: Iterable[Event]) -> bytes:
    """Return events as server-sent events."""
    return b"".join(sse(event, event=event["type"]) for event in events)
