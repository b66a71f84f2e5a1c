"""Converts the events of one run to metrics and to spans for run, round, step, attempt and planner call.

The names are those of OpenTelemetry's semantic conventions for generative AI.
"""

import json
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import urlsplit

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from podium.planners.planner import Planner
from podium.run_state.round_state import CallState
from podium.run_state.state import RunState
from podium.secrets import scrub
from podium.types import events as told
from podium.types.events import Event
from podium.types.outcome import Call, Problem, totals
from podium.workers.openai.chat import ChatWorker
from podium.workers.worker import Worker

_SHOWS_CONTENT = ("true", "1", "span_only", "span_and_event")
_TOKEN_BUCKETS = (*(4**power for power in range(14)),)
_SECOND_BUCKETS = (*(0.01 * 2**power for power in range(14)),)
_LABELS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "server.address",
    "server.port",
    "podium.worker",
)
"""The attributes of a span that its metrics have too."""
_PLANNER = -1
"""The step number that stands for the planner in a `Place`."""

Attributes = dict[str, AttributeValue]
Place = tuple[int, ...]
"""The place of a span: `()` for the run, `(round,)`, `(round, step)` or `(round, step, attempt)`."""


class Instruments:
    """A tracer, and the instruments that measure calls."""

    def __init__(self, tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> None:
        meter = meters.get_meter("podium")
        self.tracer = tracers.get_tracer("podium")
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self.seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )
        self.cost = meter.create_counter("podium.cost", unit="{USD}", description="What calls cost.")


_instruments = lru_cache(maxsize=1)(Instruments)


