"""Answers requests of the Messages API."""

from podium_server.api.bodies import fingerprint_of, read_body
from podium_server.api.endpoint import told_fault
from podium_server.api.messages.request import CountRequest, MessagesRequest
from podium_server.api.messages.response import Events, event, whole_message
from podium_server.api.messages.tokens import count_tokens
from podium_server.api.streams import frames
from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.turn import Turn, Turns

PATH = "/v1/messages"
COUNT_PATH = "/v1/messages/count_tokens"


class MessagesApi:
    """`POST /v1/messages` and `POST /v1/messages/count_tokens`.

    Args:
        turns: makes the turns.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a request; `Turns.admitted` and `Turn.pieces` describe the exceptions."""
        raw = await exchange.body()
        request = read_body(raw, MessagesRequest)
        asked = request.asked(exchange.idempotency_key(), fingerprint_of(PATH, raw))
        shows = request.shows_thinking

        async def answer() -> None:
            async with self._turns.admitted(caller, asked) as turn:
                exchange.run_id = turn.run_id
                if asked.stream:
                    events = Events(turn, shows_progress=shows)
                    written = frames(turn, events)
                    await exchange.stream(written, lambda: _headers(turn), _error_event, events.ping)
                else:
                    progress = await turn.run()
                    message = whole_message(turn, progress if shows else "")
                    await exchange.json(message, headers=_headers(turn))

        await exchange.while_connected(answer)

    async def count(self, exchange: Exchange, caller: Caller) -> None:
        """Estimate the tokens of a request.

        Raises:
            BadRequest: the request is invalid.
            ModelUnknown: there is no such model.
            ModelNotAllowed: the caller may not call the model.
        """
        request = read_body(await exchange.body(), CountRequest)
        caller.check_model(self._turns.catalogue.find(request.model).name)
        await exchange.json({"input_tokens": count_tokens(request), "estimated": True})


def _headers(turn: Turn) -> dict[str, str]:
    return {**turn.headers, "request-id": turn.run_id}


def _error_event(error: Exception) -> bytes:
    return event(told_fault(error).to_anthropic())
