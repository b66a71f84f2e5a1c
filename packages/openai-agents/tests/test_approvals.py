"""Runs that wait for a person interrupt the agent's run, until its state is approved or rejected."""

import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    Runner,
    RunResult,
    RunResultStreaming,
    RunState,
    SQLiteSession,
    function_tool,
)
from agents_speaking import ModelServer
from servers.capable import capable

from openai_agents_podium import ConductorModel, approval_tools, as_worker, podium_metadata
from podium import Card, Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, QueryError, RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Completion
from podium.usage import Usage
from podium.workers import PersonWorker

pytestmark = pytest.mark.anyio

Result = RunResult | RunResultStreaming
Run = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["whole", "streamed"])
def run(request: pytest.FixtureRequest) -> Run:
    async def running(agent: Agent[Any], asked: Any, **options: Any) -> Result:
        if request.param == "whole":
            return await Runner.run(agent, asked, **options)
        result = Runner.run_streamed(agent, asked, **options)
        async for _ in result.stream_events():
            pass
        return result

    return running


class Team:
    """A plan of an action, a question and an answer."""

    def __init__(self, *workers: str, steps: tuple[Step, ...] | None = None, **options: Any) -> None:
        self.refunds = list[str]()
        self.writer = ScriptedWorker("writer", lambda request: Completion(_last(request), usage=Usage(30, 7)))
        known = {
            "look": ScriptedWorker("look", Completion("seen", usage=Usage(20, 5))),
            "refund": FunctionWorker(self._refund, card=Card(name="refund"), acts=True),
            "person": PersonWorker("person", choices=["red", "blue"]),
        }
        pool = [*(known[name] for name in workers), self.writer]
        plan = Plan(steps or tuple(Step(at, f"task {at}", tuple(range(at))) for at in range(len(pool))))
        self.conductor = Conductor(FixedPlanner(plan), pool, journal=MemoryJournal(), **options)
        self.agent = Agent[Any](name="lead", model=ConductorModel(self.conductor), tools=approval_tools())

    def _refund(self, step: Any) -> str:
        self.refunds.append(step.subtask)
        return "refunded"


def _last(request: Any) -> str:
    return f"It is {request.messages[-1].text.split()[-1] if request.messages else ''}"


async def stored(result: Result, agent: Agent[Any]) -> RunState[Any, Any]:
    text = json.dumps(result.to_state().to_json())
    return await RunState.from_json(agent, json.loads(text))


def told(result: Result) -> list[tuple[str, dict[str, Any]]]:
    return [(str(each.name), json.loads(each.arguments or "")) for each in result.interruptions]


async def test_a_plan_is_approved(run: Run) -> None:
    """It is shown in the arguments; each call of the model counts its own tokens."""
    team = Team("look", policy=Policy(approve="later"))
    result = await run(team.agent, "How?")
    ((name, facts),) = told(result)
    assert (name, facts["plan"]) == ("approve_plan", ["0. look: task 0", "1. writer: task 1 (shown step 0)"])
    assert podium_metadata(result)["status"] == "waiting"
    state = await stored(result, team.agent)
    state.approve(state.get_interruptions()[0])
    result = await run(team.agent, state)
    assert result.interruptions == []
    assert result.final_output.startswith("It is")
    assert podium_metadata(result)["run_id"] == facts["run_id"]
    assert result.context_wrapper.usage.total_tokens == 62


async def test_a_refused_plan_ends_the_run_with_its_reason(run: Run) -> None:
    """The person's words are in the error and in the journal; a new question is a new run."""
    team = Team("look", policy=Policy(approve="later"))
    session = SQLiteSession("s")
    result = await run(team.agent, "How?", session=session)
    state = result.to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Too dear.")
    with pytest.raises(RunFailed, match=r"Too dear\."):
        await run(team.agent, state, session=session)
    result = await run(team.agent, "And now?", session=session)
    assert [name for name, _ in told(result)] == ["approve_plan"]
    assert len(await team.conductor.journal.runs()) == 2
    session.close()


