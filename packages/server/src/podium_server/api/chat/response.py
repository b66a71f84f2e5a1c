"""The bodies of chat completions: the whole response, and the chunks of a stream."""

from typing import Any

from podium.hosts.completions import ChatEnd, ChatWriter
from podium_server.turn import Turn


def whole_response(turn: Turn, progress: str) -> dict[str, Any]:
    """Return the body of a response after the run has ended."""
    return _writer(turn).whole(turn.answer.text, _end(turn), progress)


class Chunks:
    """The chunks of a streamed response, as server-sent events."""

    def __init__(self, turn: Turn, *, includes_usage: bool) -> None:
        self._turn = turn
        self._writer = _writer(turn, includes_usage=includes_usage)
        self.text, self.progress = self._writer.text, self._writer.progress

    def end(self) -> bytes:
        """Return the chunks after the text."""
        return self._writer.end(_end(self._turn))


def _writer(turn: Turn, *, includes_usage: bool = False) -> ChatWriter:
    return ChatWriter(
        run_id=turn.run_id,
        model=turn.model.versioned_id,
        created=turn.created,
        includes_usage=includes_usage,
    )


def _end(turn: Turn) -> ChatEnd:
    return ChatEnd(
        tool_calls=turn.tool_calls,
        finish_reason=turn.finish_reason,
        usage=turn.usage,
        podium=turn.summary,
        logprobs=turn.answered.extra.get("logprobs"),
        choices=turn.answered.extra.get("choices", ()),
    )
