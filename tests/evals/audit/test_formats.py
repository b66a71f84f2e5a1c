"""The same calls, exported by different tools and by Podium itself, give the same figures."""

from collections.abc import Callable
from pathlib import Path

import pytest
from evals.audit import exports
from evals.audit.exports import Json, Made, lines
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from servers.chat_server import ChatServer, says

from podium import Card, ChatPlanner, ChatWorker, Conductor, Price, ScriptedWorker
from podium.errors import WorkerUnavailable
from podium.execution import Retry
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.workers import Endpoint
from podium_evals.audit import Report, audit

ASKED = {"role": "user", "content": "How many?"}
CALLS = (
    Made(id="c1"),
    Made(id="c2", at=2.0, prompt=(ASKED, {"role": "assistant", "content": "Which?"}), finish="length"),
    Made(id="c3", at=3.0, prompt=({"role": "user", "content": "May I?"},), answer=None, refusal="No."),
)
COST = (600 * 0.15 + 400 * 0.075 + 100 * 0.6) / 1e6


def found(report: Report) -> dict[str, int]:
    return {row.kind: row.count for row in report.findings}


SDKS = ("langsmith", "current", "openllmetry", "openinference", "pair", "responses_pair")


@pytest.mark.parametrize("name", SDKS)
def test_all_formats_have_the_same_figures(name: str, tmp_path: Path) -> None:
    """Tokens, costs, steps, times and findings do not depend on the tool."""
    row: Callable[[Made], Json] = getattr(exports, name)
    report = audit([lines(tmp_path / "export.jsonl", map(row, CALLS))])
    total = report.total
    assert (report.queries, total.calls, total.failed, report.bad_rows) == (1, 3, 0, 0)
    tokens = (total.input_tokens, total.cached_tokens, total.output_tokens, total.reasoning_tokens)
    assert tokens == (3000, 1200, 300, 60)
    assert total.cost == pytest.approx(3 * COST)
    assert report.latency.p50 == pytest.approx(4.0)
    assert [(each.name, each.amounts.calls) for each in report.models] == [("gpt-4o-mini", 3)]
    assert [(each.name, each.amounts.calls) for each in report.steps] == [("answer", 3)]
    assert (found(report), report.expensive[0].question) == ({"cut": 1, "refusal": 1}, "How many?")


def test_errors_have_their_class(tmp_path: Path) -> None:
    """A failed call has no tokens, and its model is known from the request."""
    call = Made(error="RateLimitError", read=None, written=None, cached=0, reasoning=0, answer=None)
    for row in (exports.langsmith, exports.current, exports.openinference, exports.pair):
        report = audit([lines(tmp_path / "export.jsonl", [row(call)])])
        assert (report.total.failed, report.total.unbilled, report.total.cost) == (1, 1, 0.0)
        assert (report.models[0].name, found(report)) == ("gpt-4o-mini", {"failed_call": 1, "rate_limit": 1})
        assert next(iter(report.errors)) in ("RateLimitError", "error")


def test_failed_tools(tmp_path: Path) -> None:
    """Their errors are counted with those of calls; a step is named by the run around the call."""
    failed = {"parent_run_id": "root", "run_type": "tool", "error": "ValueError('no such x')"}
    tool, outer = exports.langsmith_step(id="tool", **failed), exports.langsmith_step()
    call = exports.langsmith(Made(step="", parent="root"))
    report = audit([lines(tmp_path / "export.jsonl", [call, tool, outer])])
    assert (report.queries, report.total.calls, report.latency.p50) == (1, 1, pytest.approx(5.0))
    assert (report.steps[0].name, report.errors) == ("pipeline", {"ValueError": 1})


def test_stored_completions_and_responses(tmp_path: Path) -> None:
    """Responses that continue each other are one query; others are queries of their own."""
    first = exports.response_body(Made(id="a"))
    second = exports.response_body(Made(id="b", at=2.0)) | {"previous_response_id": "resp_a"}
    third = exports.response_body(Made(id="c", at=4.0)) | {"previous_response_id": "resp_b"}
    stored = {"object": "list", "data": [third, exports.chat_body(Made(id="d")), second, first]}
    report = audit([lines(tmp_path / "stored.jsonl", [stored])])
    assert (report.queries, report.total.calls) == (2, 4)
    assert (report.expensive[0].calls, report.expensive[0].seconds) == (3, pytest.approx(5.0))
    assert report.doubts["without_prompt"] == 4


