"""Write a conductor's run to the SDK's traces: spans for plans, planner calls, and steps."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, nullcontext
from contextvars import ContextVar
from dataclasses import asdict
from typing import Any, Final

from agents.models.interface import ModelTracing
from agents.tracing import Span, SpanError, custom_span, get_current_span, get_current_trace

from podium.aio.sync import events_of
from podium.hosts.results import plan_metadata
from podium.secrets import scrub, scrub_data
from podium.types import Completion, Event, PlanReady
from podium.workers import Request, Worker, step_input_of

_PLAN: Final = "podium.plan"
_PLANNER: Final = "podium.planner"
_STEP: Final = "podium.step"

_OF_RUN = ContextVar("openai_agents_podium_tracing", default=ModelTracing.ENABLED)


def tracing_of_run() -> ModelTracing:
    """Return the tracing of the SDK's run that a worker works for; enabled if there is no run."""
    return _OF_RUN.get()


class RunTracing:
    """Writes the spans of one run, below the span in which it was created.

    Spans have the names of workers and steps, tokens and states. Spans have subtasks, plans, outputs and
    error texts only if the tracing includes data. Secrets are removed.
    """

    def __init__(self, tracing: ModelTracing) -> None:
        self._tracing = tracing
        self._is_off = tracing.is_disabled() or get_current_trace() is None
        self._has_data = tracing.include_data()
        self._parent = get_current_span() or get_current_trace()

    async def middleware(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker in a separate span, with the tracing of the run; a `CallMiddleware`."""
        # A separate task, because span and tracing must be current for the worker alone.
        calling: AsyncGenerator[str | Completion, None] = events_of(
            lambda emit: self._call(worker, request, emit)
        )
        async with aclosing(calling) as pieces:
            async for piece in pieces:
                yield piece

    def hear(self, event: Event) -> None:
        """Write a span for each plan."""
        if self._is_off or not isinstance(event, PlanReady):
            return
        data: dict[str, Any] = {"run_id": event.run_id, "round": event.round, "steps": len(event.plan.steps)}
        if self._has_data:
            data["plan"] = scrub_data(plan_metadata(event.plan))
        with custom_span(_PLAN, data, parent=self._parent):
            pass

    async def _call(self, worker: Worker, request: Request, emit: Callable[[str | Completion], None]) -> None:
        _OF_RUN.set(self._tracing)
        span = self._span(worker, request)
        with nullcontext() if self._is_off else span:
            try:
                async with aclosing(worker.call(request)) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Completion):
                            span.span_data.data["usage"] = asdict(piece.usage)
                            span.span_data.data |= {"output": scrub(piece.text)} if self._has_data else {}
                        emit(piece)
            except Exception as error:  # raised again: the span only notes it
                told = scrub(str(error)) if self._has_data else type(error).__name__
                span.set_error(SpanError(message=told, data={"code": getattr(error, "code", None)}))
                raise

    def _span(self, worker: Worker, request: Request) -> Span[Any]:
        caller, data = request.caller, dict[str, Any](worker=worker.card.name)
        if caller is None:
            return custom_span(_PLANNER, data, parent=self._parent, disabled=self._is_off)
        data |= {"run_id": caller.run_id, "round": caller.round, "step": caller.step}
        data |= {"path": caller.path} if caller.path else {}
        data["attempt"] = caller.attempt
        if self._has_data:
            data["subtask"] = scrub(step_input_of(request).subtask)
        return custom_span(_STEP, data, parent=self._parent, disabled=self._is_off)
