"""Convert the options of a call of a `ConductorChatCompletionClient`, and its answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from autogen_core.models import CreateResult
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from autogen_podium.messages import tool_schema, write_calls, write_usage
from podium.errors import ConfigError
from podium.hosts import ChatAnswer, read_sampling, read_tools
from podium.types import Constraint, Part, Sampling, Tools

ToolChoice = Tool | Literal["auto", "required", "none"]
_FINISHES: Final[Mapping[str, Literal["stop", "length", "function_calls"]]] = {
    "stop": "stop",
    "length": "length",  # also of other incomplete answers
    "tool_calls": "function_calls",
}


def call_tools(tools: Sequence[Tool | ToolSchema], choice: ToolChoice) -> Tools:
    """Return the tools that a call offers.

    Raises:
        ConfigError: the chosen tool is not offered.
    """
    if not tools:
        return Tools(())
    name = choice if isinstance(choice, str) else choice.schema["name"]
    return read_tools([schema_of(tool) for tool in tools], name)


def schema_of(tool: Tool | ToolSchema) -> Part:
    """Return a tool in OpenAI's format."""
    return tool_schema(tool.schema if isinstance(tool, Tool) else tool)


def call_sampling(extra: Mapping[str, Any], *, json_output: bool | type[BaseModel] | None) -> Sampling:
    """Return the sampling of the answer.

    Args:
        extra: `extra_create_args` of the call, with OpenAI's names.
        json_output: the Pydantic model for structured output.

    Raises:
        ConfigError: a conductor does not accept an argument, or `json_output` is `True`.
    """
    sampling = read_sampling(extra, of="extra_create_args")
    if isinstance(json_output, type):
        return replace(sampling, constraint=Constraint("json", json_output.model_json_schema()))
    if json_output:
        raise ConfigError("json_output=True has no schema: give a Pydantic model")
    return sampling


def create_result(answer: ChatAnswer) -> CreateResult:
    """Return an answer as a model's result. The text beside tool calls is its thought, as in AutoGen."""
    result, calls = answer.result, write_calls(answer.tool_calls)
    return CreateResult(
        finish_reason=_FINISHES[answer.host_finish_reason],
        content=calls or answer.text,
        usage=write_usage(answer.usage),
        cached=bool(result.outcomes) and all(outcome.reused for outcome in result.outcomes),
        thought=(answer.text or None) if calls else None,
    )
