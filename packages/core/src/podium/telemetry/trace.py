"""Converts the events of one run to metrics and to spans for run, round, step, attempt and planner call."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Tracer

from podium.planners.planner import Planner
from podium.run_state.state import CallState, RunState
from podium.telemetry.instruments import (
    Attributes,
    Instruments,
    as_parts,
    asked,
    bill,
    blame,
    describe,
    shows_content,
)
from podium.types import events as told
from podium.types.events import Event
from podium.types.outcome import Call, Outcome
from podium.workers.worker import Worker

Place = tuple[int, ...]
"""The place of a span: `()` for the run, `(round,)`, `(round, step)` or `(round, step, attempt)`."""


@dataclass(slots=True)
class Open:
    """An open span."""

    span: Span
    began: float
    """In seconds since the start of the run."""
    labels: Attributes
    """The attributes of its metrics."""


class Tree:
    """The open spans of one run. The run's span is a child of the span that was current at creation."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._context = context.get_current()
        self._open: dict[Place, Open] = {}

    def __getitem__(self, place: Place) -> Open:
        return self._open[place]

    def get(self, place: Place) -> Open | None:
        """Return the span at `place`; `None` if it is not open."""
        return self._open.get(place)

    def open(
        self,
        place: Place,
        name: str,
        attributes: Attributes,
        *,
        at: float,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """End the span at `place`, if any, and open a new span there, below the nearest open span above."""
        self.end(place)
        above = (self._open.get(place[:length]) for length in range(len(place) - 1, -1, -1))
        parent = next((found.span for found in above if found is not None), None)
        inside = self._context if parent is None else trace.set_span_in_context(parent, self._context)
        span = self._tracer.start_span(name, inside, kind, attributes)
        labels = {name: attributes[name] for name in _LABELS if name in attributes}
        self._open[place] = Open(span, at, labels)
        return span

    def end(self, place: Place) -> None:
        """End the span at `place` and all spans below it, innermost first; do nothing if there is none."""
        if place in self._open:
            for other in reversed(tuple(self._open)):
                if len(other) > len(place) and other[: len(place)] == place:
                    self._open.pop(other).span.end()
            self._open.pop(place).span.end()


_LABELS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "server.address",
    "server.port",
    "podium.worker",
)


_PLANNER = -1
"""The step number that stands for the planner in a `Place`."""


