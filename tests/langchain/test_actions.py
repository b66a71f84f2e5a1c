"""Actions in LangChain: which workers act, and that each face carries out what the accepted plan says."""

import json
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import anyio
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
    before_model,
    dynamic_prompt,
    wrap_model_call,
    wrap_tool_call,
)
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import (
    Runnable,
    RunnableBranch,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
)
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import interrupt
from pydantic import AfterValidator, BaseModel, SecretStr, create_model

from langchain_podium import ChatPodium, ConductorRunnable, as_worker
from langchain_podium.graph import conductor_node, create_conductor_agent
from podium import Card, ChatPlanner, Conductor, FunctionWorker, Limits, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, LimitExceeded, RunFailed, RunWaiting, WorkerFailed
from podium.execution import Retry
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.types import Completion
from podium.workers import FREE, Worker


class Model(GenericFakeChatModel):
    """A model for agents."""

    messages: Any = iter(())

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Bind the tools, which the model does not call."""
        return self.bind(tools=tools, **options)


class Search(BaseRetriever):
    """Finds nothing."""

    def _get_relevant_documents(self, query: str, **options: Any) -> list[Any]:
        return []


MODEL = Model()
LOOK_CALL = {"name": "look", "arguments": "{}"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
PROMPT = ChatPromptTemplate([("human", "{input}")])


def _tool(hints: dict[str, Any] | None = None) -> BaseTool:
    def refund(order: int) -> str:
        """Refund an order."""
        return str(order)

    return StructuredTool.from_function(refund, metadata=hints)


READING, REFUND = _tool({"readOnlyHint": True}), _tool()


@before_model
def audit(state: Any, runtime: Any) -> None:
    """Do what cannot be seen."""


@wrap_model_call
def around_model(request: Any, handler: Any) -> Any:
    """Do what cannot be seen."""
    return handler(request)


@wrap_tool_call
def around_tool(request: Any, handler: Any) -> Any:
    """Do what cannot be seen."""
    return handler(request)


@dynamic_prompt
def prompt(request: Any) -> str:
    """Do what cannot be seen."""
    return "Answer."


class Around(AgentMiddleware):
    """Does what cannot be seen before the model."""

    def __init__(self, code: Callable[[Any], Any] = str) -> None:
        super().__init__()
        self._code = code

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Call the model."""
        self._code(request)
        return await handler(request)


MIDDLEWARE = [
    SummarizationMiddleware(MODEL, trigger=("messages", 9)),
    HumanInTheLoopMiddleware({"look": True}),
    ModelFallbackMiddleware(MODEL),
    ToolRetryMiddleware(),
]


def _react(*parts: Any, **options: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):  # deprecated, and in use
        return create_react_agent(*parts, **options)


def _routed(path: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("own", create_agent(MODEL)).add_edge(START, "own")
    return graph.add_conditional_edges("own", path, [END]).compile()


def _team(*, acts: bool) -> ChatPodium:
    return ChatPodium(conductor=_conductor(acts=acts))


def _conductor(*, acts: bool) -> Conductor:
    worker = FunctionWorker(lambda step: "done", acts=True) if acts else ScriptedWorker("model", "text")
    return Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [worker], card=Card(name="team"))


def _around(node: Any) -> Runnable[Any, Any]:
    return StateGraph(MessagesState).add_node("own", node).add_edge(START, "own").compile()


KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("a model", False, MODEL.with_retry),
    ("a retriever", False, Search),
    ("a tool", True, _tool),
    ("a tool that reads", False, lambda: READING),
    ("an agent without tools", False, lambda: create_agent(MODEL)),
    ("an agent that reads", False, lambda: create_agent(MODEL, [READING])),
    ("an agent that refunds", True, lambda: create_agent(MODEL, [READING, REFUND])),
    ("an agent with middleware of LangChain", False, lambda: create_agent(
        MODEL, [READING], middleware=MIDDLEWARE)),
    ("an agent with middleware of the user", True, lambda: create_agent(MODEL, middleware=[audit])),
    ("middleware around the model", True, lambda: create_agent(MODEL, middleware=[Around()])),
    ("a function around the model", True, lambda: create_agent(MODEL, middleware=[around_model])),
    ("a function around tools", True, lambda: create_agent(MODEL, [READING], middleware=[around_tool])),
    ("a function of the prompt", True, lambda: create_agent(MODEL, middleware=[prompt])),
    ("an agent whose model is a team", False, lambda: create_agent(_team(acts=False), name="clerk")),
    ("an agent whose model is a team that acts", True, lambda: create_agent(_team(acts=True), name="clerk")),
    ("middleware with a team that acts", True, lambda: create_agent(
        MODEL, middleware=[ModelFallbackMiddleware(_team(acts=True))])),
    ("a ReAct agent that reads", False, lambda: _react(MODEL, [READING])),
    ("a ReAct agent whose model is a team that acts", True, lambda: _react(_team(acts=True), [])),
    ("a ReAct agent whose model is a function", True, lambda: _react(lambda state, runtime: MODEL, [])),
    ("a ReAct agent whose prompt is a function", True, lambda: _react(MODEL, [], prompt=lambda state: [])),
    ("a graph with a function at its edge", True, lambda: _routed(lambda state: END)),
    ("a graph with a model at its edge", False, lambda: _routed(MODEL)),
    ("a model whose server searches", False, lambda: MODEL.bind_tools([{"type": "web_search"}])),
    ("a model whose server calls MCP tools", True, lambda: MODEL.bind_tools([{"type": "mcp"}])),
    ("a model whose server executes code", True, lambda: MODEL.bind_tools([{"type": "code_interpreter"}])),
    ("an agent whose server searches", False, lambda: create_agent(MODEL, [{"type": "file_search"}])),
    ("an agent whose server calls MCP tools", True, lambda: create_agent(MODEL, [{"type": "mcp"}])),
    ("an agent around the tool of a team that acts", True, lambda: create_agent(
        MODEL, [ConductorRunnable(_conductor(acts=True)).as_tool()])),
    ("an agent around the tool of a team", False, lambda: create_agent(
        MODEL, [ConductorRunnable(_conductor(acts=False)).as_tool(description="Answers.")])),
    ("a graph around an agent that refunds", True, lambda: _around(create_agent(MODEL, [REFUND]))),
    ("a graph around an agent that reads", False, lambda: _around(create_agent(MODEL, [READING]))),
    ("a graph of the user's functions", True, lambda: _around(lambda state: state)),
    ("a remote graph", True, lambda: RemoteGraph("agent", url="http://127.0.0.1:9")),
    ("a function", True, lambda: RunnableLambda(lambda text: text)),
    ("a chain", False, lambda: {"input": RunnablePassthrough()} | PROMPT | MODEL | StrOutputParser()),
    ("a chain with a function", True, lambda: PROMPT | MODEL | (lambda message: message)),
    ("a chain with an agent that refunds", True, lambda: PROMPT | create_agent(MODEL, [REFUND])),
    ("branches", False, lambda: RunnableBranch((MODEL, MODEL), PROMPT | MODEL)),
    ("parallel parts", True, lambda: RunnableParallel(a=MODEL, b=REFUND)),
    ("a fallback that refunds", True, lambda: (PROMPT | MODEL).with_fallbacks([REFUND])),
    ("a team", False, lambda: ConductorRunnable(_conductor(acts=False))),
    ("a team that acts", True, lambda: ConductorRunnable(_conductor(acts=True))),
    ("a chat model of a team", False, lambda: ChatPodium(conductor=_conductor(acts=False))),
    ("a chat model of a team that acts", True, lambda: ChatPodium(conductor=_conductor(acts=True))),
    ("a chain with a chat model that acts", True, lambda: (
        PROMPT | ChatPodium(conductor=_conductor(acts=True)))),
    ("a graph with a team", False, lambda: _around(conductor_node(_conductor(acts=False)))),
    ("a graph with a team that acts", True, lambda: _around(conductor_node(_conductor(acts=True)))),
    ("a graph with a team of nodes", False, lambda: _around(
        conductor_node(_conductor(acts=False), executor="langgraph"))),
    ("a graph with a team of nodes that acts", True, lambda: _around(
        conductor_node(_conductor(acts=True), executor="langgraph"))),
    ("the graph of a team that acts", True, lambda: create_conductor_agent(_conductor(acts=True))),
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


