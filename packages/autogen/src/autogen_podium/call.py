"""One call of a `ConductorChatCompletionClient` as a run of its conductor."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from autogen_core.models import CreateResult, LLMMessage
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from autogen_podium.messages import from_autogen, tool_schema, write_calls, write_usage
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import ChatAnswer, ChatCall, ContinuationStore, plan_lines, read_sampling, read_tools
from podium.types import Constraint, Part, Result, Sampling, Tools

ToolChoice = Tool | Literal["auto", "required", "none"]
_FINISHES: Final[Mapping[str, Literal["stop", "length", "function_calls"]]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "function_calls",
}


def new_call(
    conductor: Conductor,
    messages: Sequence[LLMMessage],
    *,
    tools: Tools,
    sampling: Sampling,
    store: ContinuationStore,
) -> ChatCall:
    """Return the call for what a client is asked.

    Raises:
        QueryError: the messages hold no question.
    """
    return ChatCall(conductor, from_autogen(messages), tools=tools, sampling=sampling, store=store)


def call_tools(tools: Sequence[Tool | ToolSchema], choice: ToolChoice) -> Tools:
    """Return the tools that a call offers.

    Raises:
        ConfigError: the choice is a tool that is not offered.
    """
    if not tools:
        return Tools(())
    name = choice if isinstance(choice, str) else choice.schema["name"]
    return read_tools([schema_of(tool) for tool in tools], name)


def schema_of(tool: Tool | ToolSchema) -> Part:
    """Return a tool as OpenAI writes it."""
    return tool_schema(tool.schema if isinstance(tool, Tool) else tool)


def call_sampling(extra: Mapping[str, Any], *, json_output: bool | type[BaseModel] | None) -> Sampling:
    """Return how the answer is to be written.

    Args:
        extra: `extra_create_args` of the call, under OpenAI's names.
        json_output: the model that the answer is an instance of.

    Raises:
        ConfigError: a conductor does not take an argument, or `json_output` is `True`.
    """
    sampling = read_sampling(extra, of="extra_create_args")
    if isinstance(json_output, type):
        return replace(sampling, constraint=Constraint("json", json_output.model_json_schema()))
    if json_output:
        raise ConfigError("json_output=True holds an answer to no form: give a Pydantic model")
    return sampling


def create_result(answer: ChatAnswer) -> CreateResult:
    """Return an answer as a model's result, with the plan, and what it lacks, as its thought."""
    result = answer.result
    return CreateResult(
        finish_reason=_FINISHES[answer.finish_reason],
        content=write_calls(answer.tool_calls) or answer.text,
        usage=write_usage(answer.usage),
        cached=bool(result.outcomes) and all(outcome.reused for outcome in result.outcomes),
        thought=_thought(result),
    )


def _thought(result: Result) -> str | None:
    """Return the last plan in words: what each step was shown, how it ended, and what the answer lacks."""
    current = next((current for current in reversed(result.rounds) if current.plan is not None), None)
    if current is None or current.plan is None:
        return None
    ended = current.outcomes[: len(current.plan.steps)]
    shown = [
        step if outcome.shown is None else replace(step, access=outcome.shown, enough=None)
        for step, outcome in zip(current.plan.steps, ended, strict=False)
    ]
    steps = (*shown, *current.plan.steps[len(shown) :])
    lines = plan_lines(replace(current.plan, steps=steps), result.workers)
    for index, outcome in enumerate(ended):
        if outcome.status != "ok" and outcome.problem is not None:
            lines[index] += f" ({outcome.status}: {outcome.problem.message})"
    if result.status == "partial" and result.problem is not None:
        lines.append(f"The answer is partial: {result.problem.message}")
    return "\n".join(lines)