class Trace:
    """Converts the events of one run that have a method here to spans and metrics."""

    def __init__(
        self, instruments: Instruments, name: str, workers: Iterable[Worker], planners: Iterable[Planner]
    ) -> None:
        self._instruments = instruments
        self._name = name
        self._workers = {worker.card.name: worker for worker in workers}
        self._asked = {planner.name: planner.worker for planner in planners}
        self._content = shows_content()
        self._tree = Tree(instruments.tracer)

    def __call__(self, event: Event, state: RunState) -> None:
        """Process an event."""
        getattr(self, f"_{event.type}", lambda *_: None)(event, state)

    def within(self, *ids: int) -> AbstractContextManager[object]:
        """Return a context manager that makes the span of a call the current span."""
        called = self._tree.get((*ids, _PLANNER) if len(ids) == 1 else ids)
        if called is None:
            return nullcontext()
        return trace.use_span(called.span, record_exception=False, set_status_on_exception=False)

    def close(self) -> None:
        """End all open spans."""
        self._tree.end(())

    def _run_started(self, event: told.RunStarted | told.RunResumed, _: RunState) -> None:
        said = _ids(event, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self._name})
        if isinstance(event, told.RunResumed):
            said["podium.run.recovery"] = event.recovery
        elif self._content and event.query:
            said["gen_ai.input.messages"] = asked(event.query)
        self._tree.open((), f"invoke_agent {self._name}", said, at=event.at)

    _run_resumed = _run_started

    def _round_started(self, event: told.RoundStarted, _: RunState) -> None:
        self._tree.end((event.round - 1,))
        said = _ids(event, {"podium.round": event.round})
        if self._content and event.why:
            said["podium.round.why"] = as_parts(("assistant", event.why))
        self._tree.open((event.round,), f"round {event.round}", said, at=event.at)

    def _planner_started(self, event: told.PlannerStarted, _: RunState) -> None:
        said = describe(self._asked.get(event.planner), event.planner)[1]
        said |= _ids(event, {"podium.round": event.round, "podium.worker": event.planner})
        said |= {"gen_ai.operation.name": "plan", "gen_ai.agent.name": self._name}
        self._tree.open((event.round, _PLANNER), f"plan {event.planner}", said, at=event.at)

    def _planner_ended(self, event: told.PlannerEnded, _: RunState) -> None:
        done = event.proposal
        call = Call(attempt=1, worker=done.planner, problem=done.problem, usage=done.usage, cost=done.cost)
        call = replace(call, maybe_paid=done.maybe_paid)
        self._end_call((event.round, _PLANNER), call, event.at, text=done.text)

    def _plan_ready(self, event: told.PlanReady, _: RunState) -> None:
        said: Attributes = {"podium.planner": event.planner, "podium.plan.steps": len(event.plan.steps)}
        said["podium.planner.fallback"] = event.is_fallback
        if (current := self._tree.get((event.round,))) is not None:
            current.span.set_attributes(said)

    def _approval_asked(
        self, event: told.ApprovalAsked | told.ApprovalGiven | told.ActionDecided, _: RunState
    ) -> None:
        said = {"podium.approved": event.approved} if isinstance(event, told.ApprovalGiven) else {}
        if (current := self._tree.get((event.round,))) is not None:
            current.span.add_event(event.type, said)

    _approval_given = _action_decided = _approval_asked

    def _step_started(self, event: told.StepStarted, _: RunState) -> None:
        step = self._open_step(event)
        name, said = describe(self._workers.get(event.worker), event.worker)
        said |= _ids(event, {"podium.round": event.round, "podium.step": event.step})
        said |= {"podium.attempt": event.attempt, "podium.worker": event.worker}
        if self._content:
            said["gen_ai.input.messages"] = as_parts(("user", event.subtask))
        kind = SpanKind.CLIENT if said["gen_ai.operation.name"] == "chat" else SpanKind.INTERNAL
        self._tree.open((*step, event.attempt), name, said, at=event.at, kind=kind)

    def _open_step(self, event: told.StepStarted | told.StepEnded) -> Place:
        place = (event.round, event.step)
        if self._tree.get(place) is None:
            said = _ids(event, {"podium.round": event.round, "podium.step": event.step})
            self._tree.open(place, f"step {event.step}", said, at=event.at)
        return place

    def _attempt_failed(self, event: told.AttemptFailed, state: RunState) -> None:
        for call in state.round(event.round).step(event.step).calls:
            if call.failed is event:
                self._end_worker(call, event.at)

    def _step_ended(self, event: told.StepEnded, state: RunState) -> None:
        outcome, step = event.outcome, state.round(event.round).step(event.step)
        place = self._open_step(event)
        for call in step.calls:
            if call.ended is outcome and call.failed is None:
                self._end_worker(call, event.at)
        if step.since is not None:
            return  # the step that replaces this one uses the same span
        span = self._tree[place].span
        span.set_attributes({"podium.step.status": outcome.status, "podium.worker": outcome.worker})
        if outcome.reused:
            span.set_attribute("podium.reused", value=True)
        if outcome.problem is not None:
            blame(span, outcome.problem, fails=outcome.status == "failed")
        self._tree.end(place)

    def _run_ended(self, event: told.RunEnded, _: RunState) -> None:
        result = event.result
        if (run := self._tree.get(())) is not None:
            run.span.set_attribute("podium.run.status", result.status)
            if result.cost is not None:
                run.span.set_attribute("podium.cost", result.cost)
            if self._content and result.answer:
                run.span.set_attribute("gen_ai.output.messages", as_parts(("assistant", result.answer)))
            if result.problem is not None:
                blame(run.span, result.problem, fails=result.status == "failed")
        self.close()

    def _run_stopped(self, event: told.RunStopped, _: RunState) -> None:
        if (run := self._tree.get(())) is not None:
            blame(run.span, event.problem)
        self.close()

    def _end_worker(self, call: CallState, at: float) -> None:
        """Record a call of a worker, and end its span."""
        start, outcome, made = call.start, call.ended, call.bill
        if outcome is not None and made.problem is None:  # a complete call may have an incomplete answer
            made = replace(made, problem=outcome.problem)
        place = (start.round, start.step, start.attempt)
        self._end_call(place, made, at, outcome=outcome, nests=call.nests)

    def _end_call(
        self,
        place: Place,
        call: Call,
        at: float,
        *,
        text: str = "",
        outcome: Outcome | None = None,
        nests: bool = False,
    ) -> None:
        """Record a call and end its span. A call from before a resume has no open span, and is ignored."""
        if (called := self._tree.get(place)) is None:
            return
        fails = call.problem is not None and (outcome is None or outcome.status != "ok")
        if not nests:  # else the spans of the nested run have the usage
            called.span.set_attributes(bill(call))
        if outcome is not None and outcome.finish_reason is not None:
            called.span.set_attribute("gen_ai.response.finish_reasons", (outcome.finish_reason,))
        if call.problem is not None:
            blame(called.span, call.problem, fails=fails)
        if self._content and (text or (outcome is not None and outcome.text)):
            text = text or (outcome.text if outcome is not None else "")
            called.span.set_attribute("gen_ai.output.messages", as_parts(("assistant", text)))
        error = call.problem.code if fails and call.problem is not None else None
        self._measure(called, None if nests else call, at, error)
        self._tree.end(place)

    def _measure(self, called: Open, spent: Call | None, at: float, error: str | None) -> None:
        self._instruments.measure(called.labels, seconds=at - called.began, spent=spent, error=error)


def _ids(event: Event, more: Attributes) -> Attributes:
    return {"podium.run.id": event.run_id, **more}
