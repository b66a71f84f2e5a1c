"""Runs that wait for a person interrupt the agent's run, until its state is approved or rejected."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents import Agent, Runner, RunResult, RunResultStreaming, RunState, SQLiteSession
from agents_speaking import ModelServer
from servers.capable import capable

from openai_agents_podium import ConductorModel, approval_tools, podium_metadata
from podium import Card, Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed
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


async def decided(run: Run, agent: Any, result: Result, said: str = "", **more: Any) -> Result:
    """Approve the first interruption of a stored state, or reject it with a message, and run the state."""
    state = await stored(result, agent)
    first = state.get_interruptions()[0]
    if rejection := more.pop("rejection", None):
        state.reject(first, rejection_message=rejection)
    else:
        state.approve(first)
    if said:
        state.add_input(said)
    return await run(agent, state, **more)


async def test_a_plan_is_approved(run: Run) -> None:
    """It is shown in the arguments; each call of the model counts its own tokens."""
    team = Team("look", policy=Policy(approve="later"))
    result = await run(team.agent, "How?")
    ((name, facts),) = told(result)
    assert (name, facts["plan"]) == ("approve_plan", ["0. look: task 0", "1. writer: task 1 (shown step 0)"])
    assert podium_metadata(result)["status"] == "waiting"
    result = await decided(run, team.agent, result)
    assert (result.interruptions, result.final_output[:5]) == ([], "It is")
    assert podium_metadata(result)["run_id"] == facts["run_id"]
    assert result.context_wrapper.usage.total_tokens == 62


async def test_a_refused_plan_ends_the_run_with_its_reason(run: Run) -> None:
    """The person's words are in the error and in the journal; a new question is a new run."""
    team = Team("look", policy=Policy(approve="later"))
    session = SQLiteSession("s")
    result = await run(team.agent, "How?", session=session)
    with pytest.raises(RunFailed, match=r"Too dear\."):
        await decided(run, team.agent, result, session=session, rejection="Too dear.")
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
    result = await decided(run, team.agent, result, rejection=None if approved else "Not today.")
    assert len(team.refunds) == int(approved)
    assert podium_metadata(result)["status"] == ("ok" if approved else "partial")
    assert approved or "Not today." in result.final_output


async def test_a_question_is_answered(run: Run) -> None:
    """With a text in the state; an answer that does not fit, or none, is asked for again."""
    team = Team("person")
    result = await run(team.agent, "Which?")
    ((name, facts),) = told(result)
    assert (name, facts["choices"]) == ("ask_person", ["red", "blue"])
    for said, problem in (("", "there is no answer"), ("green", "write one of 'red', 'blue'")):
        result = await decided(run, team.agent, result, said)
        ((name, facts),) = told(result)
        assert problem in facts["problem"]
    facts = podium_metadata(await decided(run, team.agent, result, "blue"))
    assert (facts["status"], facts["steps"][0]["status"]) == ("ok", "ok")
    assert "blue" in str(team.writer.requests[0].messages)


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
    assert (podium_metadata(result)["status"], len(team.refunds)) == ("ok", 2)
    assert "blue" in str(team.writer.requests[0].messages)


async def test_an_agent_that_stops_on_its_first_tool_is_refused(run: Run) -> None:
    team = Team("look", policy=Policy(approve="later"))
    agent = team.agent.clone(tool_use_behavior="stop_on_first_tool")
    with pytest.raises(ConfigError, match="stops on its first tool"):
        await run(agent, "How?")


async def test_a_state_that_is_run_again_repeats_nothing(run: Run) -> None:
    team = Team("look", "refund", "person", policy=Policy(approve="later", ask="actions"))
    session = SQLiteSession("order")
    result = await run(team.agent, "Refund it.", session=session)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    stated = json.dumps(state.to_json())
    copies = [await RunState.from_json(team.agent, json.loads(stated)) for _ in range(2)]
    asked = [await run(team.agent, each, session=session) for each in copies]
    assert {told(result)[0][0] for result in asked} == {"ask_person"}
    answers = [await decided(run, team.agent, each, "red", session=session) for each in asked]
    assert answers[0].final_output == answers[1].final_output
    assert (len(team.refunds), len(team.writer.requests)) == (1, 1)
    session.close()


async def test_an_agent_as_a_tool_asks_through_its_caller(run: Run) -> None:
    team = Team("look", policy=Policy(approve="later"))
    tool = team.agent.as_tool("ask_team", "Asks a team.")
    async with ModelServer(capable) as server:
        desk = Agent[Any](name="desk", model=server.model(), tools=[tool])
        result = await run(desk, "How?")
        assert [name for name, _ in told(result)] == ["approve_plan"]
        result = await decided(run, desk, result)
    assert "It is" in result.final_output
