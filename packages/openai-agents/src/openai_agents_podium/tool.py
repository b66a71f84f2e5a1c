"""A conductor as a tool of an agent."""

from contextlib import aclosing
from inspect import isawaitable
from typing import Any

from agents import FunctionTool, ModelTracing, RunContextWrapper, function_tool
from agents.tool import ToolErrorFunction
from mcp.types import ToolAnnotations

from openai_agents_podium.messages import write_usage
from openai_agents_podium.model import ConductorModel
from openai_agents_podium.tracing import RunTracing
from podium.conductor import Conductor
from podium.errors import PodiumError, actions_told
from podium.hosts import ChatAnswer, ChatCall
from podium.run import RunOptions
from podium.types import Message

_DESCRIPTION = "Has a team of specialists work out a question of several parts; returns the answer."


def conductor_tool(
    conductor: ConductorModel | Conductor,
    *,
    name: str = "ask_team",
    description: str = _DESCRIPTION,
    failure_error_function: ToolErrorFunction | None = None,
) -> FunctionTool:
    """Return a tool with which an agent asks a conductor one question.

    The tool returns the answer; an incomplete answer ends with the sentence `(Not complete: …)`. The
    tokens of the run are added to the usage of the agent's run, also if the run fails. The run's spans are
    below the tool's span.

    Args:
        conductor: answers the question.
        name: the tool's name.
        description: the tool's description for the agent's model.
        failure_error_function: returns the text for the agent's model if there is no answer, to which the
            actions that were done are added. With `None` the agent's run ends with the SDK's `UserError`,
            whose text names these actions, and whose cause is the error of the run.
    """
    asked = conductor.conductor if isinstance(conductor, ConductorModel) else conductor

    async def ask(context: RunContextWrapper[Any], question: str) -> str:
        try:
            answer = await _answer(asked, question, _tracing(context))
        except PodiumError as error:
            if (result := getattr(error, "result", None)) is not None:
                context.usage.add(write_usage(result.usage))
            raise
        context.usage.add(write_usage(answer.new_usage))
        return answer.text

    tool = function_tool(
        ask,
        name_override=name,
        description_override=description,
        failure_error_function=failure_error_function and _telling(failure_error_function),
    )
    if not asked.acts:
        tool._mcp_annotations = ToolAnnotations.model_validate({"readOnlyHint": True})  # noqa: SLF001 - no argument sets it
    return tool


def _telling(failure: ToolErrorFunction) -> ToolErrorFunction:
    """Return a function whose text also names the actions that were done: the model may ask again."""

    async def tell(context: RunContextWrapper[Any], error: Exception) -> str:
        said = failure(context, error)
        text = await said if isawaitable(said) else said
        done = actions_told(error.actions) if isinstance(error, PodiumError) else ""
        return text if done in text else f"{text} {done}"

    return tell


async def _answer(conductor: Conductor, question: str, tracing: ModelTracing) -> ChatAnswer:
    traced = RunTracing(tracing)
    options: RunOptions = {"middleware": traced.middleware}
    call = ChatCall(conductor, [Message("user", question)], options=options)
    async with aclosing(call.events(stream=False)) as events:
        async for event, _ in events:
            traced.hear(event)
    return call.answer()


def _tracing(context: RunContextWrapper[Any]) -> ModelTracing:
    """Return whether spans contain data, according to the agent's run."""
    config = getattr(context, "run_config", None)
    has_data = config is not None and config.trace_include_sensitive_data
    return ModelTracing.ENABLED if has_data else ModelTracing.ENABLED_WITHOUT_DATA
