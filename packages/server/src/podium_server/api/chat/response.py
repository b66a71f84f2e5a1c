"""The bodies of chat completions: the whole response, and the chunks of a stream."""

from collections.abc import Sequence
from typing import Any

from podium.types import Part
from podium.usage import Usage
from podium_server.api.streams import sse
from podium_server.turn import Turn


def whole_response(turn: Turn, progress: str) -> dict[str, Any]:
    """Return the body of a response after the run has ended.

    Args:
        turn: the turn.
        progress: the text about its progress; empty for none.
    """
    calls = list(turn.tool_calls)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": turn.answer.text or (None if calls else ""),
        "refusal": None,
        "annotations": [],
    }
    if progress:
        message["reasoning_content"] = progress
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": turn.finish_reason,
    }
    return {
        **_head(turn, "chat.completion"),
        "choices": [choice],
        "usage": usage_form(turn.usage),
        "podium": turn.summary,
    }


class Chunks:
    """The chunks of a streamed response, as server-sent events.

    Args:
        turn: the turn.
        includes_usage: whether the last chunk has the usage.
    """

    def __init__(self, turn: Turn, *, includes_usage: bool) -> None:
        self._turn = turn
        self._head = _head(turn, "chat.completion.chunk")
        self._usage = {"usage": None} if includes_usage else {}
        self._is_begun = False

    def text(self, text: str) -> bytes:
        """Return a chunk with a piece of the answer."""
        return self._begin() + self._chunk({"content": text})

    def progress(self, text: str) -> bytes:
        """Return a chunk with a piece of text about the progress."""
        return self._begin() + self._chunk({"reasoning_content": text})

    def end(self) -> bytes:
        """Return the chunks after the text: tool calls, the finish reason, and the usage."""
        chunks = [self._begin()]
        chunks += [self._chunk({"tool_calls": [call]}) for call in _numbered(self._turn.tool_calls)]
        chunks.append(self._chunk({}, finish_reason=self._turn.finish_reason, podium=self._turn.summary))
        if self._usage:
            usage = usage_form(self._turn.usage)
            chunks.append(sse({**self._head, "choices": [], "usage": usage}))
        return b"".join(chunks) + b"data: [DONE]\n\n"

    def _begin(self) -> bytes:
        """Return the first chunk, with the role; nothing if it was sent."""
        if self._is_begun:
            return b""
        self._is_begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: dict[str, Any], *, finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return sse({**self._head, "choices": [choice], **self._usage, **more})


def usage_form(usage: Usage) -> dict[str, Any]:
    """Return a usage as chat completions have it; `total_tokens` includes the orchestration."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "estimated": usage.estimated,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "orchestration_input_tokens": usage.orchestration_input_tokens,
            "orchestration_input_cached_tokens": usage.orchestration_cached_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "orchestration_output_tokens": usage.orchestration_output_tokens,
        },
    }


def _head(turn: Turn, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{turn.run_id}",
        "object": kind,
        "created": turn.created,
        "model": turn.model.versioned_id,
    }


def _numbered(calls: Sequence[Part]) -> list[dict[str, Any]]:
    return [{"index": index, **call} for index, call in enumerate(calls)]
