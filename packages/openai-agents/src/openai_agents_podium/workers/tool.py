"""A worker that is a function tool of the SDK."""

import inspect
import json
from copy import copy
from typing import Any
from uuid import uuid4

from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailData,
    ToolOutputGuardrailTripwireTriggered,
    ToolOutputText,
)
from agents.tool import invoke_function_tool, set_function_tool_failure_error_function
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall

from openai_agents_podium.messages import read_usage
from openai_agents_podium.tracing import tracing_of_run
from openai_agents_podium.workers.errors import read_agents_error
from podium.errors import ConfigError, WorkerRefused
from podium.hosts import GuardrailTripped, ToolWorker, text_of
from podium.hosts.results import spent_completion
from podium.types import Completion
from podium.workers import Card


class FunctionToolWorker(ToolWorker):
    """Calls a function tool with the arguments in the subtask, including its guardrails and timeout."""

    def __init__(self, tool: FunctionTool, *, card: Card, context: Any = None) -> None:
        if tool.is_enabled is False:
            raise ConfigError(f"tool {tool.name!r} is disabled (is_enabled): enable it, or leave it out")
        if tool.needs_approval is not False:
            told = "needs approval, which a step cannot wait for: use the policy (Policy.approve)"
            raise ConfigError(f"tool {tool.name!r} {told}")
        super().__init__(tool.params_json_schema, self._invoke, card=card, reader=read_agents_error)
        self.tool = tool
        self._context = context
        self._agent = Agent[Any](name=card.name)

    async def _invoke(self, arguments: dict[str, Any]) -> Completion:
        tool, call_id, text = raising(self.tool), f"call_{uuid4().hex}", json.dumps(arguments)
        tracing = tracing_of_run()
        context = ToolContext(
            self._context,
            tool_name=tool.name,
            tool_call_id=call_id,
            tool_arguments=text,
            tool_call=ResponseFunctionToolCall(
                type="function_call", name=tool.name, call_id=call_id, arguments=text
            ),
            agent=self._agent,
            run_config=RunConfig(  # like an agent that is a tool
                tracing_disabled=tracing.is_disabled(),
                trace_include_sensitive_data=tracing.include_data()
                and RunConfig().trace_include_sensitive_data,
            ),
        )
        if not await self._is_enabled(context):
            raise WorkerRefused(f"tool {tool.name!r} is disabled for this call (is_enabled)")
        for before in tool.tool_input_guardrails or ():
            output = await before.run(ToolInputGuardrailData(context, self._agent))
            if _stops(output, before.get_name()):
                raise ToolInputGuardrailTripwireTriggered(before, output)
        made = await invoke_function_tool(function_tool=tool, context=context, arguments=text)
        for after in tool.tool_output_guardrails or ():
            output = await after.run(ToolOutputGuardrailData(context, self._agent, made))
            if _stops(output, after.get_name()):
                raise ToolOutputGuardrailTripwireTriggered(after, output)
        written = made.text if isinstance(made, ToolOutputText) else text_of(made)
        return spent_completion(written, read_usage(context.usage), self.card)

    async def _is_enabled(self, context: ToolContext[Any]) -> bool:
        enabled = self.tool.is_enabled
        if isinstance(enabled, bool):
            return enabled
        said = enabled(context, self._agent)
        return bool(await said) if inspect.isawaitable(said) else bool(said)


def raising(tool: FunctionTool) -> FunctionTool:
    """Return a copy of a tool that raises instead of returning an error text."""
    copied = copy(tool)
    copied.timeout_behavior = "raise_exception"
    return set_function_tool_failure_error_function(copied, None)


def _stops(output: ToolGuardrailFunctionOutput, guardrail: str) -> bool:
    """Return whether a guardrail ends the step with its own exception."""
    behavior = output.behavior
    if behavior["type"] == "reject_content":
        raise GuardrailTripped(f"guardrail {guardrail!r} tripped: {behavior['message']}", maybe_paid=True)
    return behavior["type"] == "raise_exception"
