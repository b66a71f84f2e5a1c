"""Answers requests for responses."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from podium_server.api.bodies import fingerprint_of, read_body
from podium_server.api.endpoint import told_fault
from podium_server.api.responses.asks import Ask, Asks
from podium_server.api.responses.background import Background
from podium_server.api.responses.form import id_of
from podium_server.api.responses.frames import END, frames
from podium_server.api.responses.request import ResponseRequest
from podium_server.api.responses.store import ResponseStore
from podium_server.api.responses.stored import stream_events
from podium_server.api.responses.writer import ResponseWriter
from podium_server.http import BadRequest, Exchange
from podium_server.keys import Caller
from podium_server.turn import Turn, Turns

PATH = "/v1/responses"


class ResponsesApi:
    """`POST /v1/responses`.

    Args:
        turns: makes the turns.
        store: stores the responses; `None` stores none.
        background: runs responses in the background; `None` if the server stores none.
    """

    def __init__(self, turns: Turns, store: ResponseStore | None, background: Background | None) -> None:
        self._turns = turns
        self._store = store
        self._background = background
        self._asks = Asks(store)

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a request; `Asks.ask`, `Turns.admitted` and `Turn.pieces` describe the exceptions."""
        raw = await exchange.body()
        request = read_body(raw, ResponseRequest)
        key, fingerprint = exchange.idempotency_key(), fingerprint_of(PATH, raw)

        async def answer() -> None:
            ask = await self._asks.ask(
                caller,
                request,
                run_id=self._turns.run_id(caller, key, fingerprint),
                idempotency_key=key,
                fingerprint=fingerprint,
            )
            if request.background:
                await self._begin(exchange, ask)
                return
            async with self._turns.admitted(caller, ask.asked) as turn:
                exchange.run_id = turn.run_id
                writer = ResponseWriter(ask.response(turn.model.versioned_id))
                if request.stream:
                    written = self._frames(ask, turn, writer)
                    await exchange.stream(written, lambda: turn.headers, partial(_error_frame, writer))
                else:
                    await self._run(ask, turn, writer)
                    await exchange.json(writer.response.to_json(), headers=turn.headers)

        await exchange.while_connected(answer)

    async def _begin(self, exchange: Exchange, ask: Ask) -> None:
        """Begin a response in the background, and show it or stream its events."""
        assert self._store is not None
        assert self._background is not None
        headers = await self._background.begin(ask)
        response_id = id_of(ask.run_id)
        if ask.request.stream:
            await stream_events(exchange, self._background.events(response_id), headers)
        else:
            stored = await self._store.find(ask.caller.caller_id, response_id)
            await exchange.json(stored.response, headers=headers)

    async def compact(self, exchange: Exchange, caller: Caller) -> None:
        """Refuse to compact a conversation; clients that get this status send the whole conversation.

        Raises:
            BadRequest: always.
        """
        del exchange, caller
        told = "this server does not compact conversations: send all items, or set previous_response_id"
        raise BadRequest(told, status=404, code="not_supported")

    async def _run(self, ask: Ask, turn: Turn, writer: ResponseWriter) -> None:
        writer.begin()
        async with aclosing(turn.pieces()) as pieces:
            async for piece in pieces:
                writer.piece(piece)
        writer.end(turn)
        await self._keep(ask, writer)

    async def _frames(self, ask: Ask, turn: Turn, writer: ResponseWriter) -> AsyncGenerator[bytes, None]:
        yield frames(writer.begin())
        try:
            async with aclosing(turn.pieces()) as pieces:
                async for piece in pieces:
                    yield frames(writer.piece(piece))
            last = writer.end(turn)
        except Exception as error:  # noqa: BLE001 - the client gets it as an event, and the log if it is ours
            last = writer.fail(told_fault(error))
        await self._keep(ask, writer)
        yield frames(last) + END

    async def _keep(self, ask: Ask, writer: ResponseWriter) -> None:
        if ask.keeps and self._store is not None:
            await self._store.put(ask.stored(writer.response))


def _error_frame(writer: ResponseWriter, error: Exception) -> bytes:
    return frames([writer.error(told_fault(error))]) + END
