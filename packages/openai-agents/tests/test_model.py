"""A conductor as a model: behind agents that the SDK's runner runs, and in the SDK's traces."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from agents import (
    Agent,
    ModelSettings,
    RunConfig,
    Runner,
    SQLiteSession,
    UserError,
    WebSearchTool,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.tracing import Span, Trace, TracingProcessor
from agents_speaking import CALL_TOKENS, ModelServer, speaker
from contracts.adapter_contract import failing, planner_of, saying
from contracts.waiting_contract import QUESTION, check_continued, check_waiting
from openai.types.shared import Reasoning
from servers.capable import PLAN, capable, is_planning
from servers.chat_server import STALL, Call, Reply, chunk, events, says

from openai_agents_podium import ConductorModel, as_worker, podium_metadata
from podium import Conductor, Limits, Retry, ScriptedWorker
from podium.errors import ConfigError, QueryError, RunFailed
from podium.hosts import tool_call
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio
ONE = planner_of((0, "Say it.", ()))
TWO = planner_of((0, "Find it.", ()), (1, "Say it.", (0,)))


def lead(server: ModelServer, **options: Any) -> Agent[Any]:
    """Return an agent over two models of a server, one of which plans too."""
    finder = Agent[Any](name="finder", model=server.model(), handoff_description="Finds things.")
    model = ConductorModel(workers=[finder, server.model()], planner=server.model())
    return Agent[Any](name="lead", instructions="Be brief.", model=model, **options)


def calls(server: ModelServer) -> list[str]:
    """Return the calls of a server's models: plans, and steps by their number of messages."""
    return ["plan" if is_planning(call) else "step" for call in server.calls]


@function_tool
def look(place: str) -> str:
    """Look at a place."""
    return f"rain in {place}"


async def test_an_agent_answers_and_tells_of_the_run() -> None:
    """Its tokens are those of the planner and of all steps, in one request."""
    async with ModelServer(capable) as server:
        result = await Runner.run(lead(server), "Hello")
        assert calls(server) == ["plan", "step", "step"]
    assert result.final_output == "Hello to you, too."
    facts = podium_metadata(result)
    assert (facts["status"], [step["worker"] for step in facts["steps"]]) == ("ok", ["finder", "scripted-1"])
    usage = result.context_wrapper.usage
    assert (usage.requests, usage.total_tokens) == (1, 3 * CALL_TOKENS)
    json.dumps(facts)


async def run(agent: Agent[Any], asked: Any, *, stream: bool, **options: Any) -> Any:
    if not stream:
        return await Runner.run(agent, asked, **options)
    result = Runner.run_streamed(agent, asked, **options)
    try:
        async for _ in result.stream_events():
            pass
    finally:
        result.cancel()
    return result


async def test_a_session_remembers_and_its_calls_go_on_from_it(tmp_path: Path) -> None:
    path = tmp_path / "session.db"

    async def ask(server: ModelServer, question: str) -> str:
        session = SQLiteSession("s", path)
        result = await run(lead(server, tools=[look]), question, stream=True, session=session)
        session.close()
        return str(result.final_output)

    async with ModelServer(capable) as server:
        assert await ask(server, "What is the weather in 'Bern'?") == "The tools say rain in Bern."
        before = len(server.calls)
        assert await ask(server, "And in 'Basel'?") == "The tools say rain in Basel."
        assert calls(server)[before:] == ["plan", "step", "step", "step"]
        planned = json.dumps(server.calls[before].body["messages"])
    assert "rain in Bern" in planned


async def test_tools_that_nobody_can_be_offered_are_refused() -> None:
    model = ConductorModel(workers=[speaker("one", saying("x"))], planner=ONE)
    with pytest.raises(ConfigError, match="no worker of its conductor"):
        await Runner.run(Agent[Any](name="lead", model=model, tools=[look]), "?")


