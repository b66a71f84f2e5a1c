"""Actions in LangChain: which workers act."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware, before_model
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
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph

from langchain_podium import ChatPodium, ConductorRunnable, as_worker
from langchain_podium.graph import conductor_node, create_conductor_agent, to_langgraph
from podium import Card, Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.execution import Retry
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import FREE, Worker


class Model(GenericFakeChatModel):
    """A model for agents."""

    messages: Any = iter(())

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Bind nothing."""
        return self


class Search(BaseRetriever):
    """Finds nothing."""

    def _get_relevant_documents(self, query: str, **options: Any) -> list[Any]:
        return []


MODEL = Model()
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


def _conductor(*, acts: bool) -> Conductor:
    worker = FunctionWorker(lambda step: "done", acts=True) if acts else ScriptedWorker("model", "text")
    return Conductor(FixedPlanner(Plan((Step(0, "Do it."),))), [worker], card=Card(name="team"))


def _around(node: Any) -> Runnable[Any, Any]:
    return StateGraph(MessagesState).add_node("own", node).add_edge(START, "own").compile()


def _exported(*, acts: bool) -> Runnable[Any, Any]:
    return to_langgraph(Plan((Step(0, "Do it."),)), _conductor(acts=acts)).compile()


KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("a model", False, MODEL.with_retry),
    ("a retriever", False, Search),
    ("a tool", True, _tool),
    ("a tool that reads", False, lambda: READING),
    ("an agent without tools", False, lambda: create_agent(MODEL)),
    ("an agent that reads", False, lambda: create_agent(MODEL, [READING])),
    ("an agent that refunds", True, lambda: create_agent(MODEL, [READING, REFUND])),
    ("an agent with middleware of LangChain", False, lambda: create_agent(
        MODEL, [READING], middleware=[SummarizationMiddleware(MODEL, trigger=("messages", 9))])),
    ("an agent with middleware of the user", True, lambda: create_agent(MODEL, middleware=[audit])),
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
    ("a saved plan", False, lambda: _exported(acts=False)),
    ("a saved plan that acts", True, lambda: _exported(acts=True)),
]  # fmt: skip


def _worker(thing: Any, **options: Any) -> Worker:
    is_own = isinstance(thing, ConductorRunnable | ChatPodium)
    name = {} if is_own else {"name": "one"}
    return as_worker(thing, **name, **options)


@pytest.mark.parametrize(("acts", "make"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_what_acts(make: Callable[[], Any], *, acts: bool) -> None:
    """What cannot be seen counts as what may act, unless the user says otherwise."""
    thing = make()
    if not isinstance(thing, ConductorRunnable | ChatPodium) and "question" in getattr(thing, "channels", ()):
        assert _worker(thing, input=lambda step: {"question": step.subtask}).acts == acts
        return
    assert _worker(thing).acts == acts
    if isinstance(thing, ConductorRunnable | ChatPodium):
        with pytest.raises(ConfigError, match="where it is created"):
            _worker(thing, acts=False)
    else:
        assert _worker(thing, acts=not acts).acts != acts


SCHEMA = {"properties": {"order": {"type": "integer"}}, "required": ["order"]}
LOOK_CALL = {"name": "look", "arguments": "{}"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


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
    assert (last.text, shop.refunds) == ("done", [1017])
    told = last.response_metadata["podium"]
    assert told["status"] == ENDS[end][1]
