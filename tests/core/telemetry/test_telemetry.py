"""A run as OpenTelemetry sees it: one tree, every span ended, no content unless asked for."""

import json
import logging
from collections.abc import Iterator

import pytest
from core.actors import boss, rows
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from servers.chat_server import ChatServer, says

from podium import Card, ChatWorker, Conductor, Endpoint, FunctionWorker, Price, Retry, ScriptedWorker
from podium.errors import WorkerUnavailable
from podium.workers import FREE

pytestmark = pytest.mark.anyio
SAYING = "What is the colour of the heron?"
QUESTION, SUBTASK, OUTPUT = "What is a heron?", "Describe its beak.", "It is long and yellow."


class Seen:
    def __init__(self, exporter: InMemorySpanExporter, reader: InMemoryMetricReader) -> None:
        self._exporter, self._reader = exporter, reader

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> list[str]:
        by_id = {span.context.span_id: span for span in self.spans if span.context}
        ordered = sorted(self.spans, key=lambda span: span.start_time or 0)

        def path(span: ReadableSpan) -> str:
            above = by_id.get(span.parent.span_id) if span.parent else None
            return span.name if above is None else f"{path(above)} > {span.name}"

        return [path(span) for span in ordered]

    def points(self, metric: str) -> list[tuple[dict[str, object], float]]:
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        found: list[tuple[dict[str, object], float]] = []
        for each in metrics:
            if each.name == metric:
                for point in each.data.data_points:
                    assert isinstance(point, HistogramDataPoint | NumberDataPoint)
                    value = point.sum if isinstance(point, HistogramDataPoint) else point.value
                    found.append((dict(point.attributes or {}), value))
        return found


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", tracers)
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", meters)
    yield Seen(exporter, reader)
    assert len({span.context.trace_id for span in exporter.get_finished_spans() if span.context}) <= 1
    tracers.shutdown()
    meters.shutdown()


async def test_a_run_is_a_tree(seen: Seen) -> None:
    blue = FunctionWorker(lambda step_input: "Some blue", card=Card(name="f", price=FREE))
    workers = [ScriptedWorker("a", "Some red"), blue]
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
    ids = {span.context.span_id for span in seen.spans if span.context}
    assert all(span.parent is None or span.parent.span_id in ids for span in seen.spans)
    run, attempt = seen.named("invoke_agent conductor"), seen.named("execute_tool f")
    wanted = {"podium.run.id": result.run_id, "podium.run.status": "ok"}
    assert wanted.items() <= dict(run.attributes or {}).items()
    wanted = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
    wanted |= {"podium.run.id": result.run_id, "podium.round": 1, "podium.step": 1, "podium.attempt": 1}
    assert wanted.items() <= dict(attempt.attributes or {}).items()
    assert not any(span.status.status_code is StatusCode.ERROR for span in seen.spans)


async def test_a_chat_model_over_http(seen: Seen) -> None:
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
    points = seen.points("gen_ai.client.token.usage")
    of_tiny = [(point, value) for point, value in points if point.get("gen_ai.request.model") == "tiny"]
    tokens = {point["gen_ai.token.type"]: value for point, value in of_tiny}
    assert tokens == {"input": read, "output": written}
    durations = [point for point, _ in seen.points("gen_ai.client.operation.duration")]
    assert sorted(str(point["gen_ai.operation.name"]) for point in durations) == ["chat", "plan"]
    assert [value for _, value in seen.points("podium.cost")] == [pytest.approx(said["podium.cost"])]


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


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
async def test_no_content_at_any_level(caplog: pytest.LogCaptureFixture, level: int) -> None:
    """Neither question, subtask, plan nor output; and what errors say only at `DEBUG`."""
    caplog.set_level(level, logger="podium")
    workers = [ScriptedWorker("a", OUTPUT), ScriptedWorker("b", WorkerUnavailable("the reason"))]
    planner = boss(rows((0, SUBTASK, ()), (1, SUBTASK, (0,))))
    await Conductor(planner, workers, retry=Retry(attempts=1)).run(QUESTION)
    logged = caplog.text + json.dumps([each.podium for each in caplog.records if each.name == "podium"])  # type: ignore[attr-defined]
    assert not any(text in logged for text in (QUESTION, SUBTASK, OUTPUT))
    assert ("the reason" in logged) == (level == logging.DEBUG)
