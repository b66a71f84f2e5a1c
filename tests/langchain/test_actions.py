"""Actions in LangChain: which workers act, and that each face carries out what the accepted plan says."""

import json
import warnings
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import anyio
import pytest
from contracts.actions_contract import ONCE, REFUND, ActionHost, ActionsContract, Refund, Shop, pool
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
    before_model,
    dynamic_prompt,
)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableBranch, RunnableLambda, RunnablePassthrough
from langchain_core.tools import BaseTool, StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.pregel.remote import RemoteGraph
from pydantic import AfterValidator, BaseModel, create_model

from langchain_podium import ChatPodium, ConductorRunnable, as_worker, conductor_node, create_conductor_agent
from podium import Card, ChatPlanner, Conductor, FunctionWorker, Limits, Plan, Retry, ScriptedWorker, Step
from podium.errors import ConfigError, LimitExceeded, RunWaiting
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import FREE, Worker

pytestmark = pytest.mark.anyio


class _Model(GenericFakeChatModel):
    messages: Any = iter(())

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self.bind(tools=tools, **options)


class _Search(BaseRetriever):
    def _get_relevant_documents(self, query: str, **options: Any) -> list[Any]:
        return []


MODEL = _Model()
PROMPT = ChatPromptTemplate([("human", "{input}")])


def _tool(hints: dict[str, Any] | None = None) -> BaseTool:
    def refund(order: int) -> str:
        """Refund an order."""
        return str(order)

    return StructuredTool.from_function(refund, metadata=hints)


READING, REFUNDING = _tool({"readOnlyHint": True}), _tool()


@before_model
def _audit(state: Any, runtime: Any) -> None:
    """Do what cannot be seen."""


@dynamic_prompt
def _prompt(request: Any) -> str:
    return "Answer."


class _Around(AgentMiddleware):
    def __init__(self, code: Callable[[Any], Any] = str) -> None:
        super().__init__()
        self._code = code

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self._code(request)
        return await handler(request)


MIDDLEWARE = [
    SummarizationMiddleware(MODEL, trigger=("messages", 9)),
    HumanInTheLoopMiddleware({"look": True}),
    ModelFallbackMiddleware(MODEL),
    ToolRetryMiddleware(),
]  # fmt: skip


def _react(*parts: Any, **options: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):  # deprecated, and in use
        return create_react_agent(*parts, **options)


def _routed(path: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("own", create_agent(MODEL)).add_edge(START, "own")
    return graph.add_conditional_edges("own", path, [END]).compile()


def _team() -> ChatPodium:
    return ChatPodium(conductor=_conductor())


def _conductor() -> Conductor:
    worker = FunctionWorker(lambda step: "done", acts=True)
    return Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [worker], card=Card(name="team"))


def _around(node: Any) -> Runnable[Any, Any]:
    return StateGraph(MessagesState).add_node("own", node).add_edge(START, "own").compile()


KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("a model", False, MODEL.with_retry),
    ("a retriever", False, _Search),
    ("a tool", True, _tool),
    ("a tool that reads", False, lambda: READING),
    ("an agent without tools", False, lambda: create_agent(MODEL)),
    ("an agent that refunds", True, lambda: create_agent(MODEL, [READING, REFUNDING])),
    ("an agent with known middleware", False, lambda: create_agent(MODEL, [READING], middleware=MIDDLEWARE)),
    ("an agent with middleware of the user", True, lambda: create_agent(MODEL, middleware=[_audit])),
    ("middleware around the model", True, lambda: create_agent(MODEL, middleware=[_Around()])),
    ("a function of the prompt", True, lambda: create_agent(MODEL, middleware=[_prompt])),
    ("middleware with a team that acts", True, lambda: create_agent(
        MODEL, middleware=[ModelFallbackMiddleware(_team())])),
    ("a ReAct agent whose model is a function", True, lambda: _react(lambda state, runtime: MODEL, [])),
    ("a graph with a function at its edge", True, lambda: _routed(lambda state: END)),
    ("a model whose server searches", False, lambda: MODEL.bind_tools([{"type": "web_search"}])),
    ("a model whose server calls MCP tools", True, lambda: MODEL.bind_tools([{"type": "mcp"}])),
    ("an agent around the tool of a team that acts", True, lambda: create_agent(
        MODEL, [ConductorRunnable(_conductor()).as_tool()])),
    ("a remote graph", True, lambda: RemoteGraph("agent", url="http://127.0.0.1:9")),
    ("a function", True, lambda: RunnableLambda(lambda text: text)),
    ("a chain", False, lambda: {"input": RunnablePassthrough()} | PROMPT | MODEL | StrOutputParser()),
    ("branches", False, lambda: RunnableBranch((MODEL, MODEL), PROMPT | MODEL)),
    ("a fallback that refunds", True, lambda: (PROMPT | MODEL).with_fallbacks([REFUNDING])),
    ("a chat model of a team that acts", True, _team),
    ("a team of nodes that acts", True, lambda: _around(conductor_node(_conductor(), executor="langgraph"))),
    ("the graph of a team that acts", True, lambda: create_conductor_agent(_conductor())),
]  # fmt: skip


