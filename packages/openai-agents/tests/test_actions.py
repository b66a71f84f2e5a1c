"""Actions in the Agents SDK: its tools and agents as workers, below an agent whose model is a conductor."""

from collections.abc import Callable
from typing import Any

import pytest
from agents import (
    Agent,
    Model,
    ModelProvider,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    UserError,
    function_tool,
)
from agents_speaking import ModelServer, SpeakingModel
from contracts.actions_contract import ONCE, REFUND, ActionHost, ActionsContract, Refund, Shop, pool
from contracts.adapter_contract import saying
from openai import AsyncOpenAI
from servers.capable import capable
from servers.chat_server import MODEL

from openai_agents_podium import ConductorModel, as_worker, podium_metadata
from podium import Conductor, FunctionWorker, Plan, Step
from podium.planners import FixedPlanner
from podium.workers import FREE, Worker


class Lead(ActionHost):
    def tool(self, refund: Refund) -> Worker:
        return as_worker(function_tool(refund), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=url, api_key="k", max_retries=0))
        tools: Any = [] if refund is None else [function_tool(refund)]
        return as_worker(Agent[Any](name="agent", model=model, tools=tools))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        result = await Runner.run(Agent[Any](name="lead", model=ConductorModel(conductor)), "Refund it.")
        return podium_metadata(result)["status"], result.final_output


@function_tool
def look() -> str:
    """Look."""
    return ""


class Own(Agent[Any]):
    """An agent of the user's own class."""


def team(*, acts: bool) -> Conductor:
    return Conductor(FixedPlanner("x"), [FunctionWorker(lambda step: "x", acts=acts)])


def one(*tools: Any, **options: Any) -> Agent[Any]:
    return Agent[Any](name="one", tools=list(tools), **{"model": SpeakingModel(saying("x")), **options})


def asking(conductor: Conductor, **options: Any) -> Any:
    lead = Agent[Any](name="lead", model=ConductorModel(conductor))
    return lead.as_tool("ask_team", "Asks a team.", **options)


KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("a model", False, lambda: SpeakingModel(saying("x"))),
    ("a tool", True, lambda: look),
    ("an agent without tools", False, one),
    ("an agent with a tool", True, lambda: one(look)),
    ("an agent of a class of its own", True, lambda: Own(name="one")),
    ("an agent that acts as a tool", True, lambda: one(one(look).as_tool("ask", "Asks."))),
    ("an agent with a team that acts", True, lambda: one(asking(team(acts=True)))),
    ("an agent whose model is a team that acts", True, lambda: one(model=ConductorModel(team(acts=True)))),
]


class Found(ModelProvider):
    """A provider of the user's own, which finds one model, or raises."""

    def __init__(self, model: Model | None) -> None:
        self._model = model

    def get_model(self, model_name: str | None) -> Model:
        if self._model is None:
            raise LookupError(model_name)
        return self._model


def named(**options: Any) -> Worker:
    """Return an agent whose run config has the model, or finds it by its name."""
    return as_worker(Agent[Any](name="one", model="team"), run_config=RunConfig(**options))


ACTING, READING = (ConductorModel(team(acts=acts)) for acts in (True, False))


@pytest.mark.parametrize(
    ("acts", "options"),
    [
        (True, {"model": ACTING}),
        (False, {"model_provider": Found(READING)}),
        (True, {"model": "team", "model_provider": Found(ACTING)}),
        (True, {"model_provider": Found(None)}),
    ],
)
def test_the_model_of_a_run_config_may_act(options: dict[str, Any], *, acts: bool) -> None:
    assert named(**options).acts == acts


@pytest.mark.anyio
async def test_a_team_of_a_run_config_does_not_act_from_a_gap() -> None:
    """Its run is nested in the step, as that of an agent's own model."""
    shop = Shop()
    inner = Conductor(FixedPlanner(Plan((REFUND,))), [as_worker(function_tool(shop.refund))])
    agent = named(model_provider=Found(ConductorModel(inner)))
    steps = (Step(2, "Break."), Step(1, "Write."), Step(0, "Refund it.", (0, 1)), Step(1, "End.", (1, 2)))
    result = await Conductor(FixedPlanner(Plan(steps)), pool(agent), retry=ONCE).run("Refund it.")
    assert (result.status, shop.refunds) == ("partial", [])
    result = await Conductor(FixedPlanner(Plan((Step(0, "Refund it."),))), [agent]).run("Refund it.")
    assert (result.status, shop.refunds) == ("ok", [1017])
    assert "refund" in [action.worker for action in result.actions]


@pytest.mark.parametrize(("acts", "make"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_what_acts(make: Callable[[], Any], *, acts: bool) -> None:
    """What cannot be seen counts as what may act, unless the user says otherwise."""
    made = make()
    assert as_worker(made, name="it").acts == acts
    assert as_worker(made, name="it", acts=not acts).acts != acts


@pytest.mark.anyio
async def test_a_tool_that_fails_tells_what_it_has_done() -> None:
    """The SDK passes the text of its error on: to the user, or to the agent's model, which may try again."""
    shop = Shop()
    plan = Plan((REFUND, Step(2, "Break.", (0,))))
    workers = pool(as_worker(function_tool(shop.refund)))
    acting = Conductor(FixedPlanner(plan), workers, retry=ONCE)
    told = asking(acting, failure_error_function=lambda context, error: str(error))
    desk = asking(acting, failure_error_function=None)
    done = 'refund {"order": 1017}: done'
    async with ModelServer(capable) as server:
        agent = Agent[Any](name="desk", model=server.model(), tools=[desk])
        with pytest.raises(UserError) as caught:
            await Runner.run(agent, "?")
        result = await Runner.run(agent.clone(tools=[told]), "?")
    assert [done in text for text in (str(caught.value), result.final_output)] == [True, True]


class TestActions(ActionsContract):
    @pytest.fixture
    def host(self) -> ActionHost:
        return Lead()
