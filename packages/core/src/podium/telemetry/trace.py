"""Converts the events of one run to metrics and to spans for run, round, step, attempt and planner call."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import assert_never

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Tracer

from podium.planners.planner import Planner
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
from podium.types.events import (
    ActionDecided,
    AnswerDelta,
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    NestedRunEnded,
    PlanDelta,
    PlannerEnded,
    PlannerStarted,
    PlanReady,
    RoundStarted,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStopped,
    StepDelta,
    StepEnded,
    StepStarted,
    WorkerRunEnded,
)
from podium.types.outcome import Call, Outcome
from podium.types.result import Result
from podium.usage import Usage
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
    holds_run: bool = False
    """Whether it contains a nested run, which records its own calls."""


class Tree:
    """The open spans of one run. The run's span is a child of the span that was current at creation."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._context = context.get_current()
        self._open: dict[Place, Open] = {}

    def __getitem__(self, place: Place) -> Open:
        return self._open[place]

    def __contains__(self, place: Place) -> bool:
        return place in self._open

    def get(self, place: Place) -> Open | None:
        """Return the span at `place`; `None` if it is not open."""
        return self._open.get(place)

    def below(self, place: Place) -> Iterator[Place]:
        """Yield the places of open spans below `place`, newest first."""
        for other in reversed(tuple(self._open)):
            if len(other) > len(place) and other[: len(place)] == place:
                yield other

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
        if place not in self._open:
            return
        for other in (*self.below(place), place):
            self._open.pop(other).span.end()


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
    """Converts the events of one run to spans and metrics.

    Events of nested runs are ignored, because a nested run has its own trace.
    """

    def __init__(
        self, instruments: Instruments, name: str, workers: Iterable[Worker], planners: Iterable[Planner]
    ) -> None:
        self._instruments = instruments
        self._name = name
        self._workers = {worker.card.name: worker for worker in workers}
        self._asked = {planner.name: planner.worker for planner in planners}
        self._content = shows_content()
        self._tree = Tree(instruments.tracer)
        self._run_id = ""

    def __call__(self, event: Event) -> None:
        """Process an event."""
        self._run_id = self._run_id or event.run_id
        if event.run_id == self._run_id:
            self._take(event)
        elif isinstance(event, RunStarted) and event.parent is not None and event.parent[0] == self._run_id:
            called = self._tree.get(event.parent[1:])
            if called is not None:
                called.holds_run = True

    def _take(self, event: Event) -> None:  # noqa: C901, PLR0912 - one case for each event
        match event:
            case RunStarted() | RunResumed():
                self._run_started(event)
            case RoundStarted():
                self._round_started(event)
            case PlannerStarted():
                self._planner_started(event)
            case PlannerEnded():
                self._planner_ended(event)
            case PlanReady():
                self._plan_ready(event)
            case ApprovalAsked() | ApprovalGiven() | ActionDecided():
                self._looked_at(event)
            case StepStarted():
                self._step_started(event)
            case AttemptFailed():
                self._attempt_failed(event)
            case StepEnded():
                self._step_ended(event)
            case RunEnded():
                self._run_ended(event)
            case RunStopped():
                self._run_stopped(event)
            case NestedRunEnded() | WorkerRunEnded():
                pass  # the nested run has a span of its own
            case PlanDelta() | StepDelta() | AnswerDelta():
                pass  # spans have whole texts only
            case _:
                assert_never(event)

    def within(self, *ids: int) -> AbstractContextManager[object]:
        """Return a context manager that makes the span of a call the current span.

        Args:
            ids: round, step and attempt of a worker's call; the round of a planner's call; nothing for the
                single call of a hosted run.
        """
        called = self._tree.get((*ids, _PLANNER) if len(ids) == 1 else ids)
        if called is None:
            return nullcontext()
        return trace.use_span(called.span, record_exception=False, set_status_on_exception=False)

    def close(self) -> None:
        """End all open spans."""
        self._tree.end(())

    def _run_started(self, event: RunStarted | RunResumed) -> None:
        said = self._ids({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": self._name})
        if isinstance(event, RunResumed):
            said["podium.run.recovery"] = event.recovery
        elif self._content and event.query:
            said["gen_ai.input.messages"] = asked(event.query)
        self._tree.open((), f"invoke_agent {self._name}", said, at=event.at)

    def _round_started(self, event: RoundStarted) -> None:
        self._tree.end((event.round - 1,))
        said = self._ids({"podium.round": event.round})
        if self._content and event.why:
            said["podium.round.why"] = as_parts(("assistant", event.why))
        self._tree.open((event.round,), f"round {event.round}", said, at=event.at)

    def _planner_started(self, event: PlannerStarted) -> None:
        _, said = describe(self._asked.get(event.planner), event.planner)
        said |= self._ids({"podium.round": event.round, "podium.worker": event.planner})
        said |= {"gen_ai.operation.name": "plan", "gen_ai.agent.name": self._name}
        self._tree.open((event.round, _PLANNER), f"plan {event.planner}", said, at=event.at)

    def _planner_ended(self, event: PlannerEnded) -> None:
        done, place = event.proposal, (event.round, _PLANNER)
        call = Call(
            attempt=1,
            worker=done.planner,
            problem=done.problem,
            usage=done.usage,
            cost=done.cost,
            maybe_paid=done.maybe_paid,
        )
        self._end_call(place, call, at=event.at, text=done.text)

    def _plan_ready(self, event: PlanReady) -> None:
        if (event.round,) in self._tree:
            said: Attributes = {"podium.planner": event.planner, "podium.plan.steps": len(event.plan.steps)}
            said["podium.planner.fallback"] = event.is_fallback
            self._tree[event.round,].span.set_attributes(said)

    def _looked_at(self, event: ApprovalAsked | ApprovalGiven | ActionDecided) -> None:
        if (event.round,) in self._tree:
            said = {"podium.approved": event.approved} if isinstance(event, ApprovalGiven) else {}
            self._tree[event.round,].span.add_event(event.type, said)

    def _step_started(self, event: StepStarted) -> None:
        step = self._open_step(event)
        name, said = describe(self._workers.get(event.worker), event.worker)
        said |= self._ids({"podium.round": event.round, "podium.step": event.step})
        said |= {"podium.attempt": event.attempt, "podium.worker": event.worker}
        if self._content:
            said["gen_ai.input.messages"] = as_parts(("user", event.subtask))
        kind = SpanKind.CLIENT if said["gen_ai.operation.name"] == "chat" else SpanKind.INTERNAL
        self._tree.open((*step, event.attempt), name, said, at=event.at, kind=kind)

    def _open_step(self, event: StepStarted | StepEnded) -> Place:
        place = (event.round, event.step)
        if place not in self._tree:
            said = self._ids({"podium.round": event.round, "podium.step": event.step})
            self._tree.open(place, f"step {event.step}", said, at=event.at)
        return place

    def _attempt_failed(self, event: AttemptFailed) -> None:
        self._end_call((event.round, event.step, event.attempt), event.call, at=event.at)

    def _step_ended(self, event: StepEnded) -> None:
        outcome, step = event.outcome, self._open_step(event)
        replaced = outcome.problem is not None and outcome.problem.code == "superseded"
        for place in self._tree.below(step):
            if not replaced or place[-1] <= event.attempt:
                call = _call_of(outcome, place[-1])
                self._end_call(place, call, at=event.at, text=outcome.text, outcome=outcome)
        if any(self._tree.below(step)):
            return  # the step that replaces this one uses the same span
        span = self._tree[step].span
        span.set_attributes({"podium.step.status": outcome.status, "podium.worker": outcome.worker})
        if outcome.reused:
            span.set_attribute("podium.reused", value=True)
        if outcome.problem is not None:
            blame(span, outcome.problem, fails=outcome.status == "failed")
        self._tree.end(step)

    def _run_ended(self, event: RunEnded) -> None:
        result = event.result
        if () in self._tree:
            span = self._tree[()].span
            span.set_attribute("podium.run.status", result.status)
            if result.cost is not None:
                span.set_attribute("podium.cost", result.cost)
            if self._content and result.answer:
                span.set_attribute("gen_ai.output.messages", as_parts(("assistant", result.answer)))
            if result.problem is not None:
                blame(span, result.problem, fails=result.status == "failed")
            if result.hosted_usage is not None:
                self._measure_hosted(result, result.hosted_usage, event.at)
        self.close()

    def _measure_hosted(self, result: Result, usage: Usage, at: float) -> None:
        """Record a hosted run as one call."""
        call = Call(attempt=1, worker=self._name, usage=usage, cost=result.cost)
        error = result.problem.code if result.status == "failed" and result.problem is not None else None
        self._tree[()].span.set_attributes(bill(usage, result.cost, maybe_paid=False))
        self._instruments.measure(self._tree[()].labels, seconds=at, spent=call, error=error)

    def _run_stopped(self, event: RunStopped) -> None:
        run = self._tree.get(())
        if run is not None:
            blame(run.span, event.problem)
        self.close()

    def _end_call(
        self, place: Place, call: Call, *, at: float, text: str = "", outcome: Outcome | None = None
    ) -> None:
        """Record a call and end its span. A call from before a resume has no open span, and is ignored."""
        called = self._tree.get(place)
        if called is None:
            return
        fails = call.problem is not None and (outcome is None or outcome.status != "ok")
        if not called.holds_run:  # the spans of the nested run have the usage
            called.span.set_attributes(bill(call.usage, call.cost, maybe_paid=call.maybe_paid))
        if outcome is not None and outcome.finish_reason is not None:
            called.span.set_attribute("gen_ai.response.finish_reasons", (outcome.finish_reason,))
        if call.problem is not None:
            blame(called.span, call.problem, fails=fails)
        if self._content and text:
            called.span.set_attribute("gen_ai.output.messages", as_parts(("assistant", text)))
        self._instruments.measure(
            called.labels,
            seconds=at - called.began,
            spent=None if called.holds_run else call,
            error=call.problem.code if call.problem is not None and fails else None,
        )
        self._tree.end(place)

    def _ids(self, more: Attributes) -> Attributes:
        return {"podium.run.id": self._run_id, **more}


def _call_of(outcome: Outcome, attempt: int) -> Call:
    """Return one call of a step, from the step's outcome."""
    made = next((call for call in outcome.calls if call.attempt == attempt), None)
    if made is None and outcome.calls:
        return Call(attempt=attempt, worker=outcome.worker, problem=outcome.problem)
    if made is None:
        made = Call(
            attempt=attempt,
            worker=outcome.worker,
            usage=outcome.usage,
            cost=outcome.cost,
            maybe_paid=outcome.maybe_paid,
        )
    return made if made.problem is not None else replace(made, problem=outcome.problem)
