"""The log and the metrics: each request has one line, and is counted by its true end."""

import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from server.scene import ASKED, Serve, process, stalled, team, until
from servers.chat_server import Call, ChatServer, Reply, whole
from servers.podium_server import Served

CHAT = "/v1/chat/completions"


Lines = Callable[[str], dict[str, Any]]


@pytest.fixture
def line(caplog: pytest.LogCaptureFixture) -> Lines:
    """Return a function that waits for the only line of a route, and returns its facts."""
    caplog.set_level(logging.INFO, "podium.server")

    def known(route: str) -> list[dict[str, Any]]:
        facts = [record.podium for record in caplog.records if record.name == "podium.server"]  # type: ignore[attr-defined]
        return [each for each in facts if each.get("route") == route]

    def found(route: str) -> dict[str, Any]:
        assert until(lambda: bool(known(route)))
        (facts,) = known(route)
        return facts

    return found


def counted(served: Served, name: str, **labels: str) -> float:
    text = httpx2.get(f"{served.root}/metrics").text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    named = (sample for sample in samples if sample.name == name)
    return sum(sample.value for sample in named if labels.items() <= {**sample.labels}.items())


def failing(call: Call) -> Reply:
    """Reply as a team whose last worker refuses."""
    if call.body["model"] == "two":
        return whole({"error": {"message": "bad key sk-ant-012345678901234567890"}}, status=401)
    return team(call)


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve()


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer(served: Served, line: Lines, *, stream: bool) -> None:
    answer = served.client().chat.completions.create(model="podium", messages=ASKED, stream=stream)
    if stream:
        list(answer)
    facts = line(CHAT)
    assert (facts["status"], facts["code"], facts["model"]) == (200, "ok", "podium")
    assert (facts["run_status"], facts["input_tokens"], facts["output_tokens"]) == ("ok", 633, 21)
    assert facts["cost"] == pytest.approx(sum(211 * read + 7 * 2 * read for read in (1, 1, 10)) / 1e6)
    assert (len(facts["run_id"]), "first_token_ms" in facts) == (32, stream)
    labels = {"route": CHAT, "gen_ai_request_model": "podium"}
    assert counted(served, "podium_requests_total", **labels, status="200", error_type="") == 1
    assert counted(served, "gen_ai_server_request_duration_seconds_count", **labels) == 1
    assert counted(served, "gen_ai_server_time_to_first_token_seconds_count", **labels) == stream
    spent = {"key_id": "", "gen_ai_request_model": "podium", "worker": "two"}
    read = {**spent, "gen_ai_token_type": "input"}
    assert counted(served, "podium_cost_usd_total", **spent) == pytest.approx(0.00225)
    assert counted(served, "podium_tokens_total", **read) == 211


def test_a_trace_and_a_request_id_pass_through(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for asked, told in (("order 17", False), ("order-17", True)):
        headers = {"traceparent": parent, "x-request-id": asked}
        body = {"model": "podium", "messages": ASKED}
        answer = served.http().post("/chat/completions", json=body, headers=headers)
        assert (answer.headers["x-request-id"] == asked) is told
    assert httpx2.get(f"{served.url}/nothing").status_code == 404
    every = spans.get_finished_spans()
    found = [span for span in every if span.kind is trace.SpanKind.SERVER]
    above = [span.parent and span.parent.span_id for span in found]
    assert ([span.name for span in found], above) == ([f"POST {CHAT}"] * 2, [0xB7AD6B7169203331] * 2)
    assert {span.get_span_context().trace_id for span in every} == {0x0AF7651916CD43DD8448EB211C80319C}
    parents = {span.parent and span.parent.span_id for span in every}
    assert {span.get_span_context().span_id for span in found} <= parents  # the runs are within


def test_a_failure_inside_a_stream(
    served: Served, upstream: ChatServer, line: Lines, caplog: pytest.LogCaptureFixture
) -> None:
    """It is counted with its code, although the status was 200, in each API."""
    upstream.reply = failing
    with pytest.raises(openai.APIError):
        list(served.client().chat.completions.create(model="podium", messages=ASKED, stream=True))
    with served.client().responses.create(model="podium", input="Why?", stream=True) as events:
        assert list(events)[-1].type == "response.failed"
    told: Any = {"model": "podium", "max_tokens": 9, "messages": ASKED, "stream": True}
    told["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    messages = anthropic.Anthropic(base_url=served.root, api_key="none", max_retries=0)
    with pytest.raises(anthropic.APIError, match="worker_refused"), messages:
        list(messages.messages.create(**told))
    for route in (CHAT, "/v1/responses", "/v1/messages"):
        facts = line(route)
        assert (facts["status"], facts["code"], facts["run_status"]) == (200, "worker_refused", "failed")
        labels = {"route": route, "status": "200", "error_type": "worker_refused"}
        assert counted(served, "podium_requests_total", **labels, gen_ai_request_model="podium") == 1
    assert "sk-ant-0123" not in caplog.text


def test_a_client_that_disconnects(served: Served, upstream: ChatServer, line: Lines) -> None:
    upstream.reply = stalled
    client = served.client().with_options(timeout=0.3)
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="podium", messages=ASKED)
    facts = line(CHAT)
    assert (facts["status"], facts["code"]) == (499, "client_disconnected")
    labels = {"route": CHAT, "status": "499", "error_type": "client_disconnected"}
    assert counted(served, "podium_requests_total", **labels) == 1


@pytest.mark.long
def test_the_command_writes_the_log_to_stderr(folder: Path) -> None:
    with process(folder) as running:
        key = "sk-secret-0123456789abcdef"
        with openai.OpenAI(base_url=running.url, api_key=key, max_retries=0) as client:
            client.chat.completions.create(model="podium", messages=ASKED)
        httpx2.get(running.url + "/runs/a%0Arequest%20status=200")
        running.send_signal(signal.SIGTERM)
        lines = running.stderr.read().splitlines()
    told = [each.split(" ", 2)[2] for each in lines if " INFO " in each]
    assert told[0].startswith("started version=")
    assert told[1].startswith("request method=POST route=/v1/chat/completions status=200 code=ok ms=")
    assert " model=podium run_id=" in told[1]
    assert "cost=0.0027" in told[1]
    assert told[2].startswith("request method=GET route=/v1/runs/{run_id} status=404 code=run_unknown")
    assert r'run_id="a\nrequest status=200"' in told[2]
    assert told[3:] == ["stopped"]
    assert "sky" not in str(told)
    assert "sk-secret" not in str(told)
