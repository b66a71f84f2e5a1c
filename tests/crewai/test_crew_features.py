"""What crews do with a manager besides a kickoff: share it, train, restore, print plans, use MCP servers."""

import io
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from crewai import Agent, Crew
from crewai.events.event_bus import crewai_event_bus
from crewai.events.event_listener import event_listener
from crewai.mcp import MCPServerHTTP
from crewai.state.checkpoint_config import CheckpointConfig
from mcp.server.fastmcp import FastMCP
from rich.console import Console
from servers.crew_scene import PLAN, Finding, Scene
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager, as_worker
from crewai_podium.events import ConductorRunEvent
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, RunFailed
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Plan, Step
from podium.workers import ScriptedWorker


@pytest.mark.long
def test_two_crews_at_once_may_share_a_manager() -> None:
    """Each task is done by the agents of its own crew, though the manager is told of the last crew only."""
    both = threading.Barrier(2)

    def crew_of(name: str, manager: ConductorManager) -> Crew:
        def say(shown: str, tools: Any) -> str:
            both.wait(20)
            return f"by {name}"

        llm = SpeakingLLM(model="speaking", say=say)
        agent = Agent(role=name, goal="Work.", backstory="New here.", llm=llm)
        return Scene.crew_of(manager, [agent], [Scene.task(f"Work for {name}.")])

    manager = ConductorManager(planner=FixedPlanner(Plan((Step(0, "work"),))))
    found: dict[str, str] = {}
    crews = {name: crew_of(name, manager) for name in ("left", "right")}

    def kick_off(name: str) -> None:
        found[name] = crews[name].kickoff().raw

    threads = [threading.Thread(target=kick_off, args=(name,)) for name in crews]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {"left": "by left", "right": "by right"}


def test_a_partial_answer_is_never_mended_into_a_typed_one() -> None:
    """CrewAI's converter would invent what a failed step did not find out."""

    def say(shown: str, tools: Any) -> str:
        if "Your part:" not in shown:
            return '{"height": 3, "words": "T"}'
        if "find the height" in shown.partition("Your part:")[2]:
            raise ValueError("the archive is closed")
        return "It could not be found out."

    scene = Scene(say, planner=FixedPlanner(PLAN.strip()), retry=Retry(attempts=1))
    scene.manager.llm = scene.llm
    with pytest.raises(RunFailed, match=r"is partial .*the archive is closed") as caught:
        scene.crew(scene.task(output_pydantic=Finding)).kickoff()
    assert caught.value.result is not None
    assert caught.value.result.status == "partial"
    assert not any("Your part:" not in shown for shown in scene.sent)


def test_a_crew_that_is_trained_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # CrewAI writes files there
    scene = Scene()
    with pytest.raises(ConfigError, match="cannot be trained"):
        scene.crew().train(n_iterations=1, filename="trained.pkl")
    assert scene.sent == []


