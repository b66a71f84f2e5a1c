"""Reads the reasons that servers give for the end of an answer, under the names that each of them uses.

A reason that is not in this table is a failure: servers report overload, timeouts and their own errors in it.
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
"""Reasons in pieces of a stream that is not at its end."""


def read_finish(said: str) -> FinishReason | None:
    """Return what a server's finish reason means; `None` for one that is no known end of an answer."""
    return _FINISHES.get(_word(said))


def joined_finish(before: str | None, said: object) -> str | None:
    """Return the finish reason of an answer after one more piece of it: a `stop` replaces no other reason.

    Args:
        before: the reason so far; `None` where no piece gave any.
        said: the reason in the piece; empty or `None` where it gives none.
    """
    if not said or _word(str(said)) in _NOT_YET or (before is not None and read_finish(before) != "stop"):
        return before
    return str(said)


def _word(said: str) -> str:
    """Return a reason in one form: `STOP`, `content-filter` and `FinishReason.STOP` are written so, too."""
    return said.rpartition(".")[2].lower().replace("-", "_")
