"""The response object, as `POST` and `GET` return it and as events of a stream have it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from podium.usage import Usage
from podium_server.api.responses.request import ResponseRequest
from podium_server.api.responses.tools import LEFT_OUT

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
ENDED: tuple[Status, ...] = ("completed", "incomplete", "failed", "cancelled")
"""The states in which a response does not change any more."""


@dataclass(slots=True, kw_only=True)
class Response:
    """A response."""

    request: ResponseRequest
    run_id: str
    model: str
    """The id of the model with its version."""
    created: int
    """In seconds of Unix time."""
    keeps: bool
    """Whether the response is stored."""
    status: Status = "in_progress"
    output: list[Mapping[str, Any]] = field(default_factory=list)
    completed: int | None = None
    usage: Usage | None = None
    error: Mapping[str, Any] | None = None
    why_incomplete: str | None = None
    summary: Mapping[str, Any] | None = None
    """Facts about the run."""

    @property
    def response_id(self) -> str:
        """The id, which has the id of the run."""
        return id_of(self.run_id)

    def to_json(self) -> dict[str, Any]:
        """Return the response object."""
        asked = self.request
        effort = None if asked.reasoning is None else asked.reasoning.effort
        text = None if asked.text is None else asked.text
        return {
            "id": self.response_id,
            "object": "response",
            "created_at": self.created,
            "completed_at": self.completed,
            "status": self.status,
            "background": bool(asked.background),
            "error": self.error,
            "incomplete_details": None if self.why_incomplete is None else {"reason": self.why_incomplete},
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "max_tool_calls": None,
            "model": self.model,
            "output": list(self.output),
            "parallel_tool_calls": asked.parallel_tool_calls is not False,
            "previous_response_id": asked.previous_response_id,
            "reasoning": {"effort": effort, "summary": None},
            "service_tier": "default",
            "store": self.keeps,
            "temperature": 1.0 if asked.temperature is None else asked.temperature,
            "text": {"format": (text and text.format) or {"type": "text"}, "verbosity": "medium"},
            "tool_choice": asked.tool_choice or "auto",
            "tools": [_tool(tool) for tool in asked.tools or () if tool.get("type") not in LEFT_OUT],
            "top_logprobs": 0,
            "top_p": 1.0 if asked.top_p is None else asked.top_p,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "truncation": "disabled",
            "usage": None if self.usage is None else usage_form(self.usage),
            "user": asked.user,
            "safety_identifier": asked.safety_identifier,
            "prompt_cache_key": asked.prompt_cache_key,
            "metadata": asked.metadata or {},
            "podium": self._podium(),
        }

    def _podium(self) -> dict[str, Any]:
        facts = dict(self.summary or {"run_id": self.run_id})
        return {**facts, "ignored_tools": self.request.left_out} if self.request.left_out else facts


def id_of(run_id: str) -> str:
    """Return the id of the response of a run."""
    return f"resp_{run_id}"


def usage_form(usage: Usage) -> dict[str, Any]:
    """Return a usage as the Responses API has it; `total_tokens` includes the orchestration."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "orchestration_input_tokens": usage.orchestration_input_tokens,
            "orchestration_input_cached_tokens": usage.orchestration_cached_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "orchestration_output_tokens": usage.orchestration_output_tokens,
        },
        "total_tokens": usage.total_tokens,
        "estimated": usage.estimated,
    }


def list_form(items: Sequence[Mapping[str, Any]], *, has_more: bool) -> dict[str, Any]:
    """Return a page of a list."""
    return {
        "object": "list",
        "data": list(items),
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        return dict(tool)
    return {"description": None, "parameters": None, "strict": None, **tool}
