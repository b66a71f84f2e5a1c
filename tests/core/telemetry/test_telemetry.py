"""A run as OpenTelemetry sees it: one tree, every span ended, no content unless asked for."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator

import anyio
import pytest
from core.actors import Actor, boss, never, plan_of, rows
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    Histogram,
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import (
    ChatPlanner,
    ChatWorker,
    Conductor,
    Endpoint,
    FunctionWorker,
    RulePlanner,
    ScriptedWorker,
)
from podium.errors import WorkerTimeout
from podium.execution import Retry
from podium.types import Completion
from podium.usage import Usage
from podium.workers import FREE, Card, Price, StepInput

pytestmark = pytest.mark.anyio


def function(name: str, does: Callable[[StepInput], str | Awaitable[str]]) -> FunctionWorker:
    """Return a worker that does what a function does."""
    return FunctionWorker(does, card=Card(name=name, price=FREE))


class Seen:
    """What a run left behind."""

    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._exporter, self._reader = exporter, reader

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Every span that has ended."""
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> list[str]:
        """Return the path of names of every span, in the order of their beginnings."""
        by_id = {span.context.span_id: span for span in self.spans if span.context}
        ordered = sorted(self.spans, key=lambda span: span.start_time or 0)

        def path(span: ReadableSpan) -> str:
            above = by_id.get(span.parent.span_id) if span.parent else None
            return span.name if above is None else f"{path(above)} > {span.name}"

        return [path(span) for span in ordered]

    def points(self, metric: str) -> list[tuple[dict[str, object], float]]:
        """Return the attributes and sums of a metric's points."""
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        found: list[tuple[dict[str, object], float]] = []
        for each in metrics:
            if each.name == metric:
                for point in each.data.data_points:
                    assert isinstance(point, HistogramDataPoint | NumberDataPoint)
                    value = point.sum if isinstance(each.data, Histogram) else point.value  # type: ignore[union-attr]
                    found.append((dict(point.attributes or {}), value))
        return found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    """Configure OpenTelemetry as an application does, for one test."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", tracers)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", meters)
    yield Seen(exporter, reader)
    assert len({span.context.trace_id for span in exporter.get_finished_spans() if span.context}) <= 1
    tracers.shutdown()
    meters.shutdown()


def ended_all(seen: Seen) -> bool:
    """Say whether every parent that is named has ended as well."""
    ids = {span.context.span_id for span in seen.spans if span.context}
    return all(span.parent is None or span.parent.span_id in ids for span in seen.spans)


async def test_a_run_is_a_tree(seen: Seen) -> None:
    """Run, round, planner, step, attempt, each with what the conventions ask for, and without content."""
    workers = [ScriptedWorker("a", "Some red"), function("f", lambda step_input: "Some blue")]
    conductor = Conductor(boss(rows((0, "Find red.", ()), (1, "Find blue.", (0,)))), workers)
    result = await conductor.run("How so?")
    said = json.dumps([json.loads(span.to_json()) for span in seen.spans])
    assert not any(text in said for text in ("How so?", "Find red", "Find blue", "Some red", "Some blue"))
    assert seen.tree() == [
        "invoke_agent conductor",
        "invoke_agent conductor > round 1",
        "invoke_agent conductor > round 1 > plan boss",
        "invoke_agent conductor > round 1 > step 0",
        "invoke_agent conductor > round 1 > step 0 > invoke_agent a",
        "invoke_agent conductor > round 1 > step 1",
        "invoke_agent conductor > round 1 > step 1 > execute_tool f",
    ]
    assert ended_all(seen)
    run, attempt = seen.named("invoke_agent conductor"), seen.named("execute_tool f")
    wanted = {"podium.run.id": result.run_id, "podium.run.status": "ok"}
    assert wanted.items() <= dict(run.attributes or {}).items()
    wanted = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    ids = {"podium.run.id": result.run_id, "podium.round": 1, "podium.step": 1, "podium.attempt": 1}
    assert (wanted | ids).items() <= dict(attempt.attributes or {}).items()
    assert not any(span.status.status_code is StatusCode.ERROR for span in seen.spans)


async def test_a_chat_model_over_http(seen: Seen) -> None:
    """A call of a model says which, where, and what it used up; the planner's too."""
    async with ChatServer(lambda call: says(call, "Forty-two.")) as server:
        endpoint = Endpoint(server.url, provider="gemini")
        price = Price(input=1.0, output=2.0)
        worker = ChatWorker("tiny", endpoint=endpoint, card=Card(name="t", price=price))
        await Conductor(boss(rows((0, "x", ()))), [worker]).run("Why?")
    span = seen.named("chat tiny")
    assert span.kind is SpanKind.CLIENT
    said = dict(span.attributes or {})
    wanted = {"gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "tiny"}
    wanted |= {"server.address": "127.0.0.1", "gen_ai.response.finish_reasons": ("stop",)}
    assert wanted.items() <= said.items()
    read, written = said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]
    tokens = {
        point["gen_ai.token.type"]: value
        for point, value in seen.points("gen_ai.client.token.usage")
        if point.get("gen_ai.request.model") == "tiny"
    }
    assert tokens == {"input": read, "output": written}
    durations = [point for point, _ in seen.points("gen_ai.client.operation.duration")]
    assert sorted(str(point["gen_ai.operation.name"]) for point in durations) == ["chat", "plan"]
    assert [value for _, value in seen.points("podium.cost")] == [pytest.approx(said["podium.cost"])]


