"""Runs of conductors in the SDK's traces."""

from collections.abc import Iterator
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, set_trace_processors, set_tracing_disabled
from agents.tracing import Span, Trace, TracingProcessor
from agents_speaking import ModelServer, speaker
from contracts.adapter_contract import failing, planner_of, saying
from servers.chat_server import says

from openai_agents_podium import ConductorModel
from podium.execution import Retry
from podium.workers import ScriptedWorker

pytestmark = pytest.mark.anyio

SECRET = "sk-proj-0123456789abcdef0123456789abcdef"  # noqa: S105 - looks like one, and is none


class Spans(TracingProcessor):
    """Keeps all spans that ended."""

    def __init__(self) -> None:
        self.ended: list[dict[str, Any]] = []
        self.traces = 0

    def on_trace_start(self, trace: Trace) -> None:
        self.traces += 1

    def on_trace_end(self, trace: Trace) -> None:
        """Do nothing."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Do nothing."""

    def on_span_end(self, span: Span[Any]) -> None:
        exported = span.export()
        assert exported is not None
        self.ended.append(exported)

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self) -> None:
        """Do nothing."""

    def named(self, name: str) -> list[dict[str, Any]]:
        return [
            span for span in self.ended if name in (span["span_data"].get("name"), span["span_data"]["type"])
        ]


@pytest.fixture
def spans() -> Iterator[Spans]:
    kept = Spans()
    set_tracing_disabled(False)
    set_trace_processors([kept])
    yield kept
    set_trace_processors([])


async def test_plans_and_steps_are_spans_below_the_agents(spans: Spans) -> None:
    plan = planner_of((0, "Find it.", ()), (1, "Say it.", (0,)))
    model = ConductorModel(
        workers=[speaker("finder", saying("found")), speaker("sayer", saying("said"))], planner=plan
    )
    lead = Agent[Any](name="lead", model=model)
    async for _ in Runner.run_streamed(lead, "?").stream_events():
        pass
    assert spans.traces == 1
    (planned,) = spans.named("podium.plan")
    assert [step["subtask"] for step in planned["span_data"]["data"]["plan"]["steps"]] == [
        "Find it.",
        "Say it.",
    ]
    steps = spans.named("podium.step")
    told = [(step["span_data"]["data"]["worker"], step["span_data"]["data"]["output"]) for step in steps]
    assert told == [("finder", "found"), ("sayer", "said")]
    assert [step["span_data"]["data"]["usage"]["input_tokens"] for step in steps] == [30, 30]
    agents = {span["id"]: span["span_data"]["name"] for span in spans.named("agent")}
    inside = [span for span in spans.named("agent") if span["span_data"]["name"] != "lead"]
    above = {span["id"]: span["parent_id"] for span in spans.ended}
    for step, agent in zip(steps, inside, strict=True):
        assert step["id"] in _ancestors(above, agent["id"])
        assert "lead" in [agents.get(each) for each in _ancestors(above, step["id"])]
        assert step["error"] is None


def _ancestors(above: dict[str, Any], span: str) -> list[str]:
    found = list[str]()
    while (parent := above.get(span)) is not None:
        found.append(parent)
        span = parent
    return found


async def test_failures_are_on_the_spans_and_secrets_are_not(spans: Spans) -> None:
    plan = planner_of((0, f"Use {SECRET}.", ()), (1, "Say it.", (0,)), (1, "More.", (0, 1)))
    workers = [speaker("bad", failing), ScriptedWorker("sayer", f"It is {SECRET}")]
    model = ConductorModel(workers=workers, planner=plan, retry=Retry(attempts=1))
    with pytest.raises(Exception, match="out of order"):
        await Runner.run(Agent[Any](name="lead", model=model), "?")
    (failed,) = spans.named("podium.step")
    assert failed["error"]["data"] == {"code": "worker_failed"}
    assert "out of order" in failed["error"]["message"]
    own = [span for span in spans.ended if str(span["span_data"].get("name", "")).startswith("podium.")]
    assert len(own) == 2
    assert SECRET not in str(own)


def says_private(call: Any) -> Any:
    return says(call, "quite private")


async def test_agents_that_do_steps_are_traced_as_the_run_says(spans: Spans) -> None:
    """Without data, or not at all; also an agent inside a tool that does a step."""
    plan = planner_of((0, "Find it, private one.", ()), (1, '{"input": "private"}', (0,)))
    async with ModelServer(says_private) as server:
        finder = Agent[Any](name="finder", model=server.model())
        tool = Agent[Any](name="sayer", model=server.model()).as_tool("say", "Says it.")
        lead = Agent[Any](name="lead", model=ConductorModel(workers=[finder, tool], planner=plan))

        async def ask(config: RunConfig) -> str:
            return str((await Runner.run(lead, "A private question?", run_config=config)).final_output)

        assert await ask(RunConfig(trace_include_sensitive_data=False)) == "quite private"
        assert len(spans.named("generation")) == 2
        assert "private" not in str(spans.ended)
        spans.ended.clear()
        assert await ask(RunConfig(tracing_disabled=True)) == "quite private"
        assert spans.ended == []
        await ask(RunConfig())
        assert "private" in str(spans.named("generation"))
