"""The attributes of spans for workers, problems and texts, with OpenTelemetry's names."""

import json
import os
from urllib.parse import urlsplit

from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from podium.secrets import scrub
from podium.types.messages import Message
from podium.types.outcome import Problem
from podium.usage import Usage
from podium.workers.openai.chat import ChatWorker
from podium.workers.worker import Worker

CONTENT_SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that adds questions, subtasks and outputs to spans."""
_ON = ("true", "1", "span_only", "span_and_event")

Attributes = dict[str, AttributeValue]


def shows_content() -> bool:
    """Return whether spans have questions, subtasks and outputs."""
    return os.environ.get(CONTENT_SWITCH, "").lower() in _ON


def describe(worker: Worker | None, name: str) -> tuple[str, Attributes]:
    """Return the name and the attributes of the span for a call of `worker`.

    Args:
        worker: the called worker; `None` if only its name is known.
        name: the worker's name.
    """
    if isinstance(worker, ChatWorker):
        server = urlsplit(worker.endpoint.base_url)
        provider = worker.endpoint.provider
        called: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider.telemetry_name or provider.name,
            "gen_ai.request.model": worker.model,
            "server.address": server.hostname or "",
            "server.port": server.port or (443 if server.scheme == "https" else 80),
        }
        return f"chat {worker.model}", called
    if worker is not None and not worker.uses_tokens:
        return f"execute_tool {name}", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return f"invoke_agent {name}", {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}


def bill(usage: Usage, cost: float | None, *, maybe_paid: bool) -> Attributes:
    """Return the attributes for the tokens and the cost of a call."""
    said: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        said["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if usage.estimated:
        said["podium.usage.estimated"] = True
    if cost is not None:
        said["podium.cost"] = cost
    if maybe_paid:
        said["podium.maybe_paid"] = True
    return said


def blame(span: Span, problem: Problem, *, fails: bool = True) -> None:
    """Add the problem to a span.

    Args:
        span: the span.
        problem: the problem.
        fails: whether the problem is an error. For example, a plan that a person refused is a problem but not
            an error.
    """
    span.set_attribute("podium.problem.code", problem.code)
    if fails:
        span.set_attribute("error.type", problem.code)
        span.set_status(Status(StatusCode.ERROR, problem.message))


def as_parts(*texts: tuple[str, str]) -> str:
    """Return messages as JSON in the form of the conventions, without secrets.

    Args:
        texts: role and text of each message.
    """
    said = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in texts]
    return scrub(json.dumps(said, ensure_ascii=False))


def asked(query: tuple[Message, ...]) -> str:
    """Return a conversation as JSON in the form of the conventions, without secrets."""
    return as_parts(*((message.role, message.text) for message in query))
