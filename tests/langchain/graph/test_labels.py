"""Labels in graphs: they stay with the messages of a thread; the runtime context has others."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from core.actors import boss
from graphs.conducted import CONFIG, EXECUTORS
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from typing_extensions import TypedDict

from langchain_podium import as_worker, conductor_node, create_conductor_agent
from langchain_podium.graph.conducted import Executor
from podium import Card, Conductor, Limits, ScriptedWorker
from podium.errors import ConfigError, PlannerError, RunFailed
from podium.policy import Policy, Rule

pytestmark = pytest.mark.anyio

FIND, MAIL = (f'{{"worker": "{name}", "subtask": "x", "access": []}}\n' for name in ("web", "mailer"))
NO_MAIL = Policy(
    labels="secret", rules=[Rule(label, never="write-tools") for label in ("untrusted", "secret")]
)


class Context(TypedDict, total=False):
    """The runtime context of a graph."""

    podium_labels: list[str]
    podium_policy: Any
    podium_limits: Any
    podium_workers: Any


def _conductor(plan: str, policy: Policy | None = NO_MAIL) -> Conductor:
    """Return a conductor as another process has it: it knows no earlier answer."""
    workers = [
        ScriptedWorker(Card(name="web", labels=frozenset({"untrusted"})), "It is 330 m high."),
        ScriptedWorker(Card(name="mailer", labels=frozenset({"write-tools"})), "sent"),
    ]
    return Conductor(boss(plan), workers, policy=policy)


def _in_graph(used: Conductor, executor: Executor, saver: Any = None, **options: Any) -> Any:
    graph = StateGraph(MessagesState, context_schema=Context)
    graph.add_node("ask", conductor_node(used, executor=executor, **options))
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=saver)


def _agent(used: Conductor, executor: Executor, saver: Any = None, **options: Any) -> Any:
    return create_conductor_agent(used, executor=executor, checkpointer=saver, **options)


@pytest.mark.parametrize(("made", "executor"), [(_in_graph, "podium"), (_agent, "langgraph")])
async def test_the_state_carries_labels(made: Callable[..., Any], executor: Executor) -> None:
    """Another process refuses in the next turn what a rule forbids."""
    saver = InMemorySaver()
    first = await made(_conductor(FIND), executor, saver).ainvoke(
        {"messages": [("user", "How high?")]}, CONFIG
    )
    assert first["messages"][-1].response_metadata["podium_labels"] == ["untrusted", "web"]
    with pytest.raises(PlannerError, match="mailer"):
        await made(_conductor(MAIL), executor, saver).ainvoke({"messages": [("user", "Mail it.")]}, CONFIG)


@pytest.mark.parametrize(
    ("executor", "policy", "options", "context"),
    [
        ("podium", None, {"policy": NO_MAIL}, {"podium_labels": ["secret"]}),
        ("langgraph", None, {"labels": ["secret"]}, {"podium_policy": NO_MAIL}),
    ],
)
async def test_labels_and_policy(
    executor: Executor, policy: Policy | None, options: dict[str, Any], context: Context
) -> None:
    graph = _in_graph(_conductor(MAIL, policy), executor, **options)
    with pytest.raises(PlannerError, match="mailer"):
        await graph.ainvoke({"messages": [("user", "Mail it.")]}, context=context)


@EXECUTORS
async def test_a_tenant_has_its_own_workers_and_limits(executor: Executor) -> None:
    mine = json.dumps({"worker": "mine", "subtask": "x", "access": []})
    graph = _in_graph(_conductor(mine, None), executor)
    asked: Any = {"messages": [("user", "How high?")]}
    own = RunnableLambda(lambda _: "It is 300 m high.", name="mine")
    workers = [as_worker(own, acts=False)]
    left = await graph.ainvoke(asked, context={"podium_workers": workers})
    assert left["messages"][-1].content == "It is 300 m high."
    with pytest.raises(PlannerError, match="mine"):
        await graph.ainvoke(asked)
    with pytest.raises((PlannerError, RunFailed), match="calls"):
        await graph.ainvoke(asked, context={"podium_workers": workers, "podium_limits": Limits(calls=1)})


async def test_a_context_with_another_value() -> None:
    """It is refused before the planner is asked; the graph of a node is built for what may happen in it."""
    graph = _in_graph(_conductor(MAIL), "langgraph")
    for name, value in (
        ("podium_policy", "none"),
        ("podium_workers", [RunnableLambda(lambda asked: asked, name="acting")]),
        ("podium_limit", Limits(calls=1)),
    ):
        with pytest.raises(ConfigError, match=name):
            await graph.ainvoke({"messages": [("user", "Mail it.")]}, context={name: value})
