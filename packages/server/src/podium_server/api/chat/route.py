"""Answers requests of chat completions."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from podium_server.api.bodies import fingerprint_of, read_body
from podium_server.api.chat.request import ChatRequest
from podium_server.api.chat.response import Chunks, frame, whole_response
from podium_server.api.endpoint import told_fault
from podium_server.http import Exchange
from podium_server.keys import Caller
from podium_server.turn import TextPiece, Turn, Turns

PATH = "/v1/chat/completions"


class ChatApi:
    """`POST /v1/chat/completions`.

    Args:
        turns: makes the turns.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        """Answer a request; `Turns.admitted` and `Turn.pieces` describe the exceptions."""
        raw = await exchange.body()
        request = read_body(raw, ChatRequest)
        asked = request.asked(exchange.idempotency_key(), fingerprint_of(PATH, raw))

        async def answer() -> None:
            async with self._turns.admitted(caller, asked) as turn:
                exchange.run_id = turn.run_id
                if asked.stream:
                    chunks = Chunks(turn, includes_usage=request.includes_usage)
                    frames = _frames(turn, chunks)
                    await exchange.stream(frames, lambda: turn.headers, _error_frame)
                else:
                    progress = await turn.run()
                    await exchange.json(whole_response(turn, progress), headers=turn.headers)

        await exchange.while_connected(answer)


async def _frames(turn: Turn, chunks: Chunks) -> AsyncGenerator[bytes, None]:
    is_begun = False
    async with aclosing(turn.pieces()) as pieces:
        async for piece in pieces:
            data = chunks.text(piece.text) if isinstance(piece, TextPiece) else chunks.progress(piece.text)
            yield data if is_begun else chunks.begin() + data
            is_begun = True
    yield chunks.end() if is_begun else chunks.begin() + chunks.end()


def _error_frame(error: Exception) -> bytes:
    return frame(told_fault(error).to_openai())
