"""Shows, cancels and deletes stored responses."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from urllib.parse import parse_qs

from podium.errors import RunUnknown
from podium.journal import Journal
from podium_server.api.endpoint import told_fault
from podium_server.api.responses.asks import Asks
from podium_server.api.responses.background import Background
from podium_server.api.responses.form import list_form
from podium_server.api.responses.frames import END, frames
from podium_server.api.responses.store import ResponseStore, ResponseUnknown, Stored
from podium_server.api.responses.writer import Event, error_event
from podium_server.http import BadRequest, Exchange
from podium_server.keys import Caller

_MOST_LISTED = 100
_LISTED = 20


class StoredApi:
    """`GET` and `DELETE /v1/responses/{response_id}`, `POST …/cancel`, and `GET …/input_items`.

    Args:
        store: has the responses; `None` if the server stores none.
        background: runs responses in the background; `None` if the server stores none.
        journal: has their runs.
    """

    def __init__(
        self, store: ResponseStore | None, background: Background | None, journal: Journal | None
    ) -> None:
        self._store = store
        self._background = background
        self._journal = journal
        self._asks = Asks(store)

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        """Show a response, or with `stream=true` its events after the number `starting_after`.

        Raises:
            ResponseUnknown: the caller has stored no response with this id.
            BadRequest: a parameter of the URL is invalid, or the response has no events, because it does not
                run in the background.
        """
        stored = await self._find(exchange, caller)
        is_stream = _one_of(exchange, "stream", ("false", "true")) == "true"
        given, after = parameter(exchange, "starting_after"), number(exchange, "starting_after", -1)
        headers = {"x-podium-run-id": stored.run_id}
        if not is_stream:
            if given is not None:
                raise BadRequest("starting_after needs stream=true", param="starting_after")
            await exchange.json(stored.response, headers=headers)
            return
        if given is not None and after < 0:
            told = "starting_after must be the sequence_number of an event: leave it out for all events"
            raise BadRequest(told, param="starting_after")
        if not stored.is_background:
            raise BadRequest("only a response with `background` has events to stream", param="stream")
        assert self._background is not None
        if given is not None and not await self._background.has_event(stored.response_id, after):
            told = f"starting_after is {after}, and the response has no event with this sequence_number"
            raise BadRequest(told, param="starting_after")
        events = self._background.events(stored.response_id, after)
        await exchange.while_connected(lambda: stream_events(exchange, events, headers))

    async def cancel(self, exchange: Exchange, caller: Caller) -> None:
        """Cancel a response in the background, and show it. A response that has ended is only shown.

        Raises:
            ResponseUnknown: as above.
            BadRequest: the response does not run in the background.
        """
        stored = await self._find(exchange, caller)
        if not stored.is_background:
            raise BadRequest("only a response with `background` can be cancelled", param="response_id")
        await self._end(stored)
        stored = await self._find(exchange, caller)
        await exchange.json(stored.response, headers={"x-podium-run-id": stored.run_id})

    async def delete(self, exchange: Exchange, caller: Caller) -> None:
        """Delete a response and its run; a running response is cancelled before.

        Raises:
            ResponseUnknown: as above.
            RunHeld: the run has not ended.
        """
        stored = await self._find(exchange, caller)
        assert self._store is not None
        await self._end(stored)
        if self._journal is not None:
            with suppress(RunUnknown):  # it was deleted before
                await self._journal.delete(stored.run_id)
        await self._store.delete(stored)
        await exchange.json({"id": stored.response_id, "object": "response", "deleted": True})

    async def input_items(self, exchange: Exchange, caller: Caller) -> None:
        """List the input items of a response, also those of earlier responses of its conversation.

        Raises:
            ResponseUnknown: as above.
            BadRequest: a parameter of the URL is invalid.
            PreviousUnknown: an earlier response was deleted.
        """
        stored = await self._find(exchange, caller)
        order, after = _one_of(exchange, "order", ("desc", "asc")), parameter(exchange, "after")
        limit = number(exchange, "limit", _LISTED)
        if not 1 <= limit <= _MOST_LISTED:
            raise BadRequest(f"limit must be from 1 to {_MOST_LISTED}", param="limit")
        items = [*await self._asks.conversation(caller, stored.previous_id), *stored.items]
        if order == "desc":
            items.reverse()
        if after is not None:
            at = next((at for at, item in enumerate(items) if item["id"] == after), None)
            if at is None:
                raise BadRequest(f"there is no item {after!r:.200}", param="after")
            items = items[at + 1 :]
        await exchange.json(list_form(items[:limit], has_more=len(items) > limit))

    async def _end(self, stored: Stored) -> None:
        if self._background is not None and not stored.has_ended:
            await self._background.cancel(stored)

    async def _find(self, exchange: Exchange, caller: Caller) -> Stored:
        response_id = str(exchange.path_params["response_id"])
        if self._store is None:
            raise ResponseUnknown(response_id)
        return await self._store.find(caller.caller_id, response_id)


async def stream_events(
    exchange: Exchange, events: AsyncGenerator[Event, None], headers: Mapping[str, str]
) -> None:
    """Send the events of a response in the background, until it has ended or the client has gone."""
    number = 0

    async def written() -> AsyncGenerator[bytes, None]:
        nonlocal number
        async with aclosing(events):
            async for event in events:
                number = event["sequence_number"] + 1
                yield frames([event])
        yield END

    def error(failure: Exception) -> bytes:
        return frames([error_event(told_fault(failure), number)]) + END

    await exchange.stream(written(), lambda: headers, error)


def parameter(exchange: Exchange, name: str) -> str | None:
    """Return a parameter of the URL; `None` if there is none."""
    return parse_qs(exchange.query).get(name, [None])[-1]


def number(exchange: Exchange, name: str, default: int) -> int:
    """Return a parameter of the URL that is a whole number.

    Raises:
        BadRequest: it is not a number.
    """
    given = parameter(exchange, name)
    if given is None:
        return default
    if not given.isascii() or not given.removeprefix("-").isdigit() or len(given) > 9:
        raise BadRequest(f"{name} must be a whole number, not {given!r:.40}", param=name)
    return int(given)


def _one_of(exchange: Exchange, name: str, known: tuple[str, ...]) -> str:
    given = parameter(exchange, name) or known[0]
    if given not in known:
        raise BadRequest(f"{name} must be {' or '.join(known)}, not {given!r:.40}", param=name)
    return given
