"""Actions in AutoGen and Agent Framework: their tools and agents as workers, in each of their faces."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from agent_framework import (
    Agent,
    AgentContext,
    AgentSession,
    FunctionInvocationContext,
    FunctionTool as FrameworkTool,
    Message,
    WorkflowBuilder,
    tool as framework_function,
)
from agent_framework.openai import OpenAIChatCompletionClient as FrameworkClient
from autogen.scripts import calling, weather
from autogen.speaking import SpeakingClient, client_of
from autogen_agentchat.agents import AssistantAgent, UserProxyAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_agentchat.tools import AgentTool
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    UserMessage,
)
from autogen_core.tools import FunctionTool, StaticWorkbench
from autogen_ext.models.replay import ReplayChatCompletionClient
from contracts.actions_contract import ActionHost, ActionsContract, Refund
from contracts.adapter_contract import saying
from openai import AsyncOpenAI
from servers.chat_server import MODEL, ChatServer

from autogen_podium import ConductorAgent, ConductorChatCompletionClient, ConductorTeam, as_worker
from autogen_podium.agent_framework import (
    ConductorAgent as FrameworkConductor,
    ConductorChatClient,
    as_worker as framework_worker,
)
from podium import Card, ChatWorker, Conductor, Endpoint, FunctionWorker, Plan, Step
from podium.errors import ConfigError
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.workers import FREE, StepInput, Worker


class Lead(ActionHost):
    def tool(self, refund: Refund) -> Worker:
        return as_worker(FunctionTool(refund, description="Refunds an order."), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        tools: Any = [] if refund is None else [refund]
        return as_worker(AssistantAgent("agent", client_of(url), tools=tools, reflect_on_tool_use=True))

    def own(self, refund: Refund, url: str) -> Worker:
        class Acting(AssistantAgent):
            async def on_messages_stream(self, messages: Any, cancellation_token: Any) -> Any:
                refund(1017)
                async for message in super().on_messages_stream(messages, cancellation_token):
                    yield message

        return as_worker(Acting("agent", client_of(url)))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        last: Any = (await ConductorAgent("lead", conductor).run(task="Refund it.")).messages[-1]
        return last.metadata["podium_status"], last.to_text()

    def asking_tool(self, conductor: Conductor) -> Callable[[], Awaitable[str]]:
        bench = StaticWorkbench([AgentTool(ConductorAgent("lead", conductor))])

        async def ask() -> str:
            return (await bench.call_tool("lead", {"task": "Refund it."})).to_text()

        return ask


class FrameworkLead(ActionHost):
    """An agent of Agent Framework, whose tools are no workers of their own."""

    tool = Lead.tool

    def agent(self, refund: Refund | None, url: str) -> Worker:
        tools = [] if refund is None else [FrameworkTool(name="refund", description="Refunds.", func=refund)]
        return framework_worker(Agent(self._client(url), name="agent", tools=tools))

    def own(self, refund: Refund, url: str) -> Worker:
        async def act(context: AgentContext, call_next: Callable[[], Awaitable[None]]) -> None:
            refund(1017)
            await call_next()

        return framework_worker(Agent(self._client(url), name="agent", middleware=[act]))

    def _client(self, url: str) -> FrameworkClient:
        sdk = AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
        return FrameworkClient(model=MODEL, async_client=sdk)

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        response = await FrameworkConductor(conductor).run("Refund it.")
        return response.additional_properties["podium"]["status"], response.text

    def asking_tool(self, conductor: Conductor) -> Callable[[], Awaitable[str]]:
        """Invoke the agent as a tool: of an exception, a model reads only "Function failed."."""
        tool = FrameworkConductor(conductor).as_tool()

        async def ask() -> str:
            (content,) = await tool.invoke(arguments={"task": "Refund it."})
            return str(content.text)

        return ask


def look() -> str:
    """Look."""
    return ""


class Own(AssistantAgent):
    """An agent of the user's own class."""


class Reading(AssistantAgent):
    """An agent of the user's own class, which says that it reads."""

    acts = False


def team(*, acts: bool) -> Conductor:
    return Conductor(FixedPlanner("x"), [FunctionWorker(lambda step: "x", acts=acts)])


def one(*tools: Any, kind: Any = AssistantAgent, client: Any = None) -> Any:
    return kind("one", client or ReplayChatCompletionClient([], model_info=INFO), tools=list(tools) or None)


def framework(*tools: Any, client: Any = None, **options: Any) -> Any:
    return Agent(client or SpeakingClient(saying("x")), name="one", tools=list(tools), **options)


async def passing(context: FunctionInvocationContext, call_next: Any) -> None:
    await call_next()


def guarded() -> FrameworkClient:
    return FrameworkClient(model=MODEL, async_client=AsyncOpenAI(api_key="k"), middleware=[passing])


INFO: Any = {"function_calling": True, "vision": False, "json_output": False, "structured_output": False,
             "family": "unknown"}  # fmt: skip
KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("a tool", True, lambda: FunctionTool(look, description="Looks.")),
    ("an agent without tools", False, one),
    ("an agent with a tool", True, lambda: one(look)),
    ("an agent of a class of its own", True, lambda: one(kind=Own)),
    ("an agent that says that it reads", False, lambda: one(look, kind=Reading)),
    ("an agent with an agent that acts", True, lambda: one(AgentTool(one(look)))),
    ("a model of a team that acts", True, lambda: one(client=ConductorChatCompletionClient(team(acts=True)))),
    ("a group with a tool", True, lambda: RoundRobinGroupChat([one(look)], max_turns=1)),
    ("a person", True, lambda: UserProxyAgent("person")),
]  # fmt: skip
FRAMEWORK: list[tuple[str, bool, Callable[[], Any]]] = [
    ("a client", False, lambda: SpeakingClient(saying("x"))),
    ("an agent whose client has middleware", True, lambda: framework(client=guarded())),
    ("an agent with a tool that reads", False, lambda: framework(
        FrameworkTool(name="look", func=look, additional_properties={"readOnlyHint": True}))),
    ("an agent with middleware", True, lambda: framework(middleware=[passing])),
    ("a client of a team that acts", True, lambda: framework(client=ConductorChatClient(team(acts=True)))),
    ("a workflow with a tool", True, lambda: WorkflowBuilder(start_executor=framework(look)).build()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wrap", "acts", "make"),
    [*((as_worker, *kind[1:]) for kind in KINDS), *((framework_worker, *kind[1:]) for kind in FRAMEWORK)],
    ids=[kind[0] for kind in (*KINDS, *FRAMEWORK)],
)
def test_what_acts(wrap: Any, make: Callable[[], Any], *, acts: bool) -> None:
    """What cannot be seen counts as what may act, unless the user says otherwise."""
    made = make()
    assert wrap(made, name="it").acts == acts
    assert wrap(made, name="it", acts=not acts).acts != acts


@pytest.mark.parametrize("acts", [False, True])
def test_a_team_acts_as_its_pool(*, acts: bool) -> None:
    faces: list[tuple[Any, Any]] = [
        (as_worker, ConductorAgent("lead", team(acts=acts))),
        (as_worker, ConductorChatCompletionClient(team(acts=acts))),
        (framework_worker, FrameworkConductor(team(acts=acts))),
    ]  # fmt: skip
    for wrap, face in faces:
        assert wrap(face).acts == acts
        with pytest.raises(ConfigError, match="where it is created"):
            wrap(face, acts=not acts)


Turns = Callable[[Callable[[], Conductor]], Awaitable[str]]
"""Has two turns with conductors, of which the second has the results of tools; returns the answer."""


async def client_turns(made: Callable[[], Conductor]) -> str:
    tools = [FunctionTool(weather, description="Tells the weather.")]
    asked = UserMessage(content="Refund it.", source="user")
    calls: Any = (await ConductorChatCompletionClient(made()).create([asked], tools=tools)).content
    told = FunctionExecutionResult(content="warm", name="weather", call_id=calls[0].id, is_error=False)
    called = AssistantMessage(content=calls, source="a")
    said = [asked, called, FunctionExecutionResultMessage(content=[told])]
    return str((await ConductorChatCompletionClient(made()).create(said, tools=tools)).content)


async def approved_turns(made: Callable[[], Conductor]) -> str:
    def lead() -> Agent[Any]:
        tools = [framework_function(weather, approval_mode="always_require")]
        return Agent(ConductorChatClient(made()), name="lead", tools=tools)

    session = AgentSession()
    (request,) = (await lead().run("Refund it.", session=session)).user_input_requests
    session = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
    approval = Message("user", [request.to_function_approval_response(True)])  # noqa: FBT003 - the framework's
    return (await lead().run(approval, session=session)).text


@pytest.mark.anyio
@pytest.mark.parametrize("turns", [client_turns, approved_turns])
async def test_another_client_continues_after_tool_calls(turns: Turns) -> None:
    """With a journal: what was done before the calls is not done again."""
    refunds: list[str] = []

    def refund(step: Any) -> str:
        refunds.append(step.subtask)
        return "refunded"

    async with (
        ChatServer(lambda call: calling(call, "weather", text="Let me see.")) as server,
        MemoryJournal() as journal,
    ):
        plan = Plan((Step(0, "Refund order 1017."), Step(1, "Write.", (0,))))

        def made() -> Conductor:
            writer = ChatWorker("writer", endpoint=Endpoint(server.url))
            action = FunctionWorker(refund, card=Card(name="refund"), acts=True)
            return Conductor(FixedPlanner(plan), [action, writer], journal=journal)

        for number in (1, 2):  # the ids of the calls are the same
            assert (await turns(made)).startswith("It is warm")
            assert len(refunds) == number


def refunding(begun: anyio.Event | None = None, *, waits: bool = False) -> FunctionWorker:
    async def refund(step: Any) -> str:
        if begun is not None:
            begun.set()
        if waits:
            await anyio.sleep_forever()
        return "refunded"

    return FunctionWorker(refund, card=Card(name="refund"), acts=True)


@pytest.mark.anyio
@pytest.mark.parametrize(("waits", "told"), [(False, "done"), (True, "not known whether it is done")])
async def test_a_team_that_stops_early_names_the_action(told: str, *, waits: bool) -> None:
    begun = anyio.Event()

    async def write(step: StepInput) -> str:
        await begun.wait()
        return "TERMINATE"

    steps = (Step(0, "Refund order 1017."), Step(1, "Write.", () if waits else (0,)), Step(1, "End.", (0, 1)))
    team = ConductorTeam(
        workers=[refunding(begun, waits=waits), FunctionWorker(write)],
        planner=FixedPlanner(Plan(steps)),
        termination_condition=TextMentionTermination("TERMINATE"),
    )
    stopped = (await team.run(task="Refund it.")).stop_reason
    assert stopped == f"Text 'TERMINATE' mentioned; actions of the run: refund Refund order 1017.: {told}"


class TestActions(ActionsContract):
    @pytest.fixture(params=[Lead, FrameworkLead])
    def host(self, request: pytest.FixtureRequest) -> ActionHost:
        return request.param()
