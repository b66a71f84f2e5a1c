"""A run in LlamaIndex's instrumentation: the calls of its workers as spans, its plans and steps as events.

LlamaIndex's own context variables determine the parent of a span. Inside of a step, it is the span of the
step.
"""

import inspect
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace
from typing import Any, Final, Self
from uuid import uuid4

from llama_index.core.schema import NodeWithScore
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.dispatcher import active_instrument_tags
from llama_index_instrumentation.events.span import SpanDropEvent
from llama_index_instrumentation.span import active_span_id

from llama_index_podium.events import (
    PlanReadyEvent,
    RunEndEvent,
    RunEvent,
    StepEndEvent,
    StepInProgressEvent,
    StepStartEvent,
)
from llama_index_podium.sources import FINDING, Place
from podium.errors import PodiumError
from podium.hosts.results import plan_metadata
from podium.secrets import scrub, scrub_data, scrub_error
from podium.types import Completion, Event, PlanReady, RunEnded, StepEnded
from podium.workers import Caller, Request, Worker, step_input_of

dispatcher = get_dispatcher(__name__)
_WHERE: Final[tuple[ContextVar[Any], ...]] = (active_span_id, active_instrument_tags)


class Steps:
    """Reports the calls of one run and of its nested runs, and collects the nodes that they find."""

    def __init__(self) -> None:
        self._span = active_span_id.get()
        self._spans: dict[tuple[str, Place], str] = {}
        self.found: dict[str, dict[Place, list[NodeWithScore]]] = {}
        """The nodes found, by the run's id and the call."""

    async def middleware(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker in a separate span, and collect the nodes it finds; a `CallMiddleware`."""
        call, above = _Call(worker, request), FINDING.get()
        if request.caller is not None:
            place = _place(request.caller)
            self._spans[request.caller.run_id, place] = call.span
            self.found.setdefault(request.caller.run_id, {})[place] = call.found
        call.begin()
        try:
            async with aclosing(worker.call(request)) as pieces:
                while True:
                    # set only while the worker runs, because the reader of this generator has the same
                    # context
                    with call.inside():
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    call.take(piece)
                    if isinstance(piece, Completion) and above is not None:
                        above += call.found  # this run answers for a step of another run
                    yield piece
        except GeneratorExit:  # the caller has left: it has the answer, or no longer needs it
            call.end()
            raise
        except BaseException as error:  # handlers also get a cancellation
            call.drop(error)
            raise
        call.end()

    def tell(self, event: Event) -> None:
        """Send the events of a ready plan, an ended step or an ended run."""
        if isinstance(event, PlanReady):
            self._send(
                PlanReadyEvent,
                event,
                round=event.round,
                plan=scrub_data(plan_metadata(event.plan)),
                planner=event.planner,
                why=scrub(event.why),
            )
        elif isinstance(event, StepEnded):
            self._tell_step(event)
        elif isinstance(event, RunEnded):
            result = event.result
            self._send(
                RunEndEvent,
                event,
                status=result.status,
                problem=None if result.problem is None else result.problem.message,
                usage=asdict(result.usage),
                cost=result.cost,
                seconds=result.seconds,
            )

    def _tell_step(self, event: StepEnded) -> None:
        outcome = event.outcome
        place = Place(event.round, event.step, outcome.attempts)
        self._send(
            StepEndEvent,
            event,
            self._spans.get((event.run_id, place)),
            worker=outcome.worker,
            status=outcome.status,
            output=scrub(outcome.text),
            problem=None if outcome.problem is None else outcome.problem.message,
            source_nodes=[node.node_id for node in self.found.get(event.run_id, {}).get(place, ())],
            usage=asdict(outcome.usage),
            path=outcome.path,
            **place._asdict(),
        )

    def _send(self, kind: type[RunEvent], event: Event, span: str | None = None, **facts: Any) -> None:
        dispatcher.event(kind(span_id=span or self._span, run_id=event.run_id, **facts))


class Ambient:
    """Values of context variables, to be set in blocks of code; by default those that determine spans."""

    def __init__(self, *values: tuple[ContextVar[Any], Any]) -> None:
        self._values = values

    @classmethod
    def here(cls) -> Self:
        """Return the current values of the variables that determine a span's parent."""
        return cls(*((variable, variable.get()) for variable in _WHERE))

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Set the variables in the block."""
        tokens = [(variable, variable.set(value)) for variable, value in self._values]
        try:
            yield
        finally:
            for variable, token in tokens:
                variable.reset(token)


class _Call:
    """One call of a worker as a span."""

    def __init__(self, worker: Worker, request: Request) -> None:
        caller, name = request.caller, worker.card.name
        self._worker, self._request = worker, request
        self.found: list[NodeWithScore] = []
        self.span = f"{'planner' if caller is None else 'step'}.{name}-{uuid4()}"
        self._facts: dict[str, Any] = {}
        self._tags = {**active_instrument_tags.get(), "podium_worker": name}
        if caller is not None:
            self._facts = {"run_id": caller.run_id, **_place(caller)._asdict(), "worker": name}
            self._facts |= {"path": caller.path} if caller.path else {}
            self._tags |= {f"podium_{key}": value for key, value in self._facts.items()}
        self._bound = inspect.signature(worker.call).bind(_shown(request))
        self._written: list[str] = []
        self._output: str | None = None
        self._ended = False

    def begin(self) -> None:
        """Report the start of the call."""
        dispatcher.span_enter(
            self.span, self._bound, instance=self._worker, parent_id=active_span_id.get(), tags=self._tags
        )
        if self._facts:
            self._send(StepStartEvent, subtask=scrub(step_input_of(self._request).subtask))

    def inside(self) -> AbstractContextManager[None]:
        """Put all calls in the block below the span."""
        within = ((active_span_id, self.span), (active_instrument_tags, self._tags), (FINDING, self.found))
        return Ambient(*within).inside()

    def take(self, piece: str | Completion) -> None:
        """Report a chunk of the worker's output."""
        if isinstance(piece, Completion):
            self._output = piece.text
            self.end()
        else:
            self._written.append(piece)
            if self._facts:
                self._send(StepInProgressEvent, delta=scrub(piece))

    def end(self) -> None:
        """Report the end of the call, once."""
        if not self._ended:
            self._ended = True
            output = scrub("".join(self._written) if self._output is None else self._output)
            dispatcher.span_exit(self.span, self._bound, instance=self._worker, result=output)

    def drop(self, error: BaseException) -> None:
        """Report that the call failed or was cancelled."""
        if not self._ended:
            self._ended = True
            error = error if scrub_error(error) else PodiumError(scrub(repr(error)))
            dispatcher.event(SpanDropEvent(span_id=self.span, err_str=str(error)))
            dispatcher.span_drop(self.span, self._bound, instance=self._worker, err=error)

    def _send(self, kind: type[StepStartEvent | StepInProgressEvent], **facts: Any) -> None:
        dispatcher.event(kind(span_id=self.span, tags=dict(self._tags), **self._facts, **facts))


def _shown(request: Request) -> Request:
    """Return a request without secrets, for tracers."""
    if scrub(repr(request)) == repr(request):
        return request
    messages = tuple(replace(each, content=scrub_data(each.content)) for each in request.messages)
    return replace(request, messages=messages, step_input=None, tool_messages=())


def _place(caller: Caller) -> Place:
    return Place(caller.round, caller.step, caller.attempt)
