"""Workers that are agents and function tools of the SDK."""

import inspect
import json
from copy import copy
from dataclasses import replace
from typing import Any, Final, Literal
from uuid import uuid4

from agents import (
    Agent,
    FunctionTool,
    Model,
    RunConfig,
    Runner,
    RunResult,
    RunResultStreaming,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    ToolOutputText,
)
from agents.run import DEFAULT_MAX_TURNS
from agents.tool import invoke_function_tool, set_function_tool_failure_error_function
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall

from openai_agents_podium.calls import AgentsWorker, CallWatch, Emit, WatchedProvider
from openai_agents_podium.conversions import (
    SchemaOutput,
    model_settings,
    read_agents_error,
    read_usage,
    to_items,
    tripped,
)
from openai_agents_podium.tracing import tracing_of_run
from podium.errors import ConfigError, WorkerError, WorkerFailed, WorkerRefused
from podium.hosts import GuardrailTripped, ToolWorker, read_completion, text_of
from podium.hosts.results import spent_completion
from podium.types import Completion
from podium.types.messages import estimate_usage
from podium.usage import Usage
from podium.workers import Card, Request

MAX_TURNS: Final = DEFAULT_MAX_TURNS


class AgentWorker(AgentsWorker):
    """Runs an agent with the SDK's runner, without a session.

    The answer is streamed if the first text of the agent's model is always its answer. This is the case if
    the agent has no tools, no output type and no output guardrails.
    """

    def __init__(
        self,
        agent: Agent[Any],
        *,
        card: Card,
        max_turns: int | None = MAX_TURNS,
        run_config: RunConfig | None = None,
        context: Any = None,
    ) -> None:
        _check(agent)
        super().__init__(card)
        self.agent = agent
        self._options: dict[str, Any] = {"max_turns": max_turns, "context": context}
        self._config = run_config or RunConfig()

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """A JSON schema, unless the agent has an output type of its own."""
        return frozenset({"json"} if self.agent.output_type in (None, str) else ())

    async def ask(self, request: Request, watch: CallWatch, emit: Emit) -> None:
        """Run the agent with the step's input."""
        _check(self.agent)
        agent, items = self._prepared(request, watch), to_items(request.messages)
        told = {**self._options, "hooks": watch, "run_config": self._run_config(request, watch)}
        result: RunResult | RunResultStreaming
        if request.stream and self._streams(agent):
            result = Runner.run_streamed(agent, items, **told)
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    emit(event.data.delta)
        else:
            result = await Runner.run(agent, items, **told)
        emit(self._completion(request, watch, result))

    def bill(self, request: Request, watch: CallWatch, error: WorkerError) -> None:
        """Add the tokens of the finished turns, and an estimate of a call that may be paid for."""
        error.maybe_paid = error.maybe_paid and watch.asked_a_model
        if error.usage is None and (spent := watch.finished_usage()) is not None:
            begun = watch.is_asking and error.maybe_paid
            error.usage = spent + estimate_usage(request.messages, "") if begun else spent
        error.maybe_paid = error.maybe_paid or watch.has_answered

    def _run_config(self, request: Request, watch: CallWatch) -> RunConfig:
        """Return the run config, with watched models and tracing that is not broader than the outer run's."""
        config, tracing = self._config, tracing_of_run()
        model = config.model
        return replace(
            config,
            model=watch.watched(model) if isinstance(model, Model) else model,
            model_provider=WatchedProvider(config.model_provider, watch),
            model_settings=model_settings(request.sampling, config.model_settings),
            tracing_disabled=config.tracing_disabled or tracing.is_disabled(),
            trace_include_sensitive_data=config.trace_include_sensitive_data and tracing.include_data(),
        )

    def _prepared(self, request: Request, watch: CallWatch) -> Agent[Any]:
        """Return the agent to run: its model is watched, and tools whose output is the answer raise."""
        agent, changed = self.agent, dict[str, Any]()
        if request.sampling.constraint is not None:
            changed["output_type"] = SchemaOutput(request.sampling.constraint)
        if isinstance(agent.model, Model):
            changed["model"] = watch.watched(agent.model)
        if agent.tool_use_behavior != "run_llm_again":
            changed["tools"] = [
                _raising(tool) if isinstance(tool, FunctionTool) else tool for tool in agent.tools
            ]
        return agent.clone(**changed)

    def _streams(self, agent: Agent[Any]) -> bool:
        """Return whether the first text of the agent's model is the answer."""
        works = agent.tools or agent.mcp_servers
        checked = agent.output_guardrails or self._config.output_guardrails
        return not (works or checked) and agent.output_type in (None, str)

    def _completion(
        self, request: Request, watch: CallWatch, result: RunResult | RunResultStreaming
    ) -> Completion:
        if result.interruptions:
            waits = f"worker {self.card.name!r} asks for approval of a tool, but a step cannot wait"
            raise WorkerFailed(f"{waits}: give it tools that need no approval", maybe_paid=True)
        used = read_usage(result.context_wrapper.usage)
        done = read_completion(
            request.messages,
            text=text_of(result.final_output),
            finish_reason="stop" if watch.finish in ("tool_calls", "function_call") else watch.finish,
            usage=used,
        )
        return spent_completion(done.text, used, self.card) if used == Usage() else done


def _check(agent: Agent[Any]) -> None:
    """Raise `ConfigError` for an agent with handoffs."""
    if agent.handoffs:
        names = ", ".join(
            str(getattr(each, "agent_name", getattr(each, "name", each))) for each in agent.handoffs
        )
        told = f"agent {agent.name!r} has handoffs to {names}, but the plan chooses the workers"
        raise ConfigError(f"{told}: make each of them a worker, or give them to the agent as tools")


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
        tool, call_id, text = _raising(self.tool), f"call_{uuid4().hex}", json.dumps(arguments)
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
            _pass(output, before.get_name())
        made = await invoke_function_tool(function_tool=tool, context=context, arguments=text)
        for after in tool.tool_output_guardrails or ():
            output = await after.run(ToolOutputGuardrailData(context, self._agent, made))
            _pass(output, after.get_name())
        written = made.text if isinstance(made, ToolOutputText) else text_of(made)
        return spent_completion(written, read_usage(context.usage), self.card)

    async def _is_enabled(self, context: ToolContext[Any]) -> bool:
        enabled = self.tool.is_enabled
        if isinstance(enabled, bool):
            return enabled
        said = enabled(context, self._agent)
        return bool(await said) if inspect.isawaitable(said) else bool(said)


def _raising(tool: FunctionTool) -> FunctionTool:
    """Return a copy of a tool that raises instead of returning an error text."""
    copied = copy(tool)
    copied.timeout_behavior = "raise_exception"
    return set_function_tool_failure_error_function(copied, None)


def _pass(output: ToolGuardrailFunctionOutput, guardrail: str) -> None:
    """Raise an error if a guardrail stops the step, or puts a message in place of the tool's output."""
    behavior = output.behavior
    if behavior["type"] == "allow":
        return
    info = behavior["message"] if behavior["type"] == "reject_content" else output.output_info
    raise GuardrailTripped(tripped(guardrail, info), maybe_paid=True)