async def test_it_streams_the_answer_in_the_events_of_the_responses_api() -> None:
    async with ModelServer(capable) as server:
        result = Runner.run_streamed(lead(server, tools=[look]), "What is the weather in 'Bern'?")
        raw = [event.data async for event in result.stream_events() if event.type == "raw_response_event"]
    kinds = [event.type for event in raw]
    first = kinds.index("response.completed")
    begun = ["response.created", "response.output_item.added"]
    ended = ["response.output_item.done", "response.completed"]
    assert kinds[: first + 1] == [*begun, "response.function_call_arguments.delta", *ended]
    second = raw[first + 1 :]
    assert [event.sequence_number for event in second] == list(range(len(second)))
    kinds = kinds[first + 1 :]
    assert kinds[:3] == [*begun, "response.content_part.added"]
    assert kinds[-3:] == ["response.content_part.done", *ended]
    deltas = [event.delta for event in second if event.type == "response.output_text.delta"]
    assert len(deltas) > 1
    assert "".join(deltas) == result.final_output == "The tools say rain in Bern."
    assert result.context_wrapper.usage.total_tokens == 4 * CALL_TOKENS


async def test_settings_are_those_of_the_last_step() -> None:
    reasoning, extra = Reasoning(effort="low"), {"stop": [","], "seed": 1}
    settings = ModelSettings(temperature=0.3, max_tokens=50, reasoning=reasoning, extra_args=extra)
    async with ModelServer(capable) as server:
        result = await Runner.run(lead(server, model_settings=settings), "Hello")
        assert result.final_output == "Hello to you"
        said = [call.body.get("temperature") for call in server.calls]
        assert said[1:] == [None, 0.3]
        body = server.calls[2].body
        assert (body["reasoning_effort"], body["seed"]) == ("low", 1)
        for wrong in (
            ModelSettings(frequency_penalty=1.0),
            ModelSettings(extra_body={"top_k": 3}),
            ModelSettings(verbosity="high"),
            ModelSettings(extra_args={"logit_bias": {"5": 1}}),
        ):
            with pytest.raises(ConfigError, match=r"frequency_penalty|top_k|verbosity|logit_bias"):
                await Runner.run(lead(server, model_settings=wrong), "Hello")
        assert len(server.calls) == 3


async def test_what_a_conductor_cannot_see_is_refused() -> None:
    """Conversations and prompts on a server of OpenAI, tools that only its models call."""
    async with ModelServer(capable) as server:
        with pytest.raises(UserError, match="previous_response_id"):
            await Runner.run(lead(server), "Hello", previous_response_id="resp_1")
        with pytest.raises(UserError, match="Hosted tools"):
            await Runner.run(lead(server, tools=[WebSearchTool()]), "Hello")
        with pytest.raises(QueryError, match="has no question"):
            await Runner.run(lead(server).clone(instructions=None), [{"role": "assistant", "content": "x"}])
        assert server.calls == []


@pytest.mark.parametrize(("by", "stream"), [("session", True), ("group_id", False)])
async def test_a_session_finds_its_run_that_waits(by: str, *, stream: bool) -> None:
    """It is asked the same again; a session stores each question, also those without an answer."""
    session = SQLiteSession("order")

    async def ask(conductor: Conductor) -> object:
        lead = Agent[Any](name="lead", instructions="Be brief.", model=ConductorModel(conductor))
        told: Any = {"session": session} if by == "session" else {"run_config": RunConfig(group_id="order")}
        return (await run(lead, QUESTION, stream=stream, **told)).final_output

    await check_waiting(ask, is_named=True)
    session.close()


@pytest.mark.parametrize(
    ("by", "how", "stream"),
    [("session", "failed", True), ("session", "cancelled", False), ("run_id", "cancelled", True)],
)
async def test_a_question_asked_again_continues_its_run(
    by: str, how: Literal["failed", "cancelled"], *, stream: bool
) -> None:
    session = SQLiteSession("order")
    settings = ModelSettings(extra_args={"run_id": "order-17"})

    async def ask(conductor: Conductor) -> object:
        told: Any = {"session": session} if by == "session" else {}
        agent = Agent[Any](name="lead", model=ConductorModel(conductor))
        agent = agent if by == "session" else agent.clone(model_settings=settings)
        return (await run(agent, QUESTION, stream=stream, **told)).final_output

    await check_continued(ask, how)
    session.close()