async def test_nested_runs_are_below_the_attempt_they_answer_for(seen: Seen) -> None:
    """One trace; tokens are counted where they were used up, once."""
    leaf = ScriptedWorker("leaf", Completion("done", usage=Usage(40, 5)))
    inner = Conductor(
        boss(rows((0, "in", ()), (0, "in too", ()), (0, "end", (0, 1)))), [leaf], card=Card(name="inner")
    )
    outer = Conductor(boss(rows((0, "x", ()), (0, "y", ()), (0, "z", (0, 1)))), [inner])
    await outer.run("Why?")
    tree = seen.tree()
    assert ended_all(seen)
    below = "invoke_agent conductor > round 1 > step {} > invoke_agent inner"
    below += " > invoke_agent inner > round 1 > step {} > "
    for n in range(3):
        for m in range(3):
            assert below.format(n, m) + "invoke_agent leaf" in tree
    tokens = [
        value for point, value in seen.points("gen_ai.client.token.usage") if point["podium.worker"] == "leaf"
    ]
    assert sum(tokens) == 9 * 45
    assert not [p for p, _ in seen.points("gen_ai.client.token.usage") if p["podium.worker"] == "inner"]


async def test_a_conductor_inside_a_function_is_below_it_too(seen: Seen) -> None:
    """Users' own spans and runs are children of the attempt whose worker made them."""
    inner = Conductor(boss(rows((0, "in", ()))), [ScriptedWorker("leaf", "done")], card=Card(name="inner"))

    async def work(step_input: StepInput) -> str:
        with trace.get_tracer("mine").start_as_current_span("mine"):
            return (await inner.run("Inside?")).answer

    def plain(step_input: StepInput) -> str:
        with trace.get_tracer("mine").start_as_current_span("mine too"):
            return "done"

    workers = [function("f", work), function("g", plain)]
    with trace.get_tracer("mine").start_as_current_span("around"):
        await Conductor(boss(rows((0, "x", ()), (1, "y", (0,)))), workers).run("Why?")
        assert trace.get_current_span().name == "around"  # type: ignore[attr-defined]
    above = "around > invoke_agent conductor > round 1 > step"
    assert f"{above} 0 > execute_tool f > mine > invoke_agent inner" in seen.tree()
    assert f"{above} 1 > execute_tool g > mine too" in seen.tree()


