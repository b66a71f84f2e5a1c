"""The tracer, the instruments, and the attributes of spans, with OpenTelemetry's names."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from podium.secrets import scrub
from podium.types.messages import Message
from podium.types.outcome import Call, Problem
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
    """Return the name and the attributes of the span for a call of a worker, which may be unknown."""
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


def bill(call: Call) -> Attributes:
    """Return the attributes for the tokens and the cost of a call."""
    usage, cost = call.usage, call.cost
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
    if call.maybe_paid:
        said["podium.maybe_paid"] = True
    return said


def blame(span: Span, problem: Problem, *, fails: bool = True) -> None:
    """Add a problem to a span; `fails`: it is an error, unlike a plan that a person refused."""
    span.set_attribute("podium.problem.code", problem.code)
    if fails:
        span.set_attribute("error.type", problem.code)
        span.set_status(Status(StatusCode.ERROR, problem.message))


def as_parts(*texts: tuple[str, str]) -> str:
    """Return messages, each with role and text, as JSON in the form of the conventions, without secrets."""
    said = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in texts]
    return scrub(json.dumps(said, ensure_ascii=False))


def asked(query: tuple[Message, ...]) -> str:
    """Return a conversation as JSON in the form of the conventions, without secrets."""
    return as_parts(*((message.role, message.text) for message in query))


SCOPE = "podium"
"""The instrumentation scope."""
TOKEN_BUCKETS = (*(4**power for power in range(14)),)
SECOND_BUCKETS = (*(0.01 * 2**power for power in range(14)),)
"""Histogram boundaries of the conventions, in seconds."""


@dataclass(frozen=True, slots=True)
class Instruments:
    """A tracer, and the instruments that measure calls."""

    tracer: trace.Tracer
    tokens: metrics.Histogram
    seconds: metrics.Histogram
    cost: metrics.Counter

    def measure(
        self, labels: Mapping[str, AttributeValue], *, seconds: float, spent: Call | None, error: str | None
    ) -> None:
        """Record one call, without estimated tokens and an unknown cost."""
        self.seconds.record(seconds, {**labels, "error.type": error} if error is not None else labels)
        if spent is None:
            return
        if not spent.usage.estimated:
            for kind, count in (("input", spent.usage.input_tokens), ("output", spent.usage.output_tokens)):
                if count:
                    self.tokens.record(count, {**labels, "gen_ai.token.type": kind})
        if spent.cost:
            self.cost.add(spent.cost, labels)


def configured() -> Instruments | None:
    """Return the instruments; `None` if OpenTelemetry has only its default, empty providers."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    api = (type(tracers).__module__, type(meters).__module__)
    if api[0].startswith("opentelemetry.trace") and api[1].startswith("opentelemetry.metrics"):
        return None
    return _instruments(tracers, meters)


@lru_cache(maxsize=1)
def _instruments(tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> Instruments:
    meter = meters.get_meter(SCOPE)
    return Instruments(
        tracer=tracers.get_tracer(SCOPE),
        tokens=meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        ),
        seconds=meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=SECOND_BUCKETS,
        ),
        cost=meter.create_counter("podium.cost", unit="{USD}", description="What calls cost."),
    )