async def test_options_of_a_run_are_in_the_settings() -> None:
    """Its name, for each turn of the agent; labels, a policy and limits."""
    async with ModelServer(capable) as server:
        model = ConductorModel(workers=[server.model()], planner=ONE, journal=MemoryJournal())
        agent = Agent[Any](name="lead", model=model, tools=[look])
        extra: Any = {"run_id": "order-17", "labels": ["private"], "limits": Limits(calls=5)}

        async def ask(question: str, **more: Any) -> Any:
            settings = ModelSettings(extra_args={**extra, **more})
            return await Runner.run(agent, question, run_config=RunConfig(model_settings=settings))

        results = [await ask("How is it in 'Bern'?") for _ in range(2)]
        assert len(server.calls) == 2
        assert [each.final_output for each in results] == ["The tools say rain in Bern."] * 2
        facts = [podium_metadata(each) for each in results]
        assert facts[0]["run_id"] == facts[1]["run_id"]
        assert "private" in facts[0]["labels"]
        assert [each.context_wrapper.usage.total_tokens for each in results] == [2 * CALL_TOKENS, 0]
        await ask("How is it in 'Basel'?")
        assert len(server.calls) == 4
        with pytest.raises(RunFailed, match="input_tokens"):
            await ask("And in 'Chur'?", limits=Limits(input_tokens=1))
        with pytest.raises(ConfigError, match=r"accept runid \(did you mean run_id\?\): its .* labels"):
            await ask("And in 'Thun'?", runid="order-18")


async def test_images_reach_the_steps_that_can_see_them() -> None:
    picture = "data:image/png;base64,AAAA"
    question = {"type": "input_text", "text": "What is this?"}
    image = {"type": "input_image", "image_url": picture, "detail": "low"}
    asked: Any = [{"role": "user", "content": [question, image]}]
    async with ModelServer(capable) as server:
        eyes = as_worker(server.model(), name="eyes", parts=["image_url"])
        model = ConductorModel(workers=[eyes, as_worker(server.model(), name="mouth")], planner=TWO)
        await Runner.run(Agent[Any](name="lead", model=model), asked)
        bodies = [json.dumps(call.body) for call in server.calls]
    assert [picture in body for body in bodies] == [True, False]
    assert all("What is this?" in body for body in bodies)


async def test_cancelling_a_stream_closes_the_requests() -> None:
    def reply(call: Call) -> Reply:
        return says(call, PLAN) if is_planning(call) else events(chunk({"content": "Once"}), STALL)

    async with ModelServer(reply) as server:
        result = Runner.run_streamed(lead(server), "Hello")

        async def read() -> None:
            [event async for event in result.stream_events()]

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(read)
                while len(server.calls) < 2:  # noqa: ASYNC110 - the server has no event for it
                    await anyio.sleep(0.01)
                result.cancel()
            await server.calls[1].hung_up.wait()


def test_options_are_checked() -> None:
    workers: Any = [speaker("one", saying("x"))]
    conductor = Conductor(FixedPlanner("x"), [ScriptedWorker("one", "x")])
    for make, kind, told in (
        (lambda: ConductorModel(workers=workers, planner=ONE, colour="red"), TypeError, "not accept colour"),
        (lambda: ConductorModel(workers=workers, planner=ONE, partial="maybe"), ConfigError, "partial"),
        (lambda: ConductorModel(workers=workers), ConfigError, r"no planner: give planner=.*podium\.Conduct"),
        (lambda: ConductorModel(conductor, limits=Limits(calls=3)), ConfigError, "it has its own"),
    ):
        with pytest.raises(kind, match=told):
            make()