OWN: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "a function": RunnableLambda,
    "a chain": lambda code: PROMPT | code,
    "a graph": _around,
    "an agent with middleware": lambda code: create_agent(
        MODEL, middleware=[before_model(lambda state, runtime: code(state))]
    ),
    "an agent with code around its model": lambda code: create_agent(MODEL, middleware=[Around(code)]),
    "an agent whose model is a team": lambda code: create_agent(
        ChatPodium(
            conductor=Conductor(
                FixedPlanner(Plan((Step(0, "Do it."),))),
                [FunctionWorker(code, acts=True)],
                retry=Retry(attempts=1),
            )
        )
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("make", OWN.values(), ids=OWN)
async def test_own_code_that_broke_off_is_not_called_again(make: Callable[[Any], Any]) -> None:
    """Nobody knows what it did before its connection was refused."""
    called = 0

    def code(given: Any) -> Any:
        nonlocal called
        called += 1
        raise ConnectionRefusedError("of a mail")

    plan = Plan((Step(0, "Refund it."), Step(1, "Write.")))
    pool = [_worker(make(code)), ScriptedWorker("writer", "text")]
    retry = Retry(attempts=3, first_wait=0.001)
    result = await Conductor(FixedPlanner(plan), pool, retry=retry).run("Refund it.")
    assert (called, result.status, result.actions[-1].end) == (1, "partial", "unknown")


SCHEMA = {"properties": {"order": {"type": "integer"}}, "required": ["order"]}


class Shop:
    """A tool that refunds orders; `raising` is raised at the calls, in turn."""

    def __init__(self, *raising: Exception | None) -> None:
        self.refunds: list[int] = []
        self._raising = list(raising)

    async def _refund(self, order: int) -> str:
        """Refund an order."""
        self.refunds.append(order)
        error = self._raising.pop(0) if self._raising else None
        if error is not None:
            raise error
        return f"refunded {order}"

    @property
    def worker(self) -> Worker:
        """The tool as a worker."""
        tool = StructuredTool.from_function(coroutine=self._refund, name="refund")
        return as_worker(tool, price=FREE)


REFUND_STEP = Step(0, '{"order": 1017}')
ENDS: dict[str, tuple[Exception | None, str]] = {
    "done": (None, "ok"),
    "failed": (ToolException("no such order"), "partial"),
    "unknown": (TimeoutError("late"), "partial"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("nested", [False, True])
async def test_the_turns_after_tool_calls_do_not_repeat_an_action(end: str, *, nested: bool) -> None:
    """However it ended, in any turn, and also if a conductor in the pool carried it out."""
    shop = Shop(ENDS[end][0])
    worker = shop.worker
    if nested:
        inner = Conductor(FixedPlanner(Plan((REFUND_STEP,))), [worker], card=Card(name="team"))
        worker = inner
    turns = iter(["1", "2", None])

    def reply(request: Any) -> Any:
        call = next(turns)
        if call is None:
            return "done"
        return Completion("", tool_calls=({"id": call, "type": "function", "function": LOOK_CALL},))

    writer = ScriptedWorker("writer", reply)
    writer.takes_tools = True
    plan = Plan((REFUND_STEP, Step(1, "Look.")))
    model = ChatPodium(conductor=Conductor(FixedPlanner(plan), [worker, writer], retry=Retry(attempts=1)))
    bound = model.bind_tools([LOOK])
    messages: list[Any] = [HumanMessage("Refund it, then look.")]
    for _ in range(2):
        messages.append(await bound.ainvoke(messages))
        assert isinstance(messages[-1], AIMessage)
        messages.append(ToolMessage("seen", tool_call_id=messages[-1].tool_calls[0]["id"]))
    last = await bound.ainvoke(messages)
    assert (last.text.partition("\n\n(Not complete: ")[0], shop.refunds) == ("done", [1017])
    told = last.response_metadata["podium"]
    assert told["status"] == ENDS[end][1]


RACE: dict[str, tuple[Plan, tuple[str, list[int]]]] = {
    "no step reads it": (Plan((REFUND_STEP, Step(1, "Write."))), ("ok", [1017])),
    "asked for twice": (Plan((REFUND_STEP, REFUND_STEP, Step(1, "Write."))), ("ok", [1017, 1017])),
    "from a gap": (
        Plan(
            (Step(2, "Break."), Step(1, "Draft."), Step(0, '{"order": 1}', (0, 1)), Step(1, "Write.", (1,)))
        ),
        ("partial", []),
    ),
    "after a cut": (
        Plan((Step(3, "Read."), Step(0, '{"order": 1}', (0,)), Step(1, "Write."))),
        ("partial", []),
    ),
}
"""Plans with refunds, how their run ends, and what is refunded."""
Told = tuple[str, list[dict[str, Any]]]
"""The status of a run and its actions, as JSON."""


def _pool(shop: Shop) -> list[Worker]:
    cut = ScriptedWorker("cut", Completion("half", finish_reason="length"))
    return [
        shop.worker,
        ScriptedWorker("writer", "text"),
        ScriptedWorker("broken", WorkerFailed("down")),
        cut,
    ]


async def _by_runnable(conductor: Conductor) -> Told:
    result = await ConductorRunnable(conductor, output="result").ainvoke("Refund it.")
    return result.status, [asdict(action) for action in result.actions]


async def _by_chat_model(conductor: Conductor) -> Told:
    told = (await ChatPodium(conductor=conductor).ainvoke("Refund it.")).response_metadata["podium"]
    return told["status"], told["actions"]


def _by_node(**options: Any) -> Callable[[Conductor], Awaitable[Told]]:
    async def ask(conductor: Conductor) -> Told:
        graph = create_conductor_agent(conductor, **options)
        config: Any = {"configurable": {"thread_id": "1"}}
        state = await graph.ainvoke({"messages": [("user", "Refund it.")]}, config)
        return state["podium"]["status"], state["podium"]["actions"]

    return ask


FACES: dict[str, Callable[[Conductor], Awaitable[Told]]] = {
    "runnable": _by_runnable,
    "chat model": _by_chat_model,
    "node": _by_node(),
    "node with a checkpointer": _by_node(checkpointer=InMemorySaver()),
    "langgraph": _by_node(executor="langgraph"),
    "langgraph with a checkpointer": _by_node(executor="langgraph", checkpointer=InMemorySaver()),
}


@pytest.mark.anyio
@pytest.mark.parametrize("ask", FACES.values(), ids=FACES)
class TestFaces:
    """Of LangChain: each carries out what the accepted plan says, and tells what was done."""

    @pytest.mark.parametrize(("plan", "end"), RACE.values(), ids=RACE)
    async def test_the_accepted_plan(self, ask: Any, plan: Plan, end: tuple[str, list[int]]) -> None:
        """Each action once for each asking, and none from a gap."""
        shop = Shop()
        status, actions = await ask(Conductor(FixedPlanner(plan), _pool(shop), retry=Retry(attempts=1)))
        assert (status, shop.refunds) == end
        assert [(action["worker"], action["end"]) for action in actions] == [("refund", "done")] * len(end[1])

    async def test_a_plan_that_is_repaired(self, ask: Any) -> None:
        """The first text asks for it, too."""
        shop = Shop()
        first = write_plan(Plan((REFUND_STEP, Step(1, "Write."))), "rows")
        broken = first + '{"worker": 9, "subtask": "x", "access": []}\n'
        replies = iter([broken, first])
        planner = ChatPlanner(ScriptedWorker("boss", lambda request: next(replies), piece=8))
        status, actions = await ask(Conductor(planner, _pool(shop)))
        assert (status, shop.refunds, len(actions)) == ("ok", [1017], 1)

    async def test_errors_tell_what_was_done(self, ask: Any) -> None:
        """A run without an answer raises."""
        shop = Shop()
        plan = Plan((REFUND_STEP, Step(2, "Break.", (0,))))
        with pytest.raises(RunFailed) as caught:
            await ask(Conductor(FixedPlanner(plan), _pool(shop), retry=Retry(attempts=1)))
        assert [(action.worker, action.end) for action in caught.value.actions] == [("refund", "done")]


@pytest.mark.anyio
@pytest.mark.parametrize("ask", [_by_runnable, _by_chat_model], ids=["runnable", "chat model"])
async def test_an_action_that_waits(ask: Any) -> None:
    """The chat model raises, the Runnable returns the result that waits; a decision carries it out."""
    shop, journal = Shop(), MemoryJournal()
    plan = Plan((Step(1, "Read."), REFUND_STEP, Step(1, "Write.", (0, 1))))
    policy = Policy(ask="actions", approve="later")
    conductor = Conductor(FixedPlanner(plan), _pool(shop), journal=journal, policy=policy)
    if ask is _by_runnable:
        assert await ask(conductor) == ("waiting", [])
    else:
        with pytest.raises(RunWaiting, match="step 1 waits for approval: refund"):
            await ask(conductor)
    assert shop.refunds == []
    async with journal:
        (run,) = await journal.runs()
    await conductor.decide(run.run_id, approved=True, action=1)
    assert ((await conductor.resume(run.run_id)).status, shop.refunds) == ("ok", [1017])


@pytest.mark.anyio
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("latency", "end"), [(0, "done"), (30, "unknown")])
async def test_a_timeout_of_a_chat_model_tells_what_was_done(
    latency: float, end: str, *, nested: bool, is_streamed: bool
) -> None:
    """Also in a conductor of the pool, and also of the action that it stops."""
    refunds = list[str]()

    async def refund(step: Any) -> str:
        refunds.append(step.subtask)
        await anyio.sleep(latency)
        return "refunded"

    worker: Worker = FunctionWorker(refund, acts=True)
    if nested:
        worker = Conductor(FixedPlanner(Plan((Step(0, "Refund it."),))), [worker], card=Card(name="team"))
    pool = [worker, ScriptedWorker("writer", "late", latency=30)]
    plan = Plan((Step(0, "Refund it."), Step(1, "Write.", (0,))))
    model = ChatPodium(conductor=Conductor(FixedPlanner(plan), pool), timeout=0.3)
    with pytest.raises(LimitExceeded) as caught:
        _ = (
            [piece async for piece in model.astream("Refund it.")]
            if is_streamed
            else await model.ainvoke("x")
        )
    assert refunds == ["Refund it."]
    assert {(action.worker, action.end) for action in caught.value.actions} >= {("refund", end)}


@pytest.mark.anyio
@pytest.mark.parametrize("is_sync", [False, True])
async def test_an_interrupt_that_nobody_can_answer_tells_what_was_done(*, is_sync: bool) -> None:
    """The graph has no checkpointer."""
    shop = Shop()

    asking = FunctionWorker(lambda _: str(interrupt("Write to her?")), card=Card(name="one"))
    plan = Plan((REFUND_STEP, Step(1, "Ask.", (0,))))
    graph = create_conductor_agent(Conductor(FixedPlanner(plan), [shop.worker, asking]))
    given: Any = {"messages": [("user", "Refund it.")]}
    with pytest.raises(ConfigError, match="no checkpointer") as caught:
        _ = graph.invoke(given) if is_sync else await graph.ainvoke(given)
    ends = [(action.worker, action.end) for action in caught.value.actions]
    assert ends == [("refund", "done")]
    assert shop.refunds == [1017]


class Colour(Enum):
    """A value with a name."""

    RED = "red"


class Line(BaseModel):
    """A part of an order."""

    price: Decimal
    note: str = "none"


Mail = Annotated[str, AfterValidator(lambda text: text.strip().lower())]
ID = "12345678-1234-5678-1234-567812345678"
ARGUMENTS: list[tuple[Any, Any, Any, bool]] = [
    (Decimal, "5.00", 5, True),
    (Decimal, "0.10", "0.1", True),
    (Decimal, "5.00", "5.01", False),
    (Decimal, "1.00000000000000000000000000000000001", "1", False),
    (datetime, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", True),
    (datetime, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00", False),
    (date, "2026-01-01", "2026-01-01T00:00:00", True),
    (UUID, ID, ID.replace("-", ""), True),
    (set[int], [1, 2], [2, 1], True),
    (list[int], [1, 2], [2, 1], False),
    (list[set[str]], [["a", "b"]], [["b", "a"]], True),
    (Line, {"price": "5"}, {"note": "none", "price": "5.0"}, True),
    (Mail, " Ann@x.org", "ann@x.org", True),
    (Colour, "red", "red", True),
    (float, 100.0, 1e2, True),
    (bytes, "a", "b", False),
    (SecretStr, "a", "b", False),
]
"""The type of an argument, two of its values, and whether they are the same action."""


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "first", "second", "is_equal"), ARGUMENTS)
async def test_arguments_are_equal_after_validation(
    kind: Any, first: Any, second: Any, *, is_equal: bool
) -> None:
    """With the schema of the tool itself."""
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
    conductor = Conductor(
        planner, [tool, writer], limits=Limits(rounds=2), accept=lambda query, answer: answer == "yes"
    )
    await conductor.run("Pay.")
    assert len(paid) == (1 if is_equal else 2)
