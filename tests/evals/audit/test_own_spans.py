"""The spans of Podium itself can be audited."""

from pathlib import Path

import pytest
from evals.audit import exports
from evals.audit.exports import Json, lines
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from servers.chat_server import Call, ChatServer, Reply, says

from podium import ChatPlanner, ChatWorker, Conductor, ScriptedWorker
from podium.workers import Endpoint
from podium_evals.audit import audit

PLAN = (
    '{"worker": 0, "subtask": "Think.", "access": []}\n{"worker": 1, "subtask": "Answer.", "access": [0]}\n'
)


def otlp(span: ReadableSpan) -> Json:
    assert span.context is not None
    return {
        "traceId": f"{span.context.trace_id:032x}",
        "spanId": f"{span.context.span_id:016x}",
        "parentSpanId": "" if span.parent is None else f"{span.parent.span_id:016x}",
        "name": span.name,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": exports.pairs({k: _plain(v) for k, v in (span.attributes or {}).items()}),
        "status": {"code": span.status.status_code.value},
    }


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, int) else str(value)


def answers(call: Call) -> Reply:
    return says(call, "A thought.")


def test_runs_and_their_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planner and workers are calls, and the run is a query; nothing counts twice."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    with ChatServer(answers).in_thread() as server:
        thinker = ChatWorker("small", endpoint=Endpoint(server.url))
        conductor = Conductor(
            ChatPlanner(ScriptedWorker("planner", PLAN)), [thinker, ScriptedWorker("writer", "42")]
        )
        result = conductor.run_sync("How many?")
    assert result.status == "ok"
    report = audit([lines(tmp_path / "spans.jsonl", [otlp(span) for span in memory.get_finished_spans()])])
    assert (report.queries, report.total.calls) == (1, 3)
    assert report.total.input_tokens == result.usage.input_tokens
    assert report.total.output_tokens == result.usage.output_tokens
    assert {each.name for each in report.models} >= {"small"}
    assert report.total.unpriced == 1