def configured() -> Instruments | None:
    """Return the instruments; `None` if OpenTelemetry has only its default, empty providers."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    api = (type(tracers).__module__, type(meters).__module__)
    if api[0].startswith("opentelemetry.trace") and api[1].startswith("opentelemetry.metrics"):
        return None
    return _instruments(tracers, meters)


@dataclass(slots=True)
class _Open:
    """An open span."""

    span: Span
    began: float
    """In seconds since the start of the run."""
    labels: Attributes
    """The attributes of its metrics."""


class Trace:
    """Converts the events of one run that have a method here to spans and metrics."""

    def __init__(
        self, instruments: Instruments, name: str, workers: Iterable[Worker], planners: Iterable[Planner]
    ) -> None:
        self._instruments = instruments
        self._name = name
        self._workers = {worker.card.name: worker for worker in workers}
        self._asked = {planner.name: planner.worker for planner in planners}
        switch = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
        self._content = switch.lower() in _SHOWS_CONTENT
        """Whether spans have questions, subtasks and outputs."""
        self._context = context.get_current()
        self._open: dict[Place, _Open] = {}

    def __call__(self, event: Event, state: RunState) -> None:
        """Process an event."""
        getattr(self, f"_{event.type}", lambda *_: None)(event, state)

    def within(self, *ids: int) -> AbstractContextManager[object]:
        """Return a context manager that makes the span of a call the current span."""
        called = self._open.get((*ids, _PLANNER) if len(ids) == 1 else ids)
        if called is None:
            return nullcontext()
        return trace.use_span(called.span, record_exception=False, set_status_on_exception=False)

    def close(self) -> None:
        """End all open spans."""
        self._end(())

    def _begin(self, place: Place, name: str, attributes: Attributes, at: float) -> None:
        """End the span at `place`, if any, and open a new span there, below the nearest open span above."""
        self._end(place)
        above = (self._open.get(place[:length]) for length in range(len(place) - 1, -1, -1))
        parent = next((found.span for found in above if found is not None), None)
        inside = self._context if parent is None else trace.set_span_in_context(parent, self._context)
        kind = SpanKind.CLIENT if attributes.get("gen_ai.operation.name") == "chat" else SpanKind.INTERNAL
        span = self._instruments.tracer.start_span(name, inside, kind, attributes)
        labels = {name: attributes[name] for name in _LABELS if name in attributes}
        self._open[place] = _Open(span, at, labels)

    def _end(self, place: Place) -> None:
        """End the span at `place` and all spans below it, innermost first; do nothing if there is none."""
        if place in self._open:
            for other in reversed(tuple(self._open)):
                if len(other) > len(place) and other[: len(place)] == place:
                    self._open.pop(other).span.end()
            self._open.pop(place).span.end()

    def _run_started(self, event: told.RunStarted | told.RunResumed, _: RunState) -> None:
        said = _ids(event, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self._name})
        if isinstance(event, told.RunResumed):
            said["podium.run.recovery"] = event.recovery
        elif self._content and event.query:
            asked = [(message.role, message.text) for message in event.query]
            said["gen_ai.input.messages"] = _as_parts(*asked)
        self._begin((), f"invoke_agent {self._name}", said, event.at)

    _run_resumed = _run_started

    def _round_started(self, event: told.RoundStarted, _: RunState) -> None:
        self._end((event.round - 1,))
        said = _ids(event, {"podium.round": event.round})
        if self._content and event.why:
            said["podium.round.why"] = _as_parts(("assistant", event.why))
        self._begin((event.round,), f"round {event.round}", said, event.at)

    def _planner_started(self, event: told.PlannerStarted, _: RunState) -> None:
        said = describe(self._asked.get(event.planner), event.planner)[1]
        said |= _ids(event, {"podium.round": event.round, "podium.worker": event.planner})
        said |= {"gen_ai.operation.name": "plan", "gen_ai.agent.name": self._name}
        self._begin((event.round, _PLANNER), f"plan {event.planner}", said, event.at)

    def _planner_ended(self, event: told.PlannerEnded, _: RunState) -> None:
        done = event.proposal
        call = Call(attempt=1, worker=done.planner, problem=done.problem, **totals((done,)))
        self._end_call((event.round, _PLANNER), call, event.at, done.text)

    def _plan_ready(self, event: told.PlanReady, _: RunState) -> None:
        said: Attributes = {"podium.planner": event.planner, "podium.plan.steps": len(event.plan.steps)}
        said["podium.planner.fallback"] = event.is_fallback
        if (current := self._open.get((event.round,))) is not None:
            current.span.set_attributes(said)

    def _approval_asked(
        self, event: told.ApprovalAsked | told.ApprovalGiven | told.ActionDecided, _: RunState
    ) -> None:
        said = {"podium.approved": event.approved} if isinstance(event, told.ApprovalGiven) else {}
        if (current := self._open.get((event.round,))) is not None:
            current.span.add_event(event.type, said)

    _approval_given = _action_decided = _approval_asked

    def _step_started(self, event: told.StepStarted, _: RunState) -> None:
        self._open_step(event)
        name, said = describe(self._workers.get(event.worker), event.worker)
        said |= _ids(event, {"podium.round": event.round, "podium.step": event.step})
        said |= {"podium.attempt": event.attempt, "podium.worker": event.worker}
        if self._content:
            said["gen_ai.input.messages"] = _as_parts(("user", event.subtask))
        self._begin((event.round, event.step, event.attempt), name, said, event.at)

    def _open_step(self, event: told.StepStarted | told.StepEnded) -> Span:
        place = (event.round, event.step)
        if place not in self._open:
            path = event.path if isinstance(event, told.StepStarted) else event.outcome.path
            said = _ids(event, {"podium.round": event.round, "podium.step": event.step})
            said |= {"podium.path": path} if path else {}
            self._begin(place, f"step {path or event.step}", said, event.at)
        return self._open[place].span

    def _attempt_failed(self, event: told.AttemptFailed, state: RunState) -> None:
        for call in state.round(event.round).step(event.step).calls:
            if call.failed is event:
                self._end_worker(call, event.at)

    def _step_ended(self, event: told.StepEnded, state: RunState) -> None:
        outcome, step = event.outcome, state.round(event.round).step(event.step)
        span = self._open_step(event)
        for call in step.calls:
            if call.ended is outcome and call.failed is None:
                self._end_worker(call, event.at)
        if step.since is not None:
            return  # the step that replaces this one uses the same span
        span.set_attributes({"podium.step.status": outcome.status, "podium.worker": outcome.worker})
        if outcome.reused:
            span.set_attribute("podium.reused", value=True)
        if outcome.problem is not None:
            _blame(span, outcome.problem, fails=outcome.status == "failed")
        self._end((event.round, event.step))

    def _run_ended(self, event: told.RunEnded, _: RunState) -> None:
        result = event.result
        if (run := self._open.get(())) is not None:
            run.span.set_attribute("podium.run.status", result.status)
            if result.cost is not None:
                run.span.set_attribute("podium.cost", result.cost)
            if self._content and result.answer:
                run.span.set_attribute("gen_ai.output.messages", _as_parts(("assistant", result.answer)))
            if result.problem is not None:
                _blame(run.span, result.problem, fails=result.status == "failed")
        self.close()

    def _run_stopped(self, event: told.RunStopped, _: RunState) -> None:
        if (run := self._open.get(())) is not None:
            _blame(run.span, event.problem)
        self.close()

    def _end_worker(self, call: CallState, at: float) -> None:
        """Record a call of a worker, and end its span."""
        start, outcome, made = call.start, call.ended, call.bill
        place, text = (start.round, start.step, start.attempt), ""
        if outcome is not None:
            text = outcome.text
            if made.problem is None:  # a complete call may have an incomplete answer
                made = replace(made, problem=outcome.problem)
            if outcome.finish_reason is not None and (called := self._open.get(place)) is not None:
                called.span.set_attribute("gen_ai.response.finish_reasons", (outcome.finish_reason,))
        fails = outcome is None or outcome.status != "ok"
        self._end_call(place, made, at, text, fails=fails, nests=call.nests)

    def _end_call(
        self, place: Place, call: Call, at: float, text: str, *, fails: bool = True, nests: bool = False
    ) -> None:
        """Record a call and end its span. A call from before a resume has no open span, and is ignored."""
        if (called := self._open.get(place)) is None:
            return
        labels, failed = called.labels, {}
        if call.problem is not None:
            failed = {"error.type": call.problem.code} if fails else {}
            _blame(called.span, call.problem, fails=fails)
        if self._content and text:
            called.span.set_attribute("gen_ai.output.messages", _as_parts(("assistant", text)))
        self._instruments.seconds.record(at - called.began, {**labels, **failed})
        if not nests:  # else the spans of the nested run have the usage
            called.span.set_attributes(_bill(call))
            for kind, count in (("input", call.usage.input_tokens), ("output", call.usage.output_tokens)):
                if count and not call.usage.estimated:
                    self._instruments.tokens.record(count, {**labels, "gen_ai.token.type": kind})
            if call.cost:
                self._instruments.cost.add(call.cost, labels)
        self._end(place)


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


def _bill(call: Call) -> Attributes:
    """Return the attributes for the tokens and the cost of a call."""
    usage = call.usage
    said: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        said["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if usage.estimated:
        said["podium.usage.estimated"] = True
    if call.cost is not None:
        said["podium.cost"] = call.cost
    if call.maybe_paid:
        said["podium.maybe_paid"] = True
    return said


def _blame(span: Span, problem: Problem, *, fails: bool = True) -> None:
    """Add a problem to a span; `fails`: it is an error, unlike a plan that a person refused."""
    span.set_attribute("podium.problem.code", problem.code)
    if fails:
        span.set_attribute("error.type", problem.code)
        span.set_status(Status(StatusCode.ERROR, problem.message))


def _as_parts(*texts: tuple[str, str]) -> str:
    """Return messages, each with role and text, as JSON in the form of the conventions, without secrets."""
    said = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in texts]
    return scrub(json.dumps(said, ensure_ascii=False))


def _ids(event: Event, more: Attributes) -> Attributes:
    return {"podium.run.id": event.run_id, **more}
