"""A complete graph for a conversation with a conductor."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from langchain_podium.graph.conducted import Conducted, Executor, Partial
from langchain_podium.graph.graph_node import Data
from langchain_podium.graph.node import ConductorNode, made_conductor
from langchain_podium.graph.state import VIEW, schema
from langchain_podium.graph.state_keys import STRUCTURED, StateKeys
from langchain_podium.response_format import ResponseFormat
from podium.budget import Limits
from podium.conductor import Conductor
from podium.planners import Planner
from podium.policy import Policy
from podium.workers import Worker


def create_conductor_agent(  # noqa: PLR0913 - options of the graph with defaults
    conductor: Conductor | None = None,
    *,
    planner: Planner | Runnable[Any, Any] | None = None,
    workers: Sequence[Runnable[Any, Any] | Worker] = (),
    executor: Executor = "podium",
    partial: Partial = "return",
    show_steps: bool = False,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    name: str = "conductor",
    response_format: dict[str, Any] | type | None = None,
    labels: Iterable[str] = (),
    policy: Policy | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return a graph that answers a conversation.

    Its state has `messages`, and under `podium` the latest run. With a checkpointer it remembers each
    thread's conversation, by `thread_id`.

    Args:
        conductor: the conductor; or give its parts, `planner` and `workers`.
        planner: the planner, or a chat model.
        workers: all objects that `as_worker` accepts.
        executor: how steps are started, as in `conductor_node`.
        partial: whether an incomplete answer is returned or raised, as in `conductor_node`.
        show_steps: whether steps are shown in the graph's streams, as in `conductor_node`.
        checkpointer: stores threads; `None` stores none.
        store: the result of `get_store()` in LangGraph workers; `None` gives them none.
        name: the graph's name inside another graph, and the name on its messages.
        response_format: the schema of the answer, as in `conductor_node`: the state has the answer under
            `structured_response`, and the last message has it as JSON.
        labels: labels of each question, as in `conductor_node`.
        policy: applies in addition to the conductor's policy, as in `conductor_node`.
        limits: the limits of each run, as in `conductor_node`.
        options: further options of `Conductor`, and `workflows`, if only its parts are given;
            `fallback_planner` may be a chat model.

    Raises:
        ConfigError: there is neither a conductor nor a planner, or there are both.
        TypeError: an option is unknown.
    """
    own = made_conductor(conductor, planner, workers, options, face="create_conductor_agent")
    conducted = Conducted(
        own=own.bind(labels=labels, policy=policy),
        input="messages",
        output="messages",
        executor=executor,
        partial=partial,
        show_steps=show_steps,
        limits=limits,
        response_format=None if response_format is None else ResponseFormat(response_format),
        name=name,
    )
    keys = StateKeys(output="messages", structured=response_format is not None, name=name)
    messages: Any = Annotated[list[AnyMessage], add_messages]
    shown = {"messages": messages, VIEW: Data, **({} if response_format is None else {STRUCTURED: Any})}
    graph = StateGraph(schema(shown), input_schema=schema({"messages": messages}))
    graph.add_node("conductor", ConductorNode(conducted, keys))
    graph.add_edge(START, "conductor")
    return graph.compile(checkpointer=checkpointer, store=store, name=name)