def _worker(thing: Any, **options: Any) -> Worker:
    is_own = isinstance(thing, ConductorRunnable | ChatPodium)
    name = {} if is_own else {"name": "one"}
    return as_worker(thing, **name, **options)


@pytest.mark.parametrize(("acts", "make"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_what_acts(make: Callable[[], Any], *, acts: bool) -> None:
    """What cannot be seen counts as what may act, unless the user says otherwise."""
    thing = make()
    assert _worker(thing).acts == acts
    if isinstance(thing, ConductorRunnable | ChatPodium):
        with pytest.raises(ConfigError, match="where it is created"):
            _worker(thing, acts=False)
    else:
        assert _worker(thing, acts=not acts).acts != acts


def _asking(code: Callable[[Any], Any]) -> Any:
    worker = FunctionWorker(code, acts=True)
    team = Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [worker], retry=ONCE)
    return create_agent(ChatPodium(conductor=team))


OWN: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "a chain": lambda code: PROMPT | code,
    "an agent with code around its model": lambda code: create_agent(MODEL, middleware=[_Around(code)]),
    "an agent whose model is a team": _asking,
}


@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
async def test_own_code_that_broke_off_is_not_called_again(make: Callable[[Any], Any]) -> None:
    called = 0

    def code(given: Any) -> Any:
        nonlocal called
        called += 1
        raise ConnectionRefusedError("of a mail")

    plan = Plan((Step(0, "Refund it."), Step(1, "Write.")))
    workers = [_worker(make(code)), ScriptedWorker("writer", "text")]
    retry = Retry(attempts=3, first_wait=0.001)
    result = await Conductor(FixedPlanner(plan), workers, retry=retry).run("Refund it.")
    assert (called, result.status, result.actions[-1].end) == (1, "partial", "unknown")


class _ByRunnable(ActionHost):
    def tool(self, refund: Refund) -> Worker:
        return as_worker(StructuredTool.from_function(refund), price=FREE)

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        result: Any = await ConductorRunnable(conductor, output="result").ainvoke("Refund it.")
        return result.status, result.answer


class _WithAgents(_ByRunnable):
    def agent(self, refund: Refund | None, url: str) -> Worker:
        tools = [] if refund is None else [StructuredTool.from_function(refund)]
        return as_worker(create_agent(_model_at(url), tools), name="agent")

    def own(self, refund: Refund, url: str) -> Worker:
        return as_worker(RunnableLambda(lambda text: refund(1017)) | _model_at(url), name="own")


class _ByChatModel(_ByRunnable):
    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        message = await ChatPodium(conductor=conductor).ainvoke("Refund it.")
        return message.response_metadata["podium"]["status"], message.text


class _ByNodes(_ByRunnable):
    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        graph = create_conductor_agent(conductor, executor="langgraph", checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "1"}}
        state = await graph.ainvoke({"messages": "Refund it."}, config)
        return state["podium"]["status"], state["messages"][-1].text


def _model_at(url: str) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0)


