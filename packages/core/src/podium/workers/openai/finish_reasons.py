"""Maps the finish reasons of different servers to Podium's finish reasons.

An unknown reason is a failure, because servers also report overload, timeouts and their own errors this way.
"""

from collections.abc import Mapping

from podium.types.messages import FinishReason

_FINISHES: Mapping[str, FinishReason] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "endoftext": "stop",
    "complete": "stop",
    "completed": "stop",
    "length": "length",
    "max_length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "image_safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "sensitive": "content_filter",
    "error_toxic": "content_filter",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
}
_NOT_YET = ("finish_reason_unspecified", "in_progress", "null")
"""Values in the pieces of a stream before its end."""


def read_finish(said: str) -> FinishReason | None:
    """Return the finish reason for a server's value; `None` for an unknown value."""
    return _FINISHES.get(_word(said))


def joined_finish(before: str | None, said: object) -> str | None:
    """Return the finish reason of an answer after another piece; a `stop` does not replace another reason.

    Args:
        before: the reason so far; `None` if there is none.
        said: the reason in the piece; empty or `None` if there is none.
    """
    if not said or _word(str(said)) in _NOT_YET or (before is not None and read_finish(before) != "stop"):
        return before
    return str(said)


def _word(said: str) -> str:
    """Normalize a reason, which may have forms such as `STOP`, `content-filter` and `FinishReason.STOP`."""
    return said.rpartition(".")[2].lower().replace("-", "_")
