"""What one call of a model client asks for, and what it is given back, in AutoGen's words.

It knows no conductor.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, Self

from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    ModelInfo,
)
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from autogen_podium.messages import from_autogen, tool_schema, write_calls, write_usage
from autogen_podium.terms import plan_text
from podium.errors import ConfigError
from podium.types import (
    AnswerDelta,
    Constraint,
    Event,
    Message,
    Part,
    Result,
    Sampling,
    Tools,
    read_conversation,
)
from podium.workers import Worker

ToolChoice = Tool | Literal["auto", "required", "none"]
_TAKES: Final = ("temperature", "top_p", "max_tokens", "seed", "stop", "reasoning_effort")
"""What `extra_create_args` may say."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call asks for."""

    messages: tuple[Message, ...]
    tools: Tools | None
    sampling: Sampling
    query: str
    """The conversation up to its question, as a hash."""
    calls: tuple[str, ...]
    """The ids of the calls whose results it brings; empty where it brings none."""

    @classmethod
    def of(
        cls,
        messages: Sequence[LLMMessage],
        tools: Sequence[Tool | ToolSchema],
        tool_choice: ToolChoice,
        *,
        json_output: bool | type[BaseModel] | None,
        extra: Mapping[str, Any],
    ) -> Self:
        """Read a call.

        Raises:
            QueryError: the messages hold no question.
            ConfigError: it says what no conductor takes.
        """
        if unknown := sorted(extra.keys() - set(_TAKES)):
            told = f"extra_create_args hold {', '.join(unknown)}"
            raise ConfigError(f"{told}: a conductor takes {', '.join(_TAKES)}")
        query, _ = read_conversation(asked := from_autogen(messages))
        wire = json.dumps([message.to_wire() for message in query], sort_keys=True)
        return cls(
            asked,
            _tools(tools, tool_choice),
            _sampling(extra, json_output=json_output),
            sha256(wire.encode("utf-8", "surrogatepass")).hexdigest(),
            _called(messages),
        )


def _called(messages: Sequence[LLMMessage]) -> tuple[str, ...]:
    """Return the ids of the calls whose results come last."""
    if not isinstance(messages[-1], FunctionExecutionResultMessage):
        return ()
    last = messages[-2] if len(messages) > 1 else None
    calls = last.content if isinstance(last, AssistantMessage) else ""
    return tuple(call.id for call in calls if not isinstance(call, str))


def _tools(tools: Sequence[Tool | ToolSchema], choice: ToolChoice) -> Tools | None:
    if not tools:
        return None
    offered = tuple(schema_of(tool) for tool in tools)
    if isinstance(choice, str):
        return Tools(offered, None if choice == "auto" else choice)
    return Tools(offered, {"type": "function", "function": {"name": choice.schema["name"]}})


def schema_of(tool: Tool | ToolSchema) -> Part:
    """Return a tool as OpenAI writes it."""
    return tool_schema(tool.schema if isinstance(tool, Tool) else tool)


def _sampling(extra: Mapping[str, Any], *, json_output: bool | type[BaseModel] | None) -> Sampling:
    constraint = None
    if isinstance(json_output, type):
        constraint = Constraint("json", json_output.model_json_schema())
    elif json_output:
        raise ConfigError("json_output=True holds an answer to no form: give a Pydantic model")
    stop = extra.get("stop") or ()
    return Sampling(
        temperature=extra.get("temperature"),
        top_p=extra.get("top_p"),
        max_tokens=extra.get("max_tokens"),
        seed=extra.get("seed"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        effort=extra.get("reasoning_effort"),
        constraint=constraint,
    )


def info_of(workers: Sequence[Worker]) -> ModelInfo:
    """Return what a conductor over these is able to do: what any of them is, and a form where all are."""
    formed = all("json" in worker.constraint_kinds for worker in workers)
    return ModelInfo(
        vision=any("image_url" in worker.card.parts for worker in workers),
        function_calling=any(worker.takes_tools for worker in workers),
        json_output=False,
        structured_output=formed,
        family="unknown",
        multiple_system_messages=True,
    )


def result_of(result: Result) -> CreateResult:
    """Return what a run came to as a model's result, its plan as the thought."""
    plan = result.plans[-1] if result.plans else None
    cut = result.problem is not None and result.problem.code == "cut"
    calls = write_calls(result.tool_calls)
    return CreateResult(
        finish_reason="function_calls" if calls else "length" if cut else "stop",
        content=calls or result.answer,
        usage=write_usage(result.usage),
        cached=bool(result.outcomes) and all(outcome.reused for outcome in result.outcomes),
        thought=None if plan is None else plan_text(plan, result.workers),
    )


class Pieces:
    """Sends the answer on as it is written; no more once a step is tried again, as the result tells it all.

    Args:
        emit: takes each piece.
    """

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._run_id = ""
        self._attempt: tuple[int | None, int | None, int | None] | None = None

    def hear(self, event: Event) -> None:
        """Take an event of the run, or of one nested in it."""
        self._run_id = self._run_id or event.run_id  # the first event is the run's own
        if isinstance(event, AnswerDelta) and event.run_id == self._run_id:
            attempt = (event.round, event.step, event.attempt)
            self._attempt = self._attempt or attempt
            if attempt == self._attempt:
                self._emit(event.text)