class TestActions(ActionsContract):
    @pytest.fixture(params=[_WithAgents, _ByChatModel, _ByNodes])
    def host(self, request: pytest.FixtureRequest) -> ActionHost:
        return request.param()


async def test_an_action_that_waits() -> None:
    """The chat model raises, the Runnable returns the result that waits; a decision carries it out."""
    shop, journal = Shop(), MemoryJournal()
    tool = as_worker(StructuredTool.from_function(shop.refund), price=FREE)
    plan = Plan((Step(1, "Read."), REFUND, Step(1, "Write.", (0, 1))))
    policy = Policy(ask="actions", approve="later")
    conductor = Conductor(FixedPlanner(plan), pool(tool), journal=journal, policy=policy)
    with pytest.raises(RunWaiting, match="step 1 waits for approval: refund"):
        await ChatPodium(conductor=conductor).ainvoke("Refund it.")
    result: Any = await ConductorRunnable(conductor, output="result").ainvoke("Refund it.")
    assert (result.status, shop.refunds) == ("waiting", [])
    await conductor.decide(result.run_id, approved=True, action=1)
    assert ((await conductor.resume(result.run_id)).status, shop.refunds) == ("ok", [1017])


@pytest.mark.parametrize(("latency", "end"), [(0, "done"), (30, "unknown")])
async def test_a_timeout_of_a_chat_model_tells_what_was_done(latency: float, end: str) -> None:
    """Also in a conductor of the pool, and also of the action that it stops."""
    refunds = list[str]()

    async def refund(step: Any) -> str:
        refunds.append(step.subtask)
        await anyio.sleep(latency)
        return "refunded"

    one = FixedPlanner(Plan((Step(0, "Refund it."),)))
    team = Conductor(one, [FunctionWorker(refund, acts=True)], card=Card(name="team"))
    workers = [team, ScriptedWorker("writer", "late", latency=30)]
    plan = Plan((Step(0, "Refund it."), Step(1, "Write.", (0,))))
    model = ChatPodium(conductor=Conductor(FixedPlanner(plan), workers), timeout=0.3)
    with pytest.raises(LimitExceeded) as caught:
        await (model.ainvoke("x") if end == "done" else anext(model.astream("x")))
    assert refunds == ["Refund it."]
    assert {(action.worker, action.end) for action in caught.value.actions} >= {("refund", end)}


class Line(BaseModel):
    price: Decimal
    note: str = "none"


Mail = Annotated[str, AfterValidator(lambda text: text.strip().lower())]
ARGUMENTS: list[tuple[Any, Any, Any, bool]] = [
    (Decimal, "5.00", 5, True),
    (Decimal, "5.00", "5.01", False),
    (datetime, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", True),
    (list[set[str]], [["a", "b"]], [["b", "a"]], True),
    (Line, {"price": "5"}, {"note": "none", "price": "5.0"}, True),
    (Mail, " Ann@x.org", "ann@x.org", True),
]  # fmt: skip
"""The type of an argument, two of its values, and whether they are the same action."""


@pytest.mark.parametrize(("kind", "first", "second", "is_same"), ARGUMENTS)
async def test_arguments_are_equal_after_validation(kind: Any, first: Any, second: Any, is_same: Any) -> None:
    paid = list[Any]()

    def pay(value: Any, currency: str = "EUR") -> str:
        """Pay."""
        paid.append(value)
        return "paid"

    schema = create_model("Arguments", value=(kind, ...), currency=(str, "EUR"))
    tool = as_worker(StructuredTool.from_function(pay, args_schema=schema), price=FREE)
    asks = [json.dumps({"value": first}), json.dumps({"currency": "EUR", "value": second})]
    plans = (write_plan(Plan((Step(0, ask), Step(1, "Write.", (0,)))), "rows") for ask in asks)
    planner = ChatPlanner(ScriptedWorker("boss", lambda request: next(plans)))
    answers = iter(["no", "yes"])
    writer = ScriptedWorker("writer", lambda request: next(answers))
    options: Any = {"limits": Limits(rounds=2), "accept": lambda query, answer: answer == "yes"}
    await Conductor(planner, [tool, writer], **options).run("Pay.")
    assert len(paid) == (1 if is_same else 2)
