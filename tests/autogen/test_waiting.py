"""Runs of AutoGen's and Agent Framework's conductors that wait for somebody, or were broken off."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from agent_framework import (
    Agent,
    AgentSession,
    InMemoryCheckpointStorage,
    Message,
    Workflow,
    WorkflowBuilder,
)
from autogen.speaking import Speak, Speaker, SpeakingClient
from autogen_agentchat.agents import UserProxyAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import UserMessage
from contracts.adapter_contract import planner_of, saying
from contracts.waiting_contract import QUESTION, Ask, check_continued, check_waiting

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam
from autogen_podium.agent_framework import ConductorAgent as FrameworkConductor, ConductorChatClient
from podium import Conductor
from podium.errors import RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy

pytestmark = pytest.mark.anyio

TWO = ((0, "find", ()), (1, "write", (0,)))


class AutoGen:
    """A conductor as an agent of AutoGen's, and who it directs."""

    def __init__(self, planner: FixedPlanner, speaks: list[Speak], **terms: Any) -> None:
        speakers = [Speaker(f"agent_{number}", speak) for number, speak in enumerate(speaks)]
        self.agent = ConductorAgent("lead", speakers, planner, **terms)

    async def ask(self) -> str:
        """Run it."""
        return (await self.agent.run(task="?")).messages[-1].to_text()


class AgentFramework:
    """A conductor as an agent of Agent Framework's, and who it directs."""

    def __init__(self, planner: FixedPlanner, speaks: list[Speak], **terms: Any) -> None:
        agents = [Agent(SpeakingClient(speak), name=f"agent_{n}") for n, speak in enumerate(speaks)]
        self.agent = FrameworkConductor(agents, planner, **terms)

    async def ask(self) -> str:
        """Run it."""
        return (await self.agent.run("?")).text


Make = Callable[..., AutoGen | AgentFramework]
HOSTS = pytest.mark.parametrize("make", [AutoGen, AgentFramework])


class Heard:
    """Counts what is said, and says it."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def saying(self, text: str) -> Speak:
        """Return who says this."""

        async def speak(shown: str) -> str:
            self.said.append(text)
            return text

        return speak


@HOSTS
async def test_a_plan_is_looked_at_before_any_agent_is_asked(make: Make) -> None:
    """By a function of the policy's, which may refuse it."""
    looked, heard, allowed = list[int](), Heard(), [False]

    def look(asked: Any) -> bool:
        looked.append(len(asked.plan.steps))
        return allowed[0]

    host = make(
        planner_of(*TWO), [heard.saying("found"), heard.saying("written")], policy=Policy(approve=look)
    )
    with pytest.raises(RunFailed, match="no answer"):
        await host.ask()
    assert (looked, heard.said) == ([2], [])
    allowed[0] = True
    assert await host.ask() == "written"
    assert (looked, heard.said) == ([2, 2], ["found", "written"])


async def agent(conductor: Conductor) -> str:
    """Ask an agent of AutoGen's."""
    return (await ConductorAgent("lead", conductor).run(task=QUESTION)).messages[-1].to_text()


async def team(conductor: Conductor) -> str:
    """Ask a team of AutoGen's."""
    return (await ConductorTeam(conductor).run(task=QUESTION)).messages[-1].to_text()


async def client(conductor: Conductor) -> object:
    """Ask a model client of AutoGen's."""
    model = ConductorChatCompletionClient(conductor)
    return (await model.create([UserMessage(content=QUESTION, source="user")])).content


async def framework_agent(conductor: Conductor) -> str:
    """Ask an agent of Agent Framework's."""
    return (await FrameworkConductor(conductor).run(QUESTION)).text


async def framework_client(conductor: Conductor) -> str:
    """Ask a chat client of Agent Framework's."""
    return (await ConductorChatClient(conductor).get_response([Message("user", [QUESTION])])).text


def in_session() -> Ask:
    """Return what asks an agent of Agent Framework's in one session."""
    session = AgentSession()

    async def ask(conductor: Conductor) -> str:
        return (await FrameworkConductor(conductor, name="lead").run(QUESTION, session=session)).text

    return ask


def in_session_of_client() -> Ask:
    """Return what asks a chat client of Agent Framework's, as the client of an agent with a session."""
    session = AgentSession()

    async def ask(conductor: Conductor) -> str:
        return (await Agent(ConductorChatClient(conductor), name="lead").run(QUESTION, session=session)).text

    return ask


