"""The log and the metrics: each request has one line, and is counted by its true end."""

import logging
import signal
import socket
import time
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
from server.scene import ASKED, CONFIG, Serve, ended, post, process, stalled, start, team, until
from servers.chat_server import STALL, Call, ChatServer, Reply, whole
from servers.podium_server import Served

CHAT = "/v1/chat/completions"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that waits for so many lines of a route, and returns the facts of its lines."""
    caplog.set_level(logging.INFO, "podium.server")

    def found(route: str, least: int = 1) -> list[dict[str, Any]]:
        for _ in range(100):
            facts = [record.podium for record in caplog.records if record.name == "podium.server"]  # type: ignore[attr-defined]
            known = [each for each in facts if each.get("route") == route]
            if len(known) >= least:
                return known
            time.sleep(0.05)
        return []

    return found


def counted(served: Served, name: str, **labels: str) -> float:
    """Return the value of a metric with these labels."""
    text = httpx2.get(f"{served.root}/metrics").text
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    return sum(
        sample.value
        for sample in samples
        if sample.name == name and labels.items() <= {**sample.labels}.items()
    )


def failing(call: Call) -> Reply:
    """Reply as a team whose last worker refuses."""
    if call.body["model"] == "two":
        return whole({"error": {"message": "bad key sk-ant-012345678901234567890"}}, status=401)
    return team(call)


Lines = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def served(serve: Serve) -> Served:
    """Return a server that has counted nothing."""
    return serve()


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer(served: Served, lines: Lines, *, stream: bool) -> None:
    """The line has the run, the model, the cost and the tokens, and no text."""
    answer = served.client().chat.completions.create(model="podium", messages=ASKED, stream=stream)
    if stream:
        list(answer)
    (facts,) = lines(CHAT)
    assert (facts["status"], facts["code"], facts["model"]) == (200, "ok", "podium")
    assert (facts["run_status"], facts["input_tokens"], facts["output_tokens"]) == ("ok", 633, 21)
    assert facts["cost"] == pytest.approx(sum(211 * read + 7 * 2 * read for read in (1, 1, 10)) / 1e6)
    assert len(facts["run_id"]) == 32
    assert ("first_token_ms" in facts) is stream
    labels = {"route": CHAT, "gen_ai_request_model": "podium"}
    assert counted(served, "podium_requests_total", **labels, status="200", error_type="") == 1
    assert counted(served, "gen_ai_server_request_duration_seconds_count", **labels) == 1
    assert counted(served, "gen_ai_server_time_to_first_token_seconds_count", **labels) == stream
    spent = {"key_id": "", "gen_ai_request_model": "podium", "worker": "two"}
    read = {**spent, "gen_ai_token_type": "input"}
    assert counted(served, "podium_cost_usd_total", **spent) == pytest.approx(0.00225)
    assert counted(served, "podium_tokens_total", **read) == 211


def test_a_trace_and_a_request_id_pass_through(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans of the run are in the trace of the client, within a span of the request."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for asked, told in (("order 17", False), ("order-17", True)):
        answer = httpx2.post(
            f"{served.url}/chat/completions",
            json={"model": "podium", "messages": ASKED},
            headers={"traceparent": parent, "x-request-id": asked},
            timeout=20,
        )
        assert (answer.headers["x-request-id"] == asked) is told
    assert httpx2.get(f"{served.url}/nothing").status_code == 404
    found = [span for span in spans.get_finished_spans() if span.kind is trace.SpanKind.SERVER]
    assert [(span.name, span.parent and span.parent.span_id) for span in found] == [
        (f"POST {CHAT}", 0xB7AD6B7169203331)
    ] * 2
    ids = {span.context.trace_id for span in spans.get_finished_spans() if span.context is not None}
    assert ids == {0x0AF7651916CD43DD8448EB211C80319C}
    names = {span.parent and span.parent.span_id for span in spans.get_finished_spans()}
    assert {
        span.context.span_id for span in found if span.context is not None
    } <= names  # the runs are within


def test_a_failure_inside_a_stream(
    served: Served, upstream: ChatServer, lines: Lines, caplog: pytest.LogCaptureFixture
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
    with pytest.raises(anthropic.APIError), messages:
        list(messages.messages.create(**told))
    for route in (CHAT, "/v1/responses", "/v1/messages"):
        (facts,) = lines(route)
        assert (facts["status"], facts["code"], facts["run_status"]) == (200, "worker_refused", "failed")
        labels = {"route": route, "status": "200", "error_type": "worker_refused"}
        assert counted(served, "podium_requests_total", **labels, gen_ai_request_model="podium") == 1
    assert "sk-ant-0123" not in caplog.text


def test_answers_of_an_sdk(served: Served, lines: Lines) -> None:
    """An answer that was sent is `ok`; what the SDK refuses has a code."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for accept in ("application/json, text/event-stream", "text/html"):
        httpx2.post(f"{served.root}/mcp", json=body, headers={"accept": accept}, timeout=60)
    ends = {(facts["status"], facts["code"]) for facts in lines("/mcp", 2)}
    assert ends == {(200, "ok"), (406, "invalid_request")}


