"""Actions in LlamaIndex: its tools and agents as workers, in each of its faces."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from contracts.actions_contract import ActionHost, ActionsContract, Refund
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.tools.calling import acall_tool
from llama_index.core.workflow import StartEvent, StopEvent, Workflow, step
from llama_index.llms.openai_like import OpenAILike
from llamaindex.library import AGENTS
from servers.chat_server import MODEL

from llama_index_podium import ConductorLLM, ConductorQueryEngine, ConductorToolSpec, as_worker
from podium import Conductor, FunctionWorker, Plan, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner
from podium.workers import FREE, Worker

pytestmark = AGENTS


def _model_at(url: str) -> OpenAILike:
    facts: Any = {"is_chat_model": True, "is_function_calling_model": True, "max_retries": 0}
    return OpenAILike(model=MODEL, api_base=url, api_key="k", **facts)


class _Acting(FunctionAgent):
    async def take_step(self, ctx: Any, llm_input: Any, tools: Any, memory: Any) -> Any:
        for each in tools:
            await each.acall(order=1017)
        return await super().take_step(ctx, llm_input, [], memory)


class _Engine(ActionHost):
    def tool(self, refund: Refund) -> Worker:
        return as_worker(FunctionTool.from_defaults(refund), price=FREE)

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        response: Any = await ConductorQueryEngine(conductor).aquery("Refund it.")
        return response.metadata["status"], response.response


class _WithAgents(_Engine):
    def agent(self, refund: Refund | None, url: str) -> Worker:
        tools: Any = [] if refund is None else [refund]
        return as_worker(FunctionAgent(name="agent", description="Refunds.", llm=_model_at(url), tools=tools))

    def own(self, refund: Refund, url: str) -> Worker:
        return as_worker(_Acting(name="agent", description="Refunds.", llm=_model_at(url), tools=[refund]))


class _Model(_Engine):
    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        response: Any = await ConductorLLM(conductor).achat([ChatMessage("Refund it.")])
        return response.raw["podium"]["status"], response.message.content


class _Tool(_Engine):
    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        output = await ConductorToolSpec(conductor).to_tool_list()[0].acall(question="Refund it.")
        return output.raw_output.metadata["status"], output.content

    def asking_tool(self, conductor: Conductor) -> Callable[[], Awaitable[str]]:
        (tool, _) = ConductorToolSpec(conductor).to_tool_list()

        async def ask() -> str:
            return (await acall_tool(tool, {"question": "Refund it."})).content

        return ask


def look() -> str:
    """Look."""
    return ""


class Steps(Workflow):
    """The user's own workflow."""

    @step
    async def act(self, event: StartEvent) -> StopEvent:
        return StopEvent(event.query)


class _Reading(Steps):
    acts = False


class _Engines(CustomQueryEngine):
    inner: Any = None

    def custom_query(self, query_str: str) -> str:
        return query_str


def _team(*, acts: bool) -> Conductor:
    return Conductor(FixedPlanner("x"), [FunctionWorker(lambda step: "x", acts=acts)])


def _agent(*tools: Any, **options: Any) -> FunctionAgent:
    llm = options.pop("llm", MockFunctionCallingLLM())
    return FunctionAgent(name="one", description="One.", llm=llm, tools=list(tools), **options)


KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("an LLM", False, MockFunctionCallingLLM),
    ("a tool", True, lambda: FunctionTool.from_defaults(look)),
    ("an engine around an engine with an agent", True, lambda: _Engines(inner=_Engines(inner=_agent(look)))),
    ("a workflow", True, Steps),
    ("a workflow that says that it reads", False, _Reading),
    ("an agent without tools", False, _agent),
    ("an agent with an engine", False, lambda: _agent(QueryEngineTool.from_defaults(_Engines()))),
    ("an agent with a team", True, lambda: _agent(ConductorToolSpec(_team(acts=True)).to_tool_list()[0])),
    ("an agent whose model is a team that acts", True, lambda: _agent(llm=ConductorLLM(_team(acts=True)))),
    ("agents with a tool", True, lambda: AgentWorkflow(agents=[_agent(look)])),
]  # fmt: skip


@pytest.mark.parametrize(("acts", "make"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_what_acts(make: Callable[[], Any], *, acts: bool) -> None:
    """What cannot be seen counts as what may act, unless the user says otherwise."""
    field = {"input_field": "query"} if isinstance(made := make(), Steps) else {}
    assert as_worker(made, name="one", **field).acts == acts
    assert as_worker(made, name="one", acts=not acts, **field).acts != acts


def test_a_team_acts_as_its_pool() -> None:
    assert as_worker(ConductorLLM(_team(acts=True))).acts
    with pytest.raises(ConfigError, match="where it is created"):
        as_worker(ConductorLLM(_team(acts=True)), acts=False)


@pytest.mark.anyio
@pytest.mark.parametrize("acts", [False, True])
async def test_a_react_agent_repeats_no_action(*, acts: bool) -> None:
    """Each of its thoughts is a run: a conductor that acts refuses it before anything is done."""
    thoughts: list[str] = []

    def think(step: Any) -> str:
        thoughts.append(step.subtask)
        if len(thoughts) > 1:
            return "Thought: I can answer.\nAnswer: Twelve."
        return "Thought: I need the tool.\nAction: look\nAction Input: {}"

    conductor = Conductor(FixedPlanner(Plan((Step(0, "Think."),))), [FunctionWorker(think, acts=acts)])
    running = ReActAgent(tools=[look], llm=ConductorLLM(conductor)).run("How warm is it?")
    if acts:
        with pytest.raises(ConfigError, match="FunctionAgent"):
            await running
        assert thoughts == []
    else:
        assert (str(await running), len(thoughts)) == ("Twelve.", 2)


class TestActions(ActionsContract):
    @pytest.fixture(params=[_WithAgents, _Model, _Tool])
    def host(self, request: pytest.FixtureRequest) -> ActionHost:
        return request.param()