async def test_calls_whose_ids_a_server_repeats_go_on_from_the_turn_before() -> None:
    """The SDK drops calls whose id comes again, so each has an id of its own in the session."""

    def reply(call: Call) -> Reply:
        answer = capable(call)
        if is_planning(call) or not call.body.get("tools") or call.body["messages"][-1]["role"] == "tool":
            return answer
        asked = [tool_call("call_0", "look", '{"place": "Bern"}')]
        return says(call, "", tool_calls=asked, finish_reason="tool_calls")

    session = SQLiteSession("s")
    async with ModelServer(reply) as server:
        agent = lead(server, tools=[look])
        for _ in range(3):
            before = len(server.calls)
            await run(agent, "How is it?", stream=True, session=session)
            assert calls(server)[before:] == ["plan", "step", "step", "step"]
    items: list[Any] = await session.get_items()
    ids = [item["call_id"] for item in items if item.get("type") == "function_call"]
    assert (ids[0], len(set(ids))) == ("call_0", 3)
    session.close()


SECRET = "sk-proj-0123456789abcdef0123456789abcdef"  # noqa: S105 - looks like one, and is none


class Spans(TracingProcessor):
    def __init__(self) -> None:
        self.ended: list[dict[str, Any]] = []
        self.traces = 0

    def on_trace_start(self, trace: Trace) -> None:
        self.traces += 1

    def on_span_end(self, span: Span[Any]) -> None:
        self.ended.append(span.export())

    def _ignore(self, *_: Any) -> None:
        """Do nothing."""

    on_trace_end = on_span_start = shutdown = force_flush = _ignore

    def named(self, name: str) -> list[dict[str, Any]]:
        names = [(span, span["span_data"].get("name"), span["span_data"]["type"]) for span in self.ended]
        return [span for span, *known in names if name in known]


@pytest.fixture
def spans() -> Iterator[Spans]:
    kept = Spans()
    set_tracing_disabled(False)
    set_trace_processors([kept])
    yield kept
    set_trace_processors([])


async def test_plans_and_steps_are_spans_below_the_agents(spans: Spans) -> None:
    plan = planner_of((0, "Find it.", ()), (1, "Say it.", (0,)))
    workers = [speaker("finder", saying("found")), speaker("sayer", saying("said"))]
    lead = Agent[Any](name="lead", model=ConductorModel(workers=workers, planner=plan))
    async for _ in Runner.run_streamed(lead, "?").stream_events():
        pass
    assert spans.traces == 1
    (planned,) = spans.named("podium.plan")
    subtasks = [step["subtask"] for step in planned["span_data"]["data"]["plan"]["steps"]]
    assert subtasks == ["Find it.", "Say it."]
    steps = spans.named("podium.step")
    facts = [step["span_data"]["data"] for step in steps]
    told = [(each["worker"], each["output"], each["usage"]["input_tokens"]) for each in facts]
    assert told == [("finder", "found", 30), ("sayer", "said", 30)]
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


async def test_agents_that_do_steps_are_traced_as_the_run_says(spans: Spans) -> None:
    """Without data, or not at all; also an agent inside a tool that does a step."""
    plan = planner_of((0, "Find it, private one.", ()), (1, '{"input": "private"}', (0,)))
    async with ModelServer(lambda call: says(call, "quite private")) as server:
        finder = Agent[Any](name="finder", model=server.model())
        tool = Agent[Any](name="sayer", model=server.model()).as_tool("say", "Says it.")
        lead = Agent[Any](name="lead", model=ConductorModel(workers=[finder, tool], planner=plan))

        async def ask(config: RunConfig) -> str:
            return str((await Runner.run(lead, "A private question?", run_config=config)).final_output)

        assert await ask(RunConfig(trace_include_sensitive_data=False)) == "quite private"
        assert len(spans.named("generation")) == 2
        assert "private" not in str(spans.ended)
        spans.ended.clear()
        assert (await ask(RunConfig(tracing_disabled=True)), spans.ended) == ("quite private", [])
        await ask(RunConfig())
        assert "private" in str(spans.named("generation"))
