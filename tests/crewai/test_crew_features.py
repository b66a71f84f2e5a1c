"""What crews do with a manager besides a kickoff: share it, train, restore, print plans, use MCP servers."""

import io
from pathlib import Path
from typing import Any

import pytest
from crewai import Agent
from crewai.events.event_listener import event_listener
from crewai.mcp import MCPServerHTTP
from crewai.state.checkpoint_config import CheckpointConfig
from rich.console import Console
from servers.crew_scene import PLAN, Finding, Scene
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager, as_worker
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, RunFailed
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Plan, Step
from podium.workers import ScriptedWorker


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


@pytest.mark.anyio
async def test_an_agent_without_the_tools_of_its_mcp_server_does_not_guess() -> None:
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