@pytest.mark.parametrize("approved", [True, False])
async def test_an_action_is_approved_or_refused(run: Run, *, approved: bool) -> None:
    team = Team("look", "refund", policy=Policy(approve="later", ask="actions"))
    result = await run(team.agent, "Refund it.")
    ((name, facts),) = told(result)
    assert (name, facts["worker"], facts["step"]) == ("approve_action", "refund", "1")
    state = await stored(result, team.agent)
    if approved:
        state.approve(state.get_interruptions()[0])
    else:
        state.reject(state.get_interruptions()[0], rejection_message="Not today.")
    result = await run(team.agent, state)
    assert len(team.refunds) == int(approved)
    facts = podium_metadata(result)
    assert facts["status"] == ("ok" if approved else "partial")
    assert approved or "Not today." in result.final_output


async def test_a_question_is_answered(run: Run) -> None:
    """With a text in the state; an answer that does not fit, or none, is asked for again."""
    team = Team("person")
    result = await run(team.agent, "Which?")
    ((name, facts),) = told(result)
    assert (name, facts["choices"]) == ("ask_person", ["red", "blue"])
    for said, problem in ((None, "there is no answer"), ("green", "write one of 'red', 'blue'")):
        state = await stored(result, team.agent)
        state.approve(state.get_interruptions()[0])
        if said is not None:
            state.add_input(said)
        result = await run(team.agent, state)
        ((name, facts),) = told(result)
        assert problem in facts["problem"]
    state = await stored(result, team.agent)
    state.approve(state.get_interruptions()[0])
    state.add_input("blue")
    result = await run(team.agent, state)
    assert podium_metadata(result)["status"] == "ok"
    assert podium_metadata(result)["steps"][0]["status"] == "ok"
    assert "blue" in str(team.writer.requests[0].messages)


