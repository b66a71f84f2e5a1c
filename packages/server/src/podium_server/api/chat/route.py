"""Answers requests of chat completions."""

from podium.hosts.completions import sse
from podium_server.api.bodies import fingerprint_of, read_body
from podium_server.api.chat.request import ChatRequest, PassedRequest
from podium_server.api.chat.response import Chunks, whole_response
from podium_server.api.endpoint import told_fault
from podium_server.api.streams import frames
from podium_server.http import BadRequest, Exchange
from podium_server.keys import Caller
from podium_server.models import ModelActs, ModelUnknown
from podium_server.turn import Turns

PATH = "/v1/chat/completions"


class ChatApi:
    """`POST /v1/chat/completions`."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a request of chat completions.

        `Turns.admitted` and `Turn.pieces` describe the exceptions.
        """
        raw = await exchange.body()
        request = self._read(raw)
        asked = request.asked(exchange.idempotency_key(), fingerprint_of(PATH, raw))
        if (
            exchange.header("x-podium-action") == "false"
            and self._turns.find(caller, asked.model).conductor.acts
        ):
            told = f"the model {asked.model!r} acts, and nothing was done: the step of your run is an action"
            raise ModelActs(told)

        async def answer() -> None:
            async with self._turns.admitted(caller, asked) as turn:
                exchange.run_id = turn.run_id
                if asked.stream:
                    chunks = Chunks(turn, includes_usage=request.includes_usage)
                    await exchange.stream(frames(turn, chunks), lambda: turn.headers, _error_frame)
                else:
                    progress = await turn.run()
                    await exchange.json(whole_response(turn, progress), headers=turn.headers)

        await exchange.while_connected(answer)

    def _read(self, raw: bytes) -> ChatRequest:
        """Return the body of a request.

        A body with fields that no plan can honour is accepted for a worker that answers as itself.
        """
        try:
            return read_body(raw, ChatRequest)
        except BadRequest as refusal:
            try:
                request = read_body(raw, PassedRequest)
                passes = self._turns.catalogue.find(request.model).passes_extra
            except (BadRequest, ModelUnknown):
                passes = False
            if not passes:
                raise refusal from None
            return request


def _error_frame(error: Exception) -> bytes:
    return sse(told_fault(error).to_openai())
