"""Convert exceptions that only the SDK raises to worker errors."""

import re
from typing import Final

from agents import (
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    UserError,
)

from podium.errors import (
    AnswerRefused,
    AnswerToolCalls,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
)
from podium.hosts import GuardrailTripped
from podium.types.messages import storable

_UNKNOWN_TOOL: Final = re.compile(r"^Tool (\S+) not found in agent")
_MAX_QUOTE: Final = 300


def read_agents_error(error: BaseException) -> WorkerError | None:
    """Return the worker error for an exception of the SDK; `None` for other exceptions."""
    kind: type[WorkerError]
    match error:
        case (
            InputGuardrailTripwireTriggered()
            | OutputGuardrailTripwireTriggered()
            | ToolInputGuardrailTripwireTriggered()
            | ToolOutputGuardrailTripwireTriggered()
        ):
            kind, told = GuardrailTripped, _tripped(error)
        case ModelRefusalError():
            kind, told = AnswerRefused, f"the model of the agent refused to answer: {_quote(error.refusal)}"
        case MaxTurnsExceeded():
            kind, told = WorkerFailed, f"the agent needed too many turns (max_turns): {_quote(error.message)}"
        case ModelBehaviorError() if unknown := _UNKNOWN_TOOL.match(error.message):
            kind, told = AnswerToolCalls, f"the agent called tools that nobody offered: {unknown[1]}"
        case ModelBehaviorError():
            kind, told = WorkerBroken, f"the answer of a model is broken: {_quote(error.message)}"
        case UserError() if error.__cause__ is None:  # otherwise the runner wraps an exception of a tool
            kind, told = WorkerRefused, f"the SDK cannot run it: {_quote(error.message)}"
        case _:
            return None
    return kind(told, maybe_paid=True)


def _tripped(
    error: InputGuardrailTripwireTriggered
    | OutputGuardrailTripwireTriggered
    | ToolInputGuardrailTripwireTriggered
    | ToolOutputGuardrailTripwireTriggered,
) -> str:
    """Return the name of the guardrail that tripped, and its output."""
    if isinstance(error, InputGuardrailTripwireTriggered | OutputGuardrailTripwireTriggered):
        guardrail, info = (
            error.guardrail_result.guardrail.get_name(),
            error.guardrail_result.output.output_info,
        )
    else:
        guardrail, info = error.guardrail.get_name(), error.output.output_info
    told = f"guardrail {guardrail!r} tripped"
    return told if info is None else f"{told}: {_quote(str(info))}"


def _quote(text: str) -> str:
    return storable(text)[:_MAX_QUOTE]
