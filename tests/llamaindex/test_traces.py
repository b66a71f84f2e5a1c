"""What LlamaIndex's instrumentation is told of a run."""

from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.query import QueryEndEvent, QueryStartEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalStartEvent
from llama_index.core.instrumentation.span import SimpleSpan
from llama_index.core.instrumentation.span_handlers import SimpleSpanHandler
from llamaindex.library import Shelf
from llamaindex.speaking import Blocking, Native
from pydantic import Field

from llama_index_podium import ConductorQueryEngine, as_worker
from llama_index_podium.events import PlanReadyEvent, StepEndEvent, StepEvent, StepStartEvent
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.plan_text import write_plan
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio

_TOLD = (PlanReadyEvent, StepEvent, QueryStartEvent, QueryEndEvent)
PLAN = Plan((Step(0, "Acme"), Step(1, "write", (0,))))


class _Events(BaseEventHandler):
    seen: list[Any] = Field(default_factory=list)

    def handle(self, event: Any, **kwargs: Any) -> None:
        self.seen.append(event)

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]


class _Heard:
    def __init__(self) -> None:
        self.events = _Events()
        self.spans = SimpleSpanHandler()

    def above(self, span: SimpleSpan) -> list[str]:
        known = {one.id_: one for one in (*self.spans.completed_spans, *self.spans.dropped_spans)}
        chain = []
        while span.parent_id is not None:
            span = known[span.parent_id]
            chain.append(_name_of(span))
        return chain

    def named(self, beginning: str) -> SimpleSpan:
        spans = (*self.spans.completed_spans, *self.spans.dropped_spans)
        (span,) = [one for one in spans if one.id_.startswith(beginning)]
        return span


def _name_of(span: SimpleSpan) -> str:
    return span.id_[:-37]


@pytest.fixture
def heard() -> Iterator[_Heard]:
    root, heard = get_dispatcher(), _Heard()
    root.add_event_handler(heard.events)
    root.add_span_handler(heard.spans)
    yield heard
    root.event_handlers.remove(heard.events)
    root.span_handlers.remove(heard.spans)


async def _speak(shown: str) -> str:
    return "it is written"


def _chief(plan: Plan) -> Blocking:
    return Blocking(write_plan(plan, "rows"), name="chief")


def _engine(**options: Any) -> ConductorQueryEngine:
    """Return an engine over a retriever and a writer, planned by an LLM."""
    workers = [as_worker(Shelf("contracts"), name="shelf"), Native(_speak, name="writer")]
    return ConductorQueryEngine(workers=workers, planner=_chief(PLAN), **options)


@pytest.mark.parametrize("sync", [False, True])
async def test_each_call_of_a_worker_is_a_span_around_what_it_calls(heard: _Heard, *, sync: bool) -> None:
    asked = _engine()
    response = asked.query("?") if sync else await asked.aquery("?")
    root = "ConductorQueryEngine.query" if sync else "ConductorQueryEngine.aquery"
    for name in ("planner.chief", "step.shelf", "step.writer"):
        assert heard.above(heard.named(name))[-1] == root
    assert heard.above(heard.named("Shelf.retrieve"))[0] == "step.shelf"
    assert heard.above(heard.named("Native.achat"))[0] == "step.writer"
    assert heard.above(heard.named("Blocking.stream_chat"))[0] == "planner.chief"
    assert not heard.spans.open_spans
    (found,) = heard.events.of(RetrievalStartEvent)
    assert (found.tags["podium_step"], found.tags["podium_worker"]) == (0, "shelf")
    assert found.tags["podium_run_id"] == response.metadata["run_id"]
    assert heard.named("Native.achat").tags["podium_attempt"] == 1


async def test_the_plan_and_the_steps_are_events(heard: _Heard) -> None:
    """With their spans, outputs and usage, as they happen, between the query's own events."""
    response = await _engine().aquery("?")
    told = [type(event).__name__ for event in heard.events.seen if isinstance(event, _TOLD)]
    assert (told[0], told[-1]) == ("QueryStartEvent", "QueryEndEvent")
    steps = [name for name in told if name.startswith("Step")]
    assert steps == ["StepStartEvent", "StepEndEvent"] * 2
    (plan,) = heard.events.of(PlanReadyEvent)
    assert (plan.planner, plan.plan["steps"]) == ("chief", response.metadata["plan"]["steps"])
    first, second = heard.events.of(StepEndEvent)
    assert (first.worker, first.status, set(first.source_nodes)) == ("shelf", "ok", {"c1", "shared"})
    assert (second.output, second.usage["output_tokens"]) == ("it is written", 12)
    assert [event.span_id for event in heard.events.of(StepStartEvent)] == [first.span_id, second.span_id]
    assert heard.named("step.shelf").id_ == first.span_id


async def test_no_handler_is_shown_a_secret(heard: _Heard) -> None:
    key = "sk-which1no2handler3shows4"
    finder = ScriptedWorker("finder", f"found {key}")
    writer = ScriptedWorker("writer", f"the key is {key}")
    plan = Plan((Step(0, f"Look up {key}."), Step(1, "Say it.", (0,))))
    asked = ConductorQueryEngine(Conductor(FixedPlanner(plan), [finder, writer]), streaming=True)
    response: Any = await asked.aquery(f"What is {key}?")
    text = "".join([piece async for piece in response.async_response_gen()])
    assert text == f"the key is {key}"
    told = [repr(event) for event in heard.events.seen if type(event).__module__ == PlanReadyEvent.__module__]
    assert any("the key is sk-[secret]" in each for each in told)
    assert [each for each in told if key in each] == []