def test_a_client_that_disconnects(served: Served, upstream: ChatServer, lines: Lines) -> None:
    """Before or within the response."""
    upstream.reply = lambda call: Reply((STALL,)) if call.body["model"] == "two" else team(call)
    client = served.client().with_options(timeout=0.3)
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="podium", messages=ASKED)
    (facts,) = lines(CHAT)
    assert (facts["status"], facts["code"]) == (499, "client_disconnected")
    labels = {"route": CHAT, "status": "499", "error_type": "client_disconnected"}
    assert counted(served, "podium_requests_total", **labels) == 1


def test_requests_that_are_refused(served: Served, lines: Lines) -> None:
    """A model of the request is a label only if it exists; a path without a route is counted, too."""
    with pytest.raises(openai.NotFoundError):
        served.client().chat.completions.create(model="x" * 100, messages=ASKED)
    assert httpx2.get(f"{served.root}/no/such/path").status_code == 404
    (facts,) = lines(CHAT)
    assert (facts["status"], facts["code"], "model" in facts) == (404, "model_not_found", False)
    labels = {"route": CHAT, "gen_ai_request_model": "", "error_type": "model_not_found"}
    assert counted(served, "podium_requests_total", **labels) == 1
    assert counted(served, "podium_requests_total", route="", error_type="unknown_url") == 1


@pytest.mark.long
def test_the_command_writes_the_log_to_stderr(tmp_path: Path, upstream: ChatServer) -> None:
    """A start, one line for each request, and the stop; a URL cannot begin a line of its own."""
    (tmp_path / "podium.toml").write_text(CONFIG.format(url=upstream.url, models="", server=""))
    with process(tmp_path) as running:
        key = "sk-secret-0123456789abcdef"
        with openai.OpenAI(base_url=running.url, api_key=key, max_retries=0) as client:
            client.chat.completions.create(model="podium", messages=ASKED)
        who = {"name": "a", "version": "1"}
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        accept = {"Accept": "application/json, text/event-stream"}
        mcp = running.url.replace("/v1", "/mcp")  # its first request imports the SDK
        httpx2.post(mcp, json=begin, headers=accept, timeout=60.0)
        httpx2.get(running.url + "/runs/a%0Arequest%20status=200")
        address = running.url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((address[0], int(address[1]))) as open_one:
            open_one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            open_one.recv(1000)
        running.send_signal(signal.SIGTERM)
        lines = running.stderr.read().splitlines()
    log = [line.split(" ", 2) for line in lines if " INFO " in line]
    told = [each[2] for each in log if "route=/mcp" not in each[2]]
    assert not [line for line in lines if "podium.server" in line]  # the MCP SDK adds no handler of its own
    assert told[0].startswith("started version=")
    assert told[1].startswith("request method=POST route=/v1/chat/completions status=200 code=ok ms=")
    assert " model=podium run_id=" in told[1]
    assert "cost=0.0027" in told[1]
    assert told[2].startswith("request method=GET route=/v1/runs/{run_id} status=404 code=run_unknown")
    assert r'run_id="a\nrequest status=200"' in told[2]
    assert told[3:] == ["stopped"]
    assert "sky" not in str(log)
    assert "sk-secret" not in str(log)


def test_the_line_of_a_key(serve: Serve, lines: Lines) -> None:
    """It has the id of the key; a request over the budget of the key has no run."""
    served = serve(keys=True)
    token = served.key(requests_per_minute=1)
    ask = served.client(token).chat.completions.create
    ask(model="podium", messages=ASKED)
    with pytest.raises(openai.RateLimitError):
        ask(model="podium", messages=ASKED)
    first, second = lines(CHAT, 2)
    assert first["key_id"] == second["key_id"] == served.http(token).get("/keys/self").json()["id"]
    assert (second["code"], second["model"], "run_id" in second) == ("rate_limit_exceeded", "podium", False)


def test_runs_in_the_background_are_counted(serve: Serve, upstream: ChatServer) -> None:
    """By their state at the end, while they are executed, and while they wait for a slot."""
    served = serve(server="background_runs = 1")
    client = served.http()
    upstream.reply = stalled
    run, queued = start(client), start(client)
    assert counted(served, "podium_background_runs_in_flight") == 1
    assert counted(served, "podium_background_runs_queued") == 1
    upstream.reply = failing
    post(client, run["id"], "cancel", 200)
    assert ended(client, queued["id"])["status"] == "failed"
    upstream.reply = team
    assert ended(client, start(client)["id"])["status"] == "ok"
    ends = [("ok", ""), ("failed", "worker_refused"), ("stopped", "run_cancelled")]
    for state, code in ends:
        labels = {"state": state, "error_type": code}
        assert until(lambda labels=labels: counted(served, "podium_background_runs_total", **labels) == 1)
    assert counted(served, "podium_background_runs_in_flight") == 0
    assert counted(served, "podium_background_runs_queued") == 0