def test_a_call_around_calls_is_not_counted(tmp_path: Path) -> None:
    """Two libraries often trace the same call, one inside the other; agents have the sum of their calls."""
    told = {"operation.name": "invoke_agent", "usage.input_tokens": 1000, "agent.name": "a"}
    named = {f"gen_ai.{key}": value for key, value in told.items()}
    agent = exports.otlp(Made(id="agent", seconds=9.0), named)
    wrapper = exports.current(Made(id="outer", parent="agent"))
    inner = exports.current(Made(id="inner", parent="outer"))
    bare = exports.current(Made(id="inner", parent="outer", read=None, written=None, cached=0, reasoning=0))
    for spans in ((agent, wrapper, inner), (wrapper, bare)):
        report = audit([lines(tmp_path / "export.jsonl", [exports.resource(*spans)])])
        assert (report.total.calls, report.total.input_tokens, report.doubts["wrappers"]) == (1, 1000, 1)
    assert audit([lines(tmp_path / "agent.jsonl", [exports.resource(agent)])]).total.input_tokens == 1000


def test_a_run_nested_in_a_run(tmp_path: Path) -> None:
    """Its calls count once, in the query of the outer run."""
    price = Price(input=1.0, output=2.0)
    journal = SqlJournal(tmp_path / "runs.db")
    planner = FixedPlanner('{"worker": 0, "subtask": "Write.", "access": []}')
    writer = ScriptedWorker(Card(name="writer", price=price), "some words")
    inner = Conductor(planner, [writer], card=Card(name="team"), journal=journal)
    result = Conductor(planner, [inner], journal=journal).run_sync("How many?")
    assert result.status == "ok"
    report = audit([journal])
    assert (report.queries, report.total.calls, report.total.cost) == (1, 1, pytest.approx(result.cost))
    assert report.total.input_tokens == result.usage.input_tokens


PLAN = (
    '{"worker": 0, "subtask": "Think.", "access": []}\n{"worker": 1, "subtask": "Answer.", "access": [0]}\n'
)


def test_runs_of_a_journal(tmp_path: Path) -> None:
    """Calls have the costs that the run recorded; planners and failed attempts are calls."""
    price = Price(input=1.0, output=2.0)
    tries = iter([WorkerUnavailable("too many requests", status=429), "a thought"])
    replies = {"thinker": lambda _: next(tries), "writer": "42"}
    pool = [ScriptedWorker(Card(name=name, price=price), reply) for name, reply in replies.items()]
    planner, journal = ChatPlanner(ScriptedWorker("planner", PLAN)), SqlJournal(tmp_path / "runs.db")
    conductor = Conductor(planner, pool, journal=journal, retry=Retry(first_wait=0.001))
    result = conductor.run_sync("How many?")
    assert result.status == "ok"
    report = audit([journal])
    assert (report.queries, report.total.calls, report.total.failed) == (1, 4, 1)
    assert report.total.cost == pytest.approx(sum(o.cost or 0.0 for o in result.outcomes))
    assert {each.name for each in report.models} == {"planner", "thinker", "writer"}
    assert (report.expensive[0].question, report.total.exported) == ("How many?", 4)
    assert found(report) == {"failed_call": 1, "rate_limit": 1}


def test_runs_of_wrapped_clients(tmp_path: Path) -> None:
    """LangSmith's wrapper of OpenAI's client exports OpenAI's own objects."""
    made, unknown = Made(), {"prompt_tokens": None, "completion_tokens": None}
    inputs = {"messages": list(made.prompt), "model": made.model}
    cut, refused = exports.chat_body(Made(finish="length")), exports.response_body(Made(refusal="No."))
    chat = exports.langsmith(made) | {"inputs": inputs, "outputs": cut}
    inputs = {"input": "How many?", "model": made.model}
    answered = exports.langsmith(Made(id="c2")) | {"inputs": inputs, "outputs": refused, **unknown}
    answered["extra"]["metadata"]["usage_metadata"] = {"input_tokens": 10, "output_tokens": 5}
    report = audit([lines(tmp_path / "export.jsonl", [chat, answered])])
    assert report.total.input_tokens == 1010
    assert found(report) == {"cut": 1, "refusal": 1, "repeat": 1}


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


def test_runs_and_their_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planner and workers are calls, and the run is a query; nothing counts twice."""
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    with ChatServer(lambda call: says(call, "A thought.")).in_thread() as server:
        thinker = ChatWorker("small", endpoint=Endpoint(server.url))
        planner, writer = ChatPlanner(ScriptedWorker("planner", PLAN)), ScriptedWorker("writer", "42")
        result = Conductor(planner, [thinker, writer]).run_sync("How many?")
    assert result.status == "ok"
    report = audit([lines(tmp_path / "spans.jsonl", [otlp(span) for span in memory.get_finished_spans()])])
    total, usage = report.total, result.usage
    assert (report.queries, total.calls, total.unpriced) == (1, 3, 1)
    assert (total.input_tokens, total.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert {each.name for each in report.models} >= {"small"}
