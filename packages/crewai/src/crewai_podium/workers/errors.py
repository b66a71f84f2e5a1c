"""Convert exceptions of CrewAI to Podium's and back, and answers to completions."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Final

from crewai.hooks import HookAborted
from crewai.tasks.task_output import TaskOutput
from crewai.utilities.agent_utils import (
    extract_tool_call_info,
    is_context_length_exceeded,
    is_native_tool_calling_unsupported_error,
)
from pydantic import ValidationError

from crewai_podium.usage import UsageMeter
from podium.errors import (
    AnswerEmpty,
    AnswerRefused,
    AnswerToolCalls,
    WorkerBroken,
    WorkerError,
    WorkerRefused,
)
from podium.hosts import GuardrailTripped, read_completion, text_of, tool_call, worker_errors
from podium.hosts.errors import cut_answer_usage
from podium.types import Completion, Message, Part
from podium.usage import Usage

_HOOK_ERRORS: Final = ("HookAborted", "CallBlocked")
"""Words in the names of exceptions that CrewAI raises if a hook stops a call."""
_EMPTY: Final = "Invalid response from LLM call - None or empty"
"""The beginning of the error that CrewAI's agents raise for an answer without text."""
_TRIPPED: Final = "Task failed guardrail"
"""The beginning of the error that CrewAI's tasks raise if a guardrail refuses the last answer."""
_FINISHES: Final[Mapping[str, str]] = {
    "tool_calls": "stop",
    "tool_use": "stop",
    "function_call": "stop",
    "incomplete": "length",
}
"""Finish reasons that have another meaning for an agent's answer. With `tool_calls`, the agent has made the
calls. `incomplete` is from OpenAI's Responses API.
"""
_FILTERS: Final = ("content_filter", "content_filtered", "guardrail_intervened", "refusal", "safety")


class RunStopped(HookAborted):
    """Marks the error of a run: CrewAI must not ask again, because another run may act again."""


@cache
def _stopping(kind: Any) -> Any:
    return type(kind.__name__, (kind, RunStopped), {"__module__": kind.__module__})


def stopped(error: Exception) -> Exception:
    """Return the error of a run as an error of the same class which CrewAI raises at once.

    CrewAI repeats a task up to `max_retry_limit` times after other errors. After an error whose text mentions
    the length of the context, it shortens the conversation and asks again; so the text does not mention it if
    the run has acted.
    """
    kind: Any = type(error)
    kind = _stopping(kind)
    copy = kind.__new__(kind, *error.args)
    copy.__dict__.update(vars(error))
    again = is_context_length_exceeded(error) or is_native_tool_calling_unsupported_error(error)
    if again and getattr(error, "actions", None):
        copy.args = ("the run ended without a whole answer after it had acted: see `actions` and `result`",)
    copy.reason, copy.source = str(copy), "podium"
    stopped_run: Exception = copy
    return stopped_run


def read_error(error: BaseException) -> WorkerError | None:
    """Return the worker error for an exception that only CrewAI raises; `None` for other exceptions."""
    names = [kind.__name__ for kind in type(error).__mro__]
    if isinstance(error, RunStopped):
        return None
    if any(word in name for word in _HOOK_ERRORS for name in names):
        return WorkerRefused(f"a CrewAI hook stopped the call: {error}")
    if type(error) is Exception and str(error).startswith(_TRIPPED):
        return GuardrailTripped(f"a guardrail of the crew refused the answer: {error}", maybe_paid=True)
    if isinstance(error, ValueError) and str(error).startswith(_EMPTY):
        return AnswerEmpty("the answer is empty", maybe_paid=True)
    if isinstance(error, ValidationError) and error.title == TaskOutput.__name__:
        calls = tool_calls(error.errors()[0]["input"])  # the agent's return value, as the task's output
        called = ", ".join(call["function"]["name"] for call in calls)
        if calls:
            return AnswerToolCalls(f"called tools that nobody offered: {called}", maybe_paid=True)
    return None


def crewai_errors(
    worker: str,
    meter: UsageMeter,
    usage: Callable[[], Usage | None] | None = None,
    *,
    has_run: Callable[[], bool] = lambda: False,
) -> AbstractContextManager[None]:
    """Translate every exception that CrewAI raises in the block, like `podium.hosts.worker_errors`."""

    def read(error: BaseException) -> WorkerError | None:
        if (used := cut_answer_usage(error)) is not None:
            meter.add_cut(used)
        known = read_error(error)
        if isinstance(known, WorkerBroken) and str(meter.finish_reason).lower() in _FILTERS:
            return AnswerRefused("the model or its content filter refused to answer", maybe_paid=True)
        return known

    return worker_errors(worker, usage=usage or (lambda: meter.usage), reader=read, has_run=has_run)


def read_answer(
    messages: Sequence[Message],
    answer: object,
    meter: UsageMeter,
    *,
    written: str = "",
    usage: Usage | None = None,
) -> Completion:
    """Return the answer of an LLM, an agent or a crew, checked like the answer of any chat model."""
    calls = tool_calls(answer)
    finish = meter.finish_reason and _FINISHES.get(meter.finish_reason.lower(), meter.finish_reason)
    return read_completion(
        messages,
        text=written or ("" if calls else text_of(answer)),
        finish_reason="tool_calls" if calls else finish,
        tool_calls=calls,
        usage=usage or meter.usage,
    )


def tool_calls(answer: object) -> tuple[Part, ...]:
    """Return tool calls of any provider's format in OpenAI's format; empty for a text."""
    found = (extract_tool_call_info(each) for each in (answer if isinstance(answer, list) else ()))
    return tuple(tool_call(*info) for info in found if info is not None)
