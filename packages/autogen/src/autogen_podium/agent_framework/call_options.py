"""What a call of a chat client of Agent Framework's says besides its messages, as Podium takes it."""

from collections.abc import Mapping
from typing import Any, Final

from agent_framework import FunctionTool
from pydantic import BaseModel

from podium.errors import ConfigError
from podium.hosts import read_sampling, read_tools
from podium.types import Part, Sampling, Tools

_SAMPLING: Final = ("temperature", "top_p", "max_tokens", "stop", "seed")
_TAKEN: Final = (*_SAMPLING, "instructions", "response_format", "tool_choice", "tools")
_WITHOUT_EFFECT: Final = ("allow_multiple_tool_calls", "metadata", "model", "user")
"""What says nothing of the answer's content: left out, as by servers that do not know them."""


def check_options(options: Mapping[str, Any]) -> None:
    """Check that a conductor takes the options of a call.

    Raises:
        ConfigError: it does not take one of them.
    """
    said = {name for name, value in options.items() if value is not None and value is not False}
    if unknown := sorted(said - {*_TAKEN, *_WITHOUT_EFFECT}):
        raise ConfigError(
            f"ConductorChatClient takes no {', '.join(unknown)}: a call may say {', '.join(sorted(_TAKEN))}"
        )


def call_sampling(options: Mapping[str, Any]) -> Sampling:
    """Return how the answer is to be written.

    Raises:
        ConfigError: the `response_format` is none.
    """
    said = {name: options.get(name) for name in _SAMPLING}
    return read_sampling(
        {**said, "response_format": _form(options.get("response_format"))}, of="ConductorChatClient"
    )


def _form(form: object) -> object:
    """Return a form as OpenAI writes it; a mapping may be that, or the bare JSON schema."""
    if isinstance(form, type) and issubclass(form, BaseModel):
        schema: object = form.model_json_schema()
        return {"type": "json_schema", "json_schema": {"name": form.__name__, "schema": schema}}
    if isinstance(form, Mapping) and "json_schema" not in form:
        return {
            "type": "json_schema",
            "json_schema": {"name": str(form.get("title", "answer")), "schema": form},
        }
    return form


def call_tools(options: Mapping[str, Any]) -> Tools:
    """Return the tools of a call.

    Raises:
        ConfigError: one is no function, or the choice is none of them.
    """
    choice = options.get("tool_choice")
    if isinstance(choice, Mapping):
        choice = choice.get("required_function_name") or choice.get("mode")
    tools = [_tool(tool) for tool in options.get("tools") or ()]
    return read_tools(tools, choice if tools else None)


def _tool(tool: object) -> Part:
    if isinstance(tool, FunctionTool):
        return tool.to_json_schema_spec()
    if isinstance(tool, Mapping) and tool.get("type") == "function" and "function" in tool:
        return dict(tool)
    raise ConfigError(f"{tool!r:.80} is no function: a conductor offers its workers functions alone")