def test_a_manager_is_not_restored_from_a_checkpoint(tmp_path: Path) -> None:
    """CrewAI would make a plain agent of it, without limits: neither is one written, nor is one read."""
    scene = Scene()
    crew = scene.crew(checkpoint=CheckpointConfig(location=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"Crew\.checkpoint is set, but CrewAI restores"):
        crew.kickoff()
    assert scene.sent == []
    with pytest.raises(ValueError, match="restores a ConductorManager as a plain agent"):
        Agent.model_validate(scene.manager.model_dump(mode="json"))


@pytest.mark.anyio
@pytest.mark.parametrize(("wrapped", "calls", "made"), [("agent", 7, 7), ("crew", 6, 0)])
async def test_a_conductor_inside_an_object_of_crewais_is_held_to_the_outer_limits(
    wrapped: str, calls: int, made: int
) -> None:
    """Its calls count in the run around it; a plan that needs more calls than are left does not start."""
    called: list[str] = []

    def say(shown: str, tools: Any) -> str:
        called.append(shown)
        return "done"

    llm = SpeakingLLM(model="speaking", say=say)
    parts = tuple(Step(0, f"part {part}") for part in range(6))
    inner = FixedPlanner(Plan((*parts, Step(0, "join", tuple(range(6))))))
    conducted = ConductorLLM(Conductor(inner, [as_worker(llm)]))
    worker = Agent(role="Guide", goal="a", backstory="b", llm=conducted)
    if wrapped == "crew":
        agents = [Agent(role="Clerk", goal="a", backstory="b", llm=llm)]
        task = Scene.task("{asked}")
        thing: Any = Scene.crew_of(ConductorManager(planner=inner), agents, [task])
    else:
        thing = worker
    outer = FixedPlanner(Plan((Step(0, "all of it"),)))
    result = await Conductor(
        outer, [as_worker(thing, name="inside")], limits=Limits(calls=calls), retry=Retry(attempts=1)
    ).run("?")
    assert len(called) == made
    assert result.status == ("ok" if made else "failed")
    assert ("Limits.calls" in result.explain()) is not bool(made)


def test_a_verbose_crew_shows_its_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a table, between what CrewAI prints itself; `on_event` hears of everything all the same."""
    shown, heard = io.StringIO(), list[str]()
    monkeypatch.setattr(event_listener.formatter, "console", Console(file=shown, width=100))
    scene = Scene(on_event=lambda event: heard.append(event.type))
    scene.crew(verbose=True).kickoff()
    lines = shown.getvalue().splitlines()
    assert any("Plan of round 1" in line for line in lines)
    assert any(all(word in line for word in ("2", "Writer", "0, 1", "write it down")) for line in lines)
    assert {"plan_ready", "run_ended"} <= {*heard}


@asynccontextmanager
async def mcp_server() -> AsyncIterator[str]:
    """Serve a tool in the loop of the test, which must not be blocked; yield the URL."""
    served = FastMCP("lengths", stateless_http=True, json_response=True)

    @served.tool()
    def measure(what: str) -> str:
        """Measures a thing."""
        return f"{what}: 330 m"

    config = uvicorn.Config(served.streamable_http_app(), port=0, log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve)
        with anyio.fail_after(20):
            while not server.started:  # noqa: ASYNC110 - the server tells by this flag alone
                await anyio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            server.should_exit = True


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.anyio
async def test_the_loop_goes_on_while_an_agents_mcp_server_is_asked() -> None:
    """The server is in this very loop: had the agent blocked it, neither would ever answer."""

    def say(shown: str, tools: Any) -> Any:
        return "offered " + ", ".join(tool["function"]["name"] for tool in tools or ())

    async with mcp_server() as url:
        llm = SpeakingLLM(model="speaking", say=say)
        agent = Agent(
            role="Clerk", goal="a", backstory="b", llm=llm, mcps=[MCPServerHTTP(url=url, streamable=True)]
        )
        plan = FixedPlanner(Plan((Step(0, "How high is the tower?"),)))
        with anyio.fail_after(60):
            result = await Conductor(plan, [as_worker(agent)]).run("?")
    assert result.answer.startswith("offered ")
    assert result.answer.endswith("measure")


@pytest.mark.anyio
async def test_an_agent_without_the_tools_of_its_mcp_server_does_not_guess() -> None:
    """CrewAI goes on without them, and logs a line."""
    llm = SpeakingLLM(model="speaking", say=lambda shown, tools: "about 300 m, I think")
    gone = MCPServerHTTP(url="http://127.0.0.1:9/mcp", streamable=True)
    agent = Agent(role="Clerk", goal="a", backstory="b", llm=llm, mcps=[gone])
    plan = FixedPlanner(Plan((Step(0, "How high is the tower?"),)))
    result = await Conductor(plan, [as_worker(agent)], retry=Retry(attempts=1)).run("?")
    assert (result.answer, result.status) == ("", "failed")


def heights(shown: str, tools: Any) -> str:
    """Answer a step; the archive of the heights is closed."""
    if "find the height" in shown.rpartition("Your part:")[2]:
        raise ValueError("the archive is closed")
    return f"answer to {'B' if 'Use what is known.' in shown else 'A'}"


def two_plans() -> ChatPlanner:
    """Return a planner that has the first task look for a height, and the second not."""
    second = '{"worker": 1, "subtask": "use it", "access": []}'
    return ChatPlanner(ScriptedWorker("plans", {"Use what is known.": second, "": PLAN.strip()}))


@pytest.mark.long
@pytest.mark.parametrize("context", ["all", "none"])
def test_a_task_built_on_a_partial_task_is_partial(context: str) -> None:
    """Its own run lacked nothing: what it was shown did."""
    scene = Scene(heights, planner=two_plans(), retry=Retry(attempts=1))
    first = scene.task("Describe the tower.", name="describe")
    shown = {} if context == "all" else {"context": []}
    output = scene.crew(first, scene.task("Use what is known.", **shown)).kickoff()
    one, two = scene.manager.results
    texts = [task.raw.partition("\n\n(Not complete: ") for task in output.tasks_output]
    assert [text for text, _, _ in texts] == ["answer to A", "answer to B"]
    assert [bool(lack) for _, _, lack in texts] == [True, context != "none"]
    assert one.status == "partial"
    assert one.problem is not None
    if context == "none":
        assert (two.status, two.problem) == ("ok", None)
    else:
        assert two.status == "partial"
        assert two.problem is not None
        assert two.problem.code == one.problem.code
        assert "the output of task 'describe' is partial" in two.problem.message


@pytest.mark.long
def test_a_task_is_whole_again_where_the_task_before_it_is() -> None:
    """At a second kickoff, in which nothing fails; the event tells it, too."""
    closed = [True]

    def say(shown: str, tools: Any) -> str:
        return heights(shown, tools) if closed[0] else Scene.answer(shown, tools)

    scene = Scene(say, planner=FixedPlanner(PLAN.strip()), retry=Retry(attempts=1))
    crew, told = scene.crew(scene.task("Describe it."), scene.task("Use what is known.")), list[str]()
    with crewai_event_bus.scoped_handlers():
        crewai_event_bus.on(ConductorRunEvent)(lambda source, event: told.append(event.status))
        crew.kickoff()
        closed[0] = False
        crew.kickoff()
        crewai_event_bus.flush()
    assert [result.status for result in scene.manager.results] == ["partial", "partial", "ok", "ok"]
    assert sorted(told) == ["ok", "ok", "partial", "partial"]


def test_a_crew_whose_run_is_partial_makes_the_step_around_it_partial() -> None:
    """Also where the run of a later task lacked nothing of its own."""
    scene = Scene(heights, planner=two_plans(), retry=Retry(attempts=1))
    inner = as_worker(scene.crew(scene.task("Do: {part}"), scene.task("Use what is known.")), name="inner")
    result = Conductor(FixedPlanner(Plan((Step(0, "describe the tower"),))), [inner]).run_sync("?")
    assert result.answer.startswith("answer to B\n\n(Not complete: ")
    assert result.status == "partial"
    assert result.problem is not None
    assert "the archive is closed" in result.problem.message


def test_control_characters_of_plans_and_outputs_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """CrewAI's panels print tasks and outputs as they are; its agents here are Podium's conductors."""
    shown = io.StringIO()
    monkeypatch.setattr(event_listener.formatter, "console", Console(file=shown, width=100))
    plan = '{"worker": 0, "subtask": "find\\u001b[31m it", "access": []}'
    odd = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [ScriptedWorker("odd", "a\tb\x1b]0;pwned\x07\nc")])
    guide = Agent(role="Guide", goal="a", backstory="b", llm=ConductorLLM(odd))
    manager = ConductorManager(planner=FixedPlanner(plan))
    output = Scene.crew_of(manager, [guide], [Scene.task()], verbose=True).kickoff()
    assert output.raw == "a\tb\N{REPLACEMENT CHARACTER}]0;pwned\N{REPLACEMENT CHARACTER}\nc"
    assert "pwned" in shown.getvalue()
    assert not set(shown.getvalue()) & {"\x1b", "\x07"}
