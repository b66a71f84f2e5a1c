"""Labels in graphs: they stay with the messages of a thread; the runtime context has others."""

from collections.abc import Callable
from typing import Any

import pytest
from core.actors import boss
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from langchain_podium import ChatPodium, ConductorRunnable, conductor_node, create_conductor_agent
from langchain_podium.graph.conductor_nodes import Executor
from podium import Card, Conductor, ScriptedWorker
from podium.errors import ConfigError, PlannerError
from podium.policy import Policy, Rule

pytestmark = pytest.mark.anyio

CONFIG: Any = {"configurable": {"thread_id": "1"}}
FIND, MAIL = (f'{{"worker": "{name}", "subtask": "x", "access": []}}\n' for name in ("web", "mailer"))
NO_MAIL = Policy(
    labels="secret", rules=[Rule(label, never="write-tools") for label in ("untrusted", "secret")]
)
EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])


class Context(TypedDict, total=False):
    """The runtime context of a graph."""

    podium_labels: list[str]
    podium_policy: Any


def conductor(plan: str, policy: Policy | None = NO_MAIL) -> Conductor:
    """Return a conductor as another process has it: it knows no earlier answer."""
    workers = [
        ScriptedWorker(Card(name="web", labels=frozenset({"untrusted"})), "It is 330 m high."),
        ScriptedWorker(Card(name="mailer", labels=frozenset({"write-tools"})), "sent"),
    ]
    return Conductor(boss(plan), workers, policy=policy)


def in_graph(used: Conductor, executor: Executor, saver: Any = None, **options: Any) -> Any:
    """Return a graph with the conductor as a node."""
    graph = StateGraph(MessagesState, context_schema=Context)
    graph.add_node("ask", conductor_node(used, executor=executor, **options))
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=saver)


def agent(used: Conductor, executor: Executor, saver: Any = None, **options: Any) -> Any:
    """Return a graph of the conductor alone."""
    return create_conductor_agent(used, executor=executor, checkpointer=saver, **options)


@EXECUTORS
@pytest.mark.parametrize("made", [in_graph, agent])
async def test_the_state_carries_labels(made: Callable[..., Any], executor: Executor) -> None:
    """Another process refuses in the next turn what a rule forbids."""
    saver = InMemorySaver()
    first = await made(conductor(FIND), executor, saver).ainvoke(
        {"messages": [("user", "How high?")]}, CONFIG
    )
    assert first["messages"][-1].response_metadata["podium_labels"] == ["untrusted", "web"]
    with pytest.raises(PlannerError, match="mailer"):
        await made(conductor(MAIL), executor, saver).ainvoke({"messages": [("user", "Mail it.")]}, CONFIG)


async def test_a_chat_model_carries_labels() -> None:
    """In the metadata of its message, whole or streamed."""
    asked = HumanMessage("How high?")
    model = ChatPodium(conductor=conductor(FIND))
    whole = await model.ainvoke([asked])
    streamed = [chunk async for chunk in model.astream([asked])]
    joined = streamed[0]
    for chunk in streamed[1:]:
        joined += chunk
    for said in (whole, AIMessage(joined.text, response_metadata=joined.response_metadata)):
        assert said.response_metadata["podium"]["labels"] == ["untrusted", "web"]
        with pytest.raises(PlannerError, match="mailer"):
            await ChatPodium(conductor=conductor(MAIL)).ainvoke([asked, said, HumanMessage("Mail it.")])
        with pytest.raises(PlannerError, match="mailer"):
            await ConductorRunnable(conductor(MAIL)).ainvoke([asked, said, HumanMessage("Mail it.")])


@EXECUTORS
@pytest.mark.parametrize(
    ("policy", "options", "context"),
    [
        (NO_MAIL, {"labels": ["secret"]}, {}),
        (NO_MAIL, {}, {"podium_labels": ["secret"]}),
        (None, {"policy": NO_MAIL}, {"podium_labels": ["secret"]}),
        (None, {"labels": ["secret"]}, {"podium_policy": NO_MAIL}),
        (None, {}, {"podium_policy": Policy(denied="mailer")}),
    ],
)
async def test_labels_and_policy(
    executor: Executor, policy: Policy | None, options: dict[str, Any], context: Context
) -> None:
    """From the node, and from the runtime context of the call."""
    graph = in_graph(conductor(MAIL, policy), executor, **options)
    with pytest.raises(PlannerError, match="mailer"):
        await graph.ainvoke({"messages": [("user", "Mail it.")]}, context=context)


async def test_a_context_without_a_policy() -> None:
    """It is refused, as data from outside could be meant."""
    graph = in_graph(conductor(MAIL), "podium")
    with pytest.raises(ConfigError, match="podium_policy"):
        await graph.ainvoke({"messages": [("user", "Mail it.")]}, context={"podium_policy": "none"})
