"""Convert one call of a `ConductorLLM` to a run of its conductor."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any

from crewai.hooks import HookAborted
from crewai.llms.base_llm import BaseLLM
from crewai.utilities.agent_utils import (
    is_context_length_exceeded,
    is_native_tool_calling_unsupported_error,
)
from pydantic import BaseModel

from crewai_podium.messages import from_crewai
from crewai_podium.outputs import output_constraint, read_answer
from podium.conductor import Conductor
from podium.hosts import ChatAnswer, ChatCall, ContinuationStore
from podium.hosts.results import run_failed, tool_arguments
from podium.run import RunOptions
from podium.types import Part, Result, Sampling, Tools
from podium.usage import estimate_tokens as count


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


def new_call(
    conductor: Conductor,
    messages: str | Sequence[Mapping[str, Any]],
    *,
    tools: Sequence[Part],
    sampling: Sampling,
    store: ContinuationStore,
    options: RunOptions,
) -> ChatCall:
    """Return the call for an LLM's messages.

    Raises:
        QueryError: the messages have no question.
    """
    return ChatCall(
        conductor,
        from_crewai(messages),
        tools=Tools(tuple(tools)),
        sampling=sampling,
        store=store,
        options=options,
    )


async def run_call(call: ChatCall, on_text: Callable[[str], None] | None) -> ChatAnswer:
    """Run a call and return its answer.

    Args:
        call: the call.
        on_text: gets each chunk of the answer as it is written; `None` disables streaming.

    Raises:
        RunFailed: see `ChatCall.answer` and `ChatCall.rest`.
        PodiumError: see `Conductor.run`.
    """
    if on_text is None:
        return await call.run()
    async with aclosing(call.stream()) as items:
        async for item in items:
            if isinstance(item, ChatAnswer):
                return item
            on_text(item)
    raise AssertionError("the last item is the answer")


def call_sampling(llm: BaseLLM, response_model: type[BaseModel] | None) -> Sampling:
    """Return the sampling from an LLM's settings and a call's response model."""
    return Sampling(
        temperature=llm.temperature,
        top_p=llm.top_p,
        seed=llm.seed,
        max_tokens=None if llm.max_tokens is None else int(llm.max_tokens),
        stop=tuple(llm.stop_sequences),
        constraint=output_constraint(response_model),
    )


def answer_text(answer: str, response_model: type[BaseModel] | None) -> str:
    """Return an answer; with a `response_model`, as the model's JSON if the answer contains it."""
    read = answer if response_model is None else read_answer(answer, response_model)
    return read.model_dump_json() if isinstance(read, BaseModel) else answer


def function_arguments(call: Part, result: Result) -> dict[str, Any]:
    """Return the arguments of a tool call that CrewAI makes itself.

    Raises:
        RunFailed: the arguments are not a JSON object.
    """
    arguments = tool_arguments(call)
    if arguments is None:
        function = call["function"]
        told = f"the arguments of {function['name']!r} are not a JSON object: {function['arguments']!r:.80}"
        raise run_failed(told, result)
    return arguments


def estimate_tokens(messages: Any, *more: Any) -> int:
    """Estimate the tokens of a conversation and of its schemas, as Podium estimates any text."""
    text = messages if isinstance(messages, str) else json.dumps(messages, default=str, ensure_ascii=False)
    return sum(map(count, (text, *(json.dumps(part, default=str) for part in more if part))))