async def test_calls_that_failed_are_attempts_of_one_step(seen: Seen) -> None:
    """A retry is another attempt below the same step, and the failed one says why."""
    replies = [whole("busy", status=503)]

    def reply(call: Call) -> Reply:
        return replies.pop() if replies else says(call, "done")

    async with ChatServer(reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url))
        retry = Retry(attempts=2, first_wait=0.001, max_wait=0.002)
        result = await Conductor(boss(""), [worker], retry=retry).run(plan_of((0, "x", ())))
    assert result.status == "ok"
    first, second = [span for span in seen.spans if span.name == "chat m"]
    assert first.status.status_code is StatusCode.ERROR
    assert (first.attributes or {})["error.type"] == "worker_unavailable"
    assert second.status.status_code is not StatusCode.ERROR
    assert [(s.attributes or {})["podium.attempt"] for s in (first, second)] == [1, 2]
    assert len([span for span in seen.spans if span.name == "step 0"]) == 1
    errors = [p.get("error.type") for p, _ in seen.points("gen_ai.client.operation.duration")]
    assert sorted(map(str, errors)) == ["None", "worker_unavailable"]


async def test_every_span_ends_at_a_cancel(seen: Seen) -> None:
    """Also those of a nested run, and the run says it was cancelled."""
    slow = Actor("slow", never)
    inner = Conductor(boss(rows((0, "in", ()))), [slow], card=Card(name="inner"))
    outer = Conductor(boss(rows((0, "x", ()), (0, "y", ()), (0, "z", (0, 1)))), [inner])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(outer.run, "Why?")
        while slow.running < 2:  # noqa: ASYNC110  (an actor has no event)
            await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()
    assert slow.stopped == 2
    assert ended_all(seen)
    assert len([path for path in seen.tree() if path.endswith("invoke_agent slow")]) == 2
    assert (seen.named("invoke_agent conductor").attributes or {})["error.type"] == "cancelled"


async def test_a_round_names_its_planner(seen: Seen) -> None:
    """Each call of a planner has a span; the round says who planned, and whether that is the fallback."""
    failing = ScriptedWorker("boss", WorkerTimeout("late", maybe_paid=True))
    conductor = Conductor(
        ChatPlanner(failing),
        [ScriptedWorker("a", "x")],
        retry=Retry(attempts=2, first_wait=0.001),
        fallback_planner=RulePlanner(),
    )
    assert (await conductor.run("Why?")).status == "partial"
    calls = [span.attributes or {} for span in seen.spans if span.name == "plan boss"]
    assert [(said["error.type"], said["podium.maybe_paid"]) for said in calls] == [
        ("worker_timeout", True)
    ] * 2
    said = seen.named("round 1").attributes or {}
    assert (said["podium.planner"], said["podium.planner.fallback"]) == ("rule", True)


SAYING = "What is the colour of the heron?"


async def test_content_when_asked_for(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the switch of the conventions, and never with a secret in it."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    key = "sk-proj-4Zb_8QxGx0Wm2sPz-1LqT"
    conductor = Conductor(boss(rows((0, "Say its colour.", ()))), [ScriptedWorker("a", f"Grey. {key}")])
    await conductor.run(f"{SAYING} {key}")
    run, attempt = seen.named("invoke_agent conductor"), seen.named("invoke_agent a")
    asked = json.loads(str((run.attributes or {})["gen_ai.input.messages"]))
    assert asked[-1]["role"] == "user"
    assert asked[-1]["parts"][0]["content"].startswith(SAYING)
    assert "Say its colour." in str((attempt.attributes or {})["gen_ai.input.messages"])
    assert "Grey." in str((attempt.attributes or {})["gen_ai.output.messages"])
    assert "Say its colour." in str((seen.named("plan boss").attributes or {})["gen_ai.output.messages"])
    assert key not in json.dumps([json.loads(span.to_json()) for span in seen.spans])


SILENT = """
import sys
from podium import Conductor, RulePlanner, ScriptedWorker
{more}
result = Conductor(RulePlanner(), [ScriptedWorker("a", "one")]).run_sync("Why?")
assert result.status == "ok"
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""


@pytest.mark.long
@pytest.mark.parametrize(("more", "imported"), [("", "[]\n"), ("import opentelemetry.trace", None)])
def test_nothing_happens_where_nobody_configured_it(more: str, imported: str | None) -> None:
    """OpenTelemetry is not even imported; where it is but has no provider, nothing is made."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SILENT.format(more=more)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    assert imported is None or done.stdout == imported
    assert "podium.telemetry.trace" not in done.stdout
