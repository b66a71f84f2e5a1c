"""Keys are planted wherever one can stand; after a run they are nowhere but in the requests themselves."""

import base64
import json
import logging
from collections.abc import Callable
from pathlib import Path
from traceback import format_exception
from typing import Any

import pytest
from contracts.provider_errors import caused
from core.actors import Actor, boss, plan_of, rows, yielding
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from servers.chat_server import CUT, Call, ChatServer, Reply, chunk, events, says, whole

from podium import ChatPlanner, Conductor, FunctionWorker, Retry, RulePlanner
from podium.errors import PlannerError, PodiumError, WorkerRefused
from podium.journal import SqlJournal
from podium.types import Event
from podium.workers import FREE, Card, ChatWorker, Endpoint, ScriptedWorker, StepInput

pytestmark = pytest.mark.anyio

KEY = "canary-Key/4711+of=the&house"
HEADER = "canary-header-0815-value"
UNTOLD = "sk-canary-000-Untold4711"
Sinks = Callable[..., dict[str, str]]
CANARIES = (KEY, HEADER, UNTOLD, KEY[:16], HEADER[:16], UNTOLD[3:])


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", tracers)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    return exporter


@pytest.fixture
def sinks(spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> Sinks:
    caplog.set_level(logging.DEBUG)

    def gather(seen: list[Event], explained: str = "", error: BaseException | None = None) -> dict[str, str]:
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        logged = [record.getMessage() + repr(vars(record)) for record in caplog.records]
        return {
            "events": json.dumps([event.to_json() for event in seen], ensure_ascii=False),
            "explained": explained,
            "raised": "" if error is None else "".join(format_exception(error)) + _chain(error),
            "logged": caplog.text + "\n".join(logged),
            "spans": "".join(span.to_json() for span in spans.get_finished_spans()),
            "journal": b"\n".join(files).decode(errors="replace"),
        }

    return gather


def _chain(error: BaseException | None) -> str:
    said = ""
    while error is not None:
        said += f"{error!r} {error} {error.args}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


def leaks(found: dict[str, str]) -> list[str]:
    forms = [*CANARIES, *(json.dumps(canary)[1:-1] for canary in CANARIES)]
    forms += [base64.b64encode(canary.encode()).decode()[:16] for canary in CANARIES]
    return [f"{sink}: {form}" for sink, text in found.items() for form in forms if form in text]


def endpoint(server: ChatServer) -> Endpoint:
    return Endpoint(server.url, api_key=KEY, headers={"X-Own": HEADER})


def echo(call: Call) -> str:
    key = call.headers["authorization"]
    basic = base64.b64encode(f"user:{KEY}".encode()).decode()
    return f"{key} {call.headers['x-own']} {KEY} {UNTOLD} Basic {basic} https://u:{KEY}@h/?api_key={UNTOLD}"


ECHOES: dict[str, Callable[[Call], Reply]] = {
    "error": lambda call: whole({"error": {"message": echo(call), "code": KEY}}, status=401),
    "redirect": lambda call: whole(echo(call), status=302, headers={"Location": f"https://h/?key={KEY}"}),
    "success": lambda call: whole({"error": {"message": echo(call)}}),
    "answer": lambda call: says(call, f"You are {echo(call)}"),
    "stream error": lambda call: events(chunk({"content": "half"}), {"error": {"message": echo(call)}}),
    "no http": lambda call: Reply((f"{echo(call)}\r\n\r\n".encode(), CUT)),
}


@pytest.mark.parametrize("script", ECHOES.values(), ids=ECHOES)
async def test_a_server_that_echoes_the_key(script: Any, sinks: Sinks, tmp_path: Path) -> None:
    async with ChatServer(script) as server, SqlJournal(tmp_path / "runs.db") as journal:
        worker = ChatWorker("m", endpoint=endpoint(server))
        again = Retry(attempts=2, first_wait=0.001, max_wait=0.002)
        planner, rule = ChatPlanner(worker), RulePlanner()
        conductor = Conductor(planner, [worker], journal=journal, retry=again, fallback_planner=rule)
        seen = [event async for event in conductor.stream(f"Is this my key: {KEY}?")]
        result = seen[-1].result  # type: ignore[union-attr]
        assert server.calls
    found = sinks(seen, result.explain())
    assert all(found[sink] for sink in ("events", "explained", "logged", "spans", "journal"))
    assert leaks(found) == []


async def test_a_planner_that_writes_keys_into_the_plan(sinks: Sinks, tmp_path: Path) -> None:
    Endpoint("http://host/v1", api_key=KEY)
    seen: list[Event] = []
    workers = [ScriptedWorker("a", f"It is {KEY}, or {UNTOLD}."), ScriptedWorker("b", "done")]
    text = f"I use {KEY}.\n" + rows((0, f"Use {KEY} and {UNTOLD}.", ()), (1, "End.", (0,)))
    async with SqlJournal(tmp_path / "runs.db") as journal:
        result = await Conductor(boss(text), workers, journal=journal).run("Why?", on_event=seen.append)
    assert result.status == "ok"
    assert KEY in workers[0].requests[0].messages[-1].text
    assert leaks(sinks(seen, result.explain())) == []


def _raising(step_input: StepInput) -> str:
    try:
        {}[KEY]
    except KeyError:
        raise ValueError(f"no {KEY} {UNTOLD}") from OSError(5, f"reading {KEY}", f"/home/{KEY}")


async def test_a_worker_that_raises_keys(sinks: Sinks, tmp_path: Path) -> None:
    Endpoint("http://host/v1", api_key=KEY)
    seen: list[Event] = []

    refused = caused(WorkerRefused(f"refused {KEY}"), ValueError(KEY))
    workers = [FunctionWorker(_raising, card=Card(name="f", price=FREE)), Actor("g", yielding(refused))]
    async with SqlJournal(tmp_path / "runs.db") as journal:
        conductor = Conductor(boss(""), workers, journal=journal, retry=Retry(attempts=1))
        plan = plan_of((0, "x", ()), (1, "y", ()), (0, "z", (0, 1)))
        result = await conductor.run(plan, on_event=seen.append)
    assert (result.status, leaks(sinks(seen, result.explain()))) == ("failed", [])


async def test_an_error_that_leaves_podium(sinks: Sinks) -> None:
    async with ChatServer(ECHOES["error"]) as server:
        worker = ChatWorker("m", endpoint=endpoint(server))
        conductor = Conductor(ChatPlanner(worker), [worker], retry=Retry(attempts=1))
        with pytest.raises(PodiumError) as caught:
            await conductor.run("Why?")
    assert isinstance(caught.value, PlannerError)
    assert leaks(sinks([], repr([call.problem for call in caught.value.calls]), caught.value)) == []
    text = json.dumps({"steps": [{"worker": KEY, "subtask": UNTOLD, "access": []}]})
    with pytest.raises(PodiumError) as caught:
        await Conductor(boss(text), [ScriptedWorker("a", "x")]).run("Why?")
    assert leaks(sinks([], "", caught.value)) == []


def test_nothing_that_holds_a_key_shows_it() -> None:
    server = Endpoint("http://host/v1", api_key=KEY, headers={"X-Own": HEADER})
    worker = ChatWorker("m", endpoint=server)
    conductor = Conductor(ChatPlanner(worker), [worker])
    assert leaks({"repr": f"{server!r} {server} {worker!r} {conductor!r}"}) == []
