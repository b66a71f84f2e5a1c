"""A conductor where CrewAI takes an LLM."""

from collections.abc import Callable
from typing import Any

import pytest
from contracts.incomplete_contract import conductor_of
from contracts.loops_contract import MODES, Face, Mode, check_loops
from crewai import LLM, Agent, Crew, Task
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.llm_events import (
    LLMCallCompletedEvent,
    LLMCallFailedEvent,
    LLMCallStartedEvent,
    LLMStreamChunkEvent,
)
from crewai.tools import tool
from servers.chat_server import ChatServer, says
from servers.crew_scene import Scene as CrewScene, heard

from crewai_podium import ConductorLLM, ConductorRunEvent, as_worker
from podium import Card, ChatPlanner, ChatWorker, Conductor, Endpoint, Plan, ScriptedWorker, Step
from podium.budget import Limits
from podium.errors import ConfigError, RunFailed, WorkerFailed
from podium.execution import Retry
from podium.hosts import tool_call
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request

PLAN = write_plan(Plan((Step(0, "look it up"), Step(1, "say", (0,)))), "rows")
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}


class Scene:
    def __init__(self, say: Callable[[Request], Any] | str = "It is noon.", **options: Any) -> None:
        self.planner = ScriptedWorker("planner", PLAN)
        self.seeker = ScriptedWorker("seeker", Completion("330 m", usage=Usage(5, 1)))
        self.writer = ScriptedWorker("writer", say, piece=4)
        self.writer.takes_tools = True
        conductor = Conductor(ChatPlanner(self.planner), [self.seeker, self.writer], retry=Retry(attempts=1))
        self.llm = ConductorLLM(conductor, **options)

    @property
    def calls(self) -> tuple[int, int, int]:
        return tuple(len(worker.requests) for worker in (self.planner, self.seeker, self.writer))


def use_clock(request: Request) -> Completion | str:
    if request.tool_messages or request.tools is None:
        return f"It is {request.tool_messages[-1].text if request.tool_messages else 'late'}."
    return Completion("", "tool_calls", tool_calls=(tool_call("1", "clock", "{}"),), usage=Usage(7, 2))


def guided(llm: ConductorLLM, *tools: Any) -> Crew:
    agent = Agent(role="Guide", goal="Answer.", backstory="Old hand.", llm=llm, tools=list(tools))
    return Crew(agents=[agent], tasks=[Task(description="When?", expected_output="a time", agent=agent)])


def test_it_answers_an_agent() -> None:
    """In a crew, from CrewAI's threads; the crew's metrics tell of the whole run."""
    scene = Scene()
    output = guided(scene.llm).kickoff()
    assert (output.raw, scene.calls) == ("It is noon.", (1, 1, 1))
    assert output.token_usage.total_tokens == scene.llm.get_token_usage_summary().total_tokens > 6


def test_an_agents_tools_are_offered_to_the_last_steps_worker() -> None:
    """After the call, the plan and the other steps are not paid for again."""
    calls: list[str] = []

    @tool("clock")
    def clock() -> str:
        """Tells the time."""
        calls.append("clock")
        return "noon"

    scene = Scene(use_clock)
    assert guided(scene.llm, clock).kickoff().raw.startswith("It is noon")
    assert (calls, scene.calls) == (["clock"], (1, 1, 2))
    assert scene.seeker.requests[0].tools is None


def test_calls_come_back_as_openai_writes_them() -> None:
    scene = Scene(use_clock)
    (call,) = scene.llm.call("When?", tools=[CLOCK])
    assert call["function"] == {"name": "clock", "arguments": "{}"}
    assert scene.llm.call("When?", tools=[CLOCK], available_functions={"clock": lambda: "noon"}) == "noon"
    assert scene.llm.supports_function_calling()
    assert not ConductorLLM(Conductor(FixedPlanner(PLAN), [scene.seeker])).supports_function_calling()


def test_how_it_writes_reaches_the_last_step_and_it_stops_at_stop_words() -> None:
    scene = Scene("noon\nObservation: made up", temperature=0.25, max_tokens=50, stop=["\nObservation:"])
    assert scene.llm.call("When?") == "noon"
    sampling = scene.writer.requests[0].sampling
    assert (sampling.temperature, sampling.max_tokens, sampling.stop) == (0.25, 50, ("\nObservation:",))


def test_arguments_that_are_no_object_fail_the_call() -> None:
    call = tool_call("1", "clock", "noon")
    scene = Scene(lambda request: Completion("", "tool_calls", tool_calls=(call,)))
    with pytest.raises(RunFailed, match="'clock' are not a JSON object: 'noon'"):
        scene.llm.call("When?", tools=[CLOCK], available_functions={"clock": lambda: "noon"})


def test_an_llm_streams_alone() -> None:
    llm = Scene("It is noon.").llm
    frames = [frame.data for frame in llm.stream_events("When?") if frame.channel == "llm"]
    assert "".join(data["chunk"] for data in frames if "chunk" in data) == "It is noon."
    assert llm.stream is None