def of_one(make: Callable[[Conductor], Any], *, loads: bool = False) -> Ask:
    """Return what asks one agent or team of AutoGen's, or, with `loads`, a new one with its state."""
    made: list[Any] = []

    async def ask(conductor: Conductor) -> str:
        if made and loads:
            state = json.loads(json.dumps(await made[0].save_state()))
            made[0] = make(conductor)
            await made[0].load_state(state)
        made[:] = made or [make(conductor)]
        said: str = (await made[0].run(task=QUESTION)).messages[-1].to_text()
        return said

    return ask


def lead(conductor: Conductor) -> ConductorAgent:
    """Return an agent."""
    return ConductorAgent("lead", conductor)


SESSIONS = pytest.mark.parametrize(
    "make",
    [
        in_session,
        in_session_of_client,
        lambda: of_one(lead),
        lambda: of_one(lead, loads=True),
        lambda: of_one(ConductorTeam),
        lambda: of_one(ConductorTeam, loads=True),
    ],
    ids=["session", "client", "agent", "loaded agent", "team", "loaded team"],
)


@pytest.mark.parametrize("ask", [agent, team, client, framework_agent, framework_client])
async def test_a_plan_may_wait_and_go_on_later(ask: Ask) -> None:
    """The face cannot wait: its error has the run, which the conductor decides and goes on with."""
    await check_waiting(ask)


@SESSIONS
async def test_a_session_finds_the_run_that_waits(make: Callable[[], Ask]) -> None:
    """Until it is decided; then the session gets the answer."""
    await check_waiting(make(), is_named=True)


@SESSIONS
@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_a_session_continues_what_broke_off(make: Callable[[], Ask], how: Any) -> None:
    """What was done is not done again."""
    await check_continued(make(), how)


@HOSTS
async def test_a_run_that_was_broken_off_goes_on_from_the_journal(make: Make) -> None:
    """A step that was paid for is not asked again."""
    heard, reached, journal = Heard(), asyncio.Event(), MemoryJournal()
    hangs = [True]

    async def write(shown: str) -> str:
        if hangs[0]:
            reached.set()
            await anyio.sleep_forever()
        return f"of {'found' if 'found' in shown else 'nothing'}"

    host = make(planner_of(*TWO), [heard.saying("found"), write], journal=journal)
    task = asyncio.create_task(host.ask())
    with anyio.fail_after(20):
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    hangs[0] = False
    (run,) = await journal.runs()
    result = await host.agent.conductor.resume(run.run_id)
    assert (result.answer, heard.said) == ("of found", ["found"])


async def test_somebody_has_a_turn_after_the_conductors() -> None:
    """AutoGen's own way to ask a person: an agent of the team."""
    lead = ConductorAgent("lead", [Speaker("one", saying("a draft"))], planner_of((0, "x", ())))
    asked: list[str] = []

    def sees(prompt: str) -> str:
        asked.append(prompt)
        return "APPROVE" if len(asked) == 2 else "Once more."

    boss = UserProxyAgent("boss", input_func=sees)
    team = RoundRobinGroupChat([lead, boss], termination_condition=TextMentionTermination("APPROVE"))
    result = await team.run(task="?")
    spoken = [m for m in result.messages if m.source in ("lead", "boss") and "Input" not in type(m).__name__]
    assert [(m.source, m.to_text()) for m in spoken] == [
        ("lead", "a draft"),
        ("boss", "Once more."),
        ("lead", "a draft"),
        ("boss", "APPROVE"),
    ]


async def test_a_workflow_goes_on_after_the_conductor() -> None:
    """Agent Framework's checkpoints keep its answer: what comes after is tried again, nothing before."""
    heard, broken, storage = Heard(), [True], InMemoryCheckpointStorage()

    async def end(shown: str) -> str:
        if broken[0]:
            raise ValueError("out of order")
        return f"of {'a draft' if 'a draft' in shown else 'nothing'}"

    def built() -> Workflow:
        drafter = Agent(SpeakingClient(heard.saying("a draft")), name="drafter")
        lead = FrameworkConductor([drafter], planner_of((0, "x", ())), name="lead")
        last = Agent(SpeakingClient(end), name="last")
        flow = WorkflowBuilder(start_executor=lead, checkpoint_storage=storage, name="flow")
        return flow.add_edge(lead, last).build()

    with pytest.raises(ValueError, match="out of order"):
        await built().run("?")
    broken[0] = False
    latest = await storage.get_latest(workflow_name="flow")
    assert latest is not None
    outputs = (await built().run(checkpoint_id=latest.checkpoint_id)).get_outputs()
    assert ([str(output) for output in outputs], heard.said) == (["of a draft"], ["a draft"])