async def test_a_question_may_stay_without_an_answer(run: Run) -> None:
    """The reason is the problem of its step."""
    team = Team("person")
    state = (await run(team.agent, "Which?")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Nobody knows.")
    with pytest.raises(RunFailed, match=r"Nobody knows\."):
        await run(team.agent, state)


async def test_several_decisions_at_once(run: Run) -> None:
    """A decision may wait for another; a question is asked beside them."""
    steps = (Step(0, "Refund one."), Step(0, "Refund two."), Step(1, "Which?"), Step(2, "Tell.", (0, 1, 2)))
    team = Team("refund", "person", steps=steps, policy=Policy(approve="later", ask="actions"))
    agent = team.agent
    result = await run(agent, "?")
    assert sorted(name for name, _ in told(result)) == ["approve_action", "approve_action", "ask_person"]
    state = result.to_state()
    state.approve(next(each for each in state.get_interruptions() if each.name == "approve_action"))
    result = await run(agent, state)
    assert len(result.interruptions) == 2
    state = await stored(result, agent)
    for each in state.get_interruptions():
        state.approve(each)
    state.add_input("blue")
    result = await run(agent, state)
    assert podium_metadata(result)["status"] == "ok"
    assert len(team.refunds) == 2
    assert "blue" in str(team.writer.requests[0].messages)


async def test_a_text_beside_a_decision_is_refused(run: Run) -> None:
    team = Team("look", policy=Policy(approve="later"))
    state = (await run(team.agent, "How?")).to_state()
    state.approve(state.get_interruptions()[0])
    state.add_input("But hurry.")
    with pytest.raises(QueryError, match="send other texts"):
        await run(team.agent, state)


async def test_an_agent_that_stops_on_its_first_tool_is_refused(run: Run) -> None:
    """A decision would be its answer."""
    team = Team("look", policy=Policy(approve="later"))
    agent = team.agent.clone(tool_use_behavior="stop_on_first_tool")
    with pytest.raises(ConfigError, match="stops on its first tool"):
        await run(agent, "How?")


async def test_a_state_that_is_run_again_repeats_nothing(run: Run) -> None:
    """Its decisions are in the journal, and its answer too."""
    team = Team("look", "refund", "person", policy=Policy(approve="later", ask="actions"))
    session = SQLiteSession("order")
    result = await run(team.agent, "Refund it.", session=session)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    stated = json.dumps(state.to_json())
    copies = [await RunState.from_json(team.agent, json.loads(stated)) for _ in range(2)]
    asked = [await run(team.agent, each, session=session) for each in copies]
    assert {told(result)[0][0] for result in asked} == {"ask_person"}
    answers = []
    for result in asked:
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        state.add_input("red")
        answers.append((await run(team.agent, state, session=session)).final_output)
    assert answers[0] == answers[1]
    assert (len(team.refunds), len(team.writer.requests)) == (1, 1)
    session.close()


async def test_an_agent_as_a_tool_asks_through_its_caller(run: Run) -> None:
    team = Team("look", policy=Policy(approve="later"))
    tool = team.agent.as_tool("ask_team", "Asks a team.")
    async with ModelServer(capable) as server:
        desk = Agent[Any](name="desk", model=server.model(), tools=[tool])
        result = await run(desk, "How?")
        assert [name for name, _ in told(result)] == ["approve_plan"]
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        result = await run(desk, state)
    assert "It is" in result.final_output


async def test_tools_of_the_agent_beside_approvals(run: Run) -> None:
    """They are offered to each step, and the tools for approvals to nobody."""

    @function_tool
    def look(place: str) -> str:
        """Look at a place."""
        return f"rain in {place}"

    async with ModelServer(capable) as server:
        model = ConductorModel(
            planner=server.model(),
            workers=[as_worker(server.model(), name=name) for name in ("one", "two")],
            policy=Policy(approve="later"),
        )
        agent = Agent[Any](name="lead", model=model, tools=[look, *approval_tools()])
        result = await run(agent, "How is it in 'Bern'?")
        while result.interruptions:
            state = await stored(result, agent)
            for each in state.get_interruptions():
                state.approve(each)
            result = await run(agent, state)
        offered = [[tool["function"]["name"] for tool in call.body.get("tools", ())] for call in server.calls]
    assert result.final_output == "The tools say rain in Bern."
    assert offered == [[], *[["look"]] * 4]  # a plan, and two calls of each step


PROCESS = """
import asyncio, json, os, signal, sys
from pathlib import Path
from agents import Agent, Runner, RunState, set_tracing_disabled
from openai_agents_podium import ConductorModel, approval_tools, as_worker, podium_metadata
from podium import Card, FunctionWorker, Plan, Step
from podium.journal import SqlJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import PersonWorker

folder, part, stream = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "streamed"
set_tracing_disabled(True)

def refund(step):
    with open(folder / "refunds", "a") as file:
        file.write("refund ")
    return "refunded"

def write(step):
    if part == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"done: {[seen.output for seen in step.visible]}"

plan = Plan((Step(0, "Refund."), Step(1, "Which?"), Step(2, "Write.", (0, 1))))
workers = [
    FunctionWorker(refund, card=Card(name="refund"), acts=True),
    PersonWorker("person"),
    FunctionWorker(write, card=Card(name="writer")),
]
journal = SqlJournal(folder / "runs.db")
model = ConductorModel(
    planner=FixedPlanner(plan), workers=workers, policy=Policy(approve="later"), journal=journal
)
lead = Agent(name="lead", model=model, tools=approval_tools())

async def run(asked):
    if not stream:
        return await Runner.run(lead, asked)
    result = Runner.run_streamed(lead, asked)
    async for _ in result.stream_events():
        pass
    return result

async def main():
    asked = "Refund it."
    if part != "begin":
        asked = await RunState.from_json(lead, json.loads((folder / "state").read_text()))
    while True:
        for each in [] if isinstance(asked, str) else asked.get_interruptions():
            asked.approve(each)
            if each.name == "ask_person":
                asked.add_input("blue")
        result = await run(asked)
        if not result.interruptions:
            break
        asked = result.to_state()
        (folder / "state").write_text(json.dumps(asked.to_json()))
        print([each.name for each in result.interruptions], flush=True)
        if part == "begin":
            os.kill(os.getpid(), signal.SIGKILL)
    print(result.final_output, podium_metadata(result)["status"])

asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["whole", "streamed"])
def test_each_decision_in_a_process_that_was_killed(how: str, tmp_path: Path) -> None:
    """The state in a file and the journal are all that is left; the action is done once."""

    def process(part: str) -> tuple[str, int]:
        command = [sys.executable, "-c", PROCESS, str(tmp_path), part, how]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.stdout.strip(), done.returncode

    assert process("begin") == ("['approve_plan']", -signal.SIGKILL)
    assert process("killed") == ("['ask_person']", -signal.SIGKILL)
    assert process("end") == ("done: ['refunded', 'blue'] ok", 0)
    assert (tmp_path / "refunds").read_text() == "refund "