def test_what_happens_is_told_as_events() -> None:
    """With the usage of the whole run; a failure, once, with its reason."""
    scene, broken = Scene(), Scene(RuntimeError("too many requests, rate limit"))
    alone = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [broken.writer], retry=Retry(attempts=1))
    with heard(LLMCallCompletedEvent, LLMCallFailedEvent, LLMStreamChunkEvent) as told:
        scene.llm.call("When?")
        crewai_event_bus.flush()
        with pytest.raises(RunFailed, match="rate limit") as caught:
            ConductorLLM(alone).call("?")
    assert [event.type for event in told] == ["llm_call_completed", "llm_call_failed"]
    assert told[0].usage["total_tokens"] > 6
    assert len(broken.writer.requests) == 1  # CrewAI would have called three times, for the words in it
    assert caught.value.result.status == "failed"


def test_no_event_shows_a_secret() -> None:
    """Neither of what is asked nor of the answer; the caller gets the answer as it is."""
    key = "sk-abcdefghijklmnop1234"
    broken = ScriptedWorker("w", RuntimeError(f"{key} is wrong"))
    kinds = (LLMCallStartedEvent, LLMCallCompletedEvent, LLMCallFailedEvent, LLMStreamChunkEvent)
    with heard(*kinds) as told:
        llm = Scene(f"the key is {key}").llm
        llm.stream = True
        assert llm.call(f"What is {key}?") == f"the key is {key}"
        with pytest.raises(RunFailed):
            ConductorLLM(Conductor(FixedPlanner(Plan((Step(0, "x"),))), [broken])).call("?")
    assert {type(event) for event in told} == set(kinds)
    assert [event for event in told if key in repr(event)] == []


@pytest.mark.anyio
async def test_a_hosted_conductor_is_one_too() -> None:
    async with ChatServer(lambda call: says(call, "hosted")) as server:
        llm = ConductorLLM(Conductor.of(ChatWorker("fugu", endpoint=Endpoint(server.url, api_key="k"))))
        assert await llm.acall("?", tools=[CLOCK]) == "hosted"
        assert server.calls[-1].body["tools"] == [CLOCK]
    assert llm.get_token_usage_summary().total_tokens == 218


def test_a_partial_answer_is_told() -> None:
    made = conductor_of("It is noon.", is_complete=False)
    llm, strict = ConductorLLM(made), ConductorLLM(made, partial="raise")
    with heard(ConductorRunEvent) as told:
        assert llm.call("When?").startswith("It is noon.\n\n(Not complete: ")
        with pytest.raises(RunFailed, match="is partial"):
            strict.call("When?")
    assert [event.status for event in told] == ["partial", "partial"]
    assert told[0].problem["code"] == "worker_failed"
    assert told[0].podium["maybe_paid"] is True
    assert [result.status for result in (*llm.results, *strict.results)] == ["partial", "partial"]


def test_it_may_be_given_the_parts_of_a_conductor() -> None:
    """In place of the conductor; an agent is a worker, an LLM the planner."""
    scene = CrewScene()
    llm = ConductorLLM(planner=scene.llm, workers=[scene.finder, scene.writer], limits=Limits(calls=9))
    assert llm.call("Describe the tower.") == '{"height": 330, "words": "of iron"}'
    assert (llm.conductor.pool.names, llm.conductor.limits.calls) == (("Finder", "Writer"), 9)
    with pytest.raises(ConfigError, match="got a conductor with a planner, workers or options"):
        ConductorLLM(llm.conductor, workers=[scene.finder])


def test_the_same_call_continues_its_run() -> None:
    """Also of another LLM with the same journal and `run_id`, as after the end of the process."""
    journal = MemoryJournal()
    said: list[Any] = [WorkerFailed("down", maybe_paid=False), "noon", "here"]
    seeker = ScriptedWorker("seeker", "330 m")
    writer = ScriptedWorker("writer", lambda _: said.pop(0))
    plan = FixedPlanner(Plan((Step(0, "seek"), Step(1, "write", (0,)))))
    conductor = Conductor(plan, [seeker, writer], retry=Retry(attempts=1), journal=journal)
    with pytest.raises(RunFailed):
        ConductorLLM(conductor, run_id="desk", partial="raise").call("When?")
    assert [ConductorLLM(conductor, run_id="desk").call("When?") for _ in range(2)] == ["noon", "noon"]
    assert (len(seeker.requests), len(writer.requests)) == (1, 2)
    ConductorLLM(conductor, run_id="desk").call("Where?")
    assert len(seeker.requests) == 2


def test_images_go_to_workers_that_can_see_them() -> None:
    eyes = ScriptedWorker(Card(name="eyes", parts=frozenset({"image_url"})), "A cat.")
    blind = ScriptedWorker("blind", "A question.")
    llm = ConductorLLM(Conductor(FixedPlanner(Plan((Step(0, "look"), Step(1, "read", (0,))))), [eyes, blind]))
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    llm.call([{"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}])
    seen = ["AAAA" in str(worker.requests[0].messages[-1].content) for worker in (eyes, blind)]
    assert seen == [True, False]


def looping(url: str) -> Face:
    planner, worker = (LLM(model="openai/gpt-4o-mini", base_url=url, api_key="k") for _ in range(2))
    workers = [as_worker(worker, name="worker")]
    asked = ConductorLLM(Conductor(ChatPlanner(as_worker(planner)), workers, retry=Retry(attempts=1)))

    async def ask() -> str:
        return str(await asked.acall("Why?"))

    return Face(ask, lambda: str(asked.call("Why?")))


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_no_call_is_lost_whatever_loop_it_is_made_in(mode: Mode) -> None:
    check_loops(looping, mode)
