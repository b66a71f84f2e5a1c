"""Actions in the Agents SDK: its tools and agents as workers, below an agent whose model is a conductor."""

from collections.abc import Callable
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, Runner, WebSearchTool, function_tool
from agents_speaking import SpeakingModel
from contracts.actions_contract import ONCE, WRITE, ActionHost, ActionsContract, Refund, Shop
from contracts.adapter_contract import saying
from openai import AsyncOpenAI
from servers.chat_server import MODEL

from openai_agents_podium import ConductorModel, conductor_tool, podium_metadata
from openai_agents_podium.workers import as_worker
from podium import Conductor, FunctionWorker, Plan, Retry, ScriptedWorker, Step
from podium.errors import WorkerUnavailable
from podium.hosts import tool_call
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import FREE, Worker


class Lead(ActionHost):
    """An agent whose model is the conductor."""

    def tool(self, refund: Refund) -> Worker:
        """Return a function tool."""
        return as_worker(function_tool(refund), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return an agent."""
        model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=url, api_key="k", max_retries=0))
        tools: Any = [] if refund is None else [function_tool(refund)]
        return as_worker(Agent[Any](name="agent", model=model, tools=tools))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Run it."""
        result = await Runner.run(Agent[Any](name="lead", model=ConductorModel(conductor)), "Refund it.")
        return podium_metadata(result)["status"], result.final_output


@function_tool
def look() -> str:
    """Look."""
    return ""


class Own(Agent[Any]):
    """An agent of the user's own class."""


def team(*, acts: bool) -> Conductor:
    """Return a conductor."""
    return Conductor(FixedPlanner("x"), [FunctionWorker(lambda step: "x", acts=acts)])


def one(*tools: Any, **options: Any) -> Agent[Any]:
    """Return an agent."""
    return Agent[Any](name="one", tools=list(tools), **{"model": SpeakingModel(saying("x")), **options})


KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("a model", False, lambda: SpeakingModel(saying("x"))),
    ("a tool", True, lambda: look),
    ("an agent without tools", False, one),
    ("an agent that searches", False, lambda: one(WebSearchTool())),
    ("an agent with a tool", True, lambda: one(look)),
    ("an agent of a class of its own", True, lambda: Own(name="one")),
    ("an agent as a tool", False, lambda: one().as_tool("ask", "Asks.")),
    ("an agent that acts as a tool", True, lambda: one(one(look).as_tool("ask", "Asks."))),
    ("an agent with a team", False, lambda: one(conductor_tool(team(acts=False)))),
    ("an agent with a team that acts", True, lambda: one(conductor_tool(team(acts=True)))),
    ("an agent whose model is a team", False, lambda: one(model=ConductorModel(team(acts=False)))),
    ("an agent whose model is a team that acts", True, lambda: one(model=ConductorModel(team(acts=True)))),
]


@pytest.mark.parametrize(("acts", "make"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_what_acts(make: Callable[[], Any], *, acts: bool) -> None:
    """What cannot be seen counts as what may act, unless the user says otherwise."""
    made = make()
    assert as_worker(made, name="it").acts == acts
    assert as_worker(made, name="it", acts=not acts).acts != acts


@pytest.mark.anyio
async def test_an_agent_whose_model_is_a_team_acts_by_its_own_tool() -> None:
    """The team calls the tool, and fails after that: nobody knows what the agent did."""
    shop = Shop()
    replies = iter([Completion("", tool_calls=(tool_call("c1", "refund", '{"order": 1017}'),))])
    model = ScriptedWorker("model", lambda request: next(replies, WorkerUnavailable("busy")))
    model.takes_tools = True
    inner = Conductor(FixedPlanner(Plan((Step(0, "Refund it."),))), [model], retry=ONCE)
    agent = Agent[Any](name="agent", model=ConductorModel(inner), tools=[function_tool(shop.refund)])
    pool = [as_worker(agent), ScriptedWorker("writer", "text")]
    retry = Retry(attempts=3, first_wait=0.001)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Refund it."), WRITE))), pool, retry=retry)
    result = await conductor.run("Refund it.")
    assert (result.status, shop.refunds) == ("partial", [1017])
    assert [action.end for action in result.actions] == ["failed"]


class TestActions(ActionsContract):
    """The contract."""

    @pytest.fixture
    def host(self) -> ActionHost:
        """The face."""
        return Lead()
