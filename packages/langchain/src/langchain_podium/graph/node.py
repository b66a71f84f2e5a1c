"""A conductor as a node of the user's graph."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langchain_podium.graph.around import inside
from langchain_podium.graph.conductor_nodes import ConductorNodes, Executor, Partial
from langchain_podium.graph.graph_node import Data, Node, State
from langchain_podium.graph.state import RECORD, VIEW, schema
from langchain_podium.graph.state_keys import STRUCTURED, StateKeys
from langchain_podium.graph.writes import UPDATES, written
from langchain_podium.planner import as_planner
from langchain_podium.response_format import ResponseFormat
from langchain_podium.workers import as_worker
from podium.budget import Limits
from podium.conductor import CARD, Conductor
from podium.hosts.faces import conductor_of
from podium.planners import Planner
from podium.policy import Policy
from podium.workers import Worker


def conductor_node(  # noqa: PLR0913 - options of the node with defaults
    conductor: Conductor | None = None,
    *,
    planner: Planner | Runnable[Any, Any] | None = None,
    workers: Sequence[Runnable[Any, Any] | Worker] = (),
    input: str = "messages",  # noqa: A002 - the usual name
    output: str | None = None,
    context: Mapping[str, str] | None = None,
    writes: Mapping[str, str] | None = None,
    response_format: dict[str, Any] | type | None = None,
    executor: Executor = "podium",
    partial: Partial = "return",
    show_steps: bool = False,
    labels: Iterable[str] = (),
    policy: Policy | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> Runnable[Any, Any]:
    """Return a node that answers the question in its input with a run of the conductor.

    Add it to a graph with `graph.add_node("conductor", conductor_node(conductor))`. If the graph's state
    declares a key `podium` (a dict), the node writes the run there: its id, status, plan and outcomes, and a
    drawing of the plan (mermaid). If the key has a reducer that adds lists, the run is appended to the list.
    Nodes that run in parallel, or that `Send` calls, need such a reducer.

    Args:
        conductor: the conductor; or give its parts, `planner` and `workers`.
        planner: the planner, or a chat model.
        workers: all objects that `as_worker` accepts.
        input: the state key of the question: text, or messages.
        output: the state key of the answer: `messages` gets a message, other keys get text. `None` means
            `messages` if `input` is `messages`, otherwise `answer`.
        context: parts of the state for single steps, by name: `{"contract": "contract_text"}`. A worker is
            shown the parts that its subtask names, as in `{{contract}}`; the planner is shown names and
            lengths. A list becomes `doc_1`, `doc_2` and so on. `None` means no parts.
        writes: keys of the state that get fields of typed outputs: of the answer, which needs
            `response_format`, as in `{"sum": "total"}`, or of a worker whose card has `returns`, as in
            `{"sum": "clerk.total"}`. A key that is declared as a list gets the values of all executions,
            another key the last one. `None` writes none.
        response_format: the schema of the answer: a Pydantic class, a `TypedDict` or a JSON schema with a
            `title`. It is offered to the worker of the plan's last step as a tool that it must call. The
            state's key `structured_response` gets the parsed answer, and `output` gets it as JSON. An answer
            that does not fit raises `RunFailed`. `None` means text.
        executor: `podium` starts each step as soon as its inputs exist. `langgraph` builds a graph from the
            plan: each step is a node, which is checkpointed and may call `interrupt()`. A step starts when
            all steps of the previous superstep have ended.
        partial: whether an incomplete answer, such as after a failed last step, is returned, or raised as
            `RunFailed`; `ainvoke(None, config)` then retries the failed steps.
        show_steps: whether the texts of planners and workers are messages in the graph's streams, too, and
            their pieces are events of the custom stream; otherwise only the answer is a message. The metadata
            of each has `podium_role`: `planner`, `worker` or `answer`.
        labels: labels of each question; `podium_labels` of the graph's runtime context adds others.
        policy: applies in addition to the conductor's policy, as does `podium_policy` of the runtime context.
            There, `podium_limits` are the limits of the call, and `podium_workers` are further workers of it.
            What waits for approval (`Policy(approve="later")`: plans, or with `ask="actions"` each action)
            waits at an interrupt, which requires a checkpointer.
        limits: the limits of each run; `None` means those of the conductor.
        options: further options of `Conductor`, and `workflows`, if only its parts are given.

    Raises:
        ConfigError: there is neither a conductor nor a planner, or there are both; or `executor`, `partial`
            or `response_format` is invalid, or `writes` names a field that does not exist. When the node is
            called: the graph's state lacks the key `output`, a key of `writes`, or `structured_response` if
            there is a `response_format`.
        TypeError: an option is unknown.
    """
    own = made_conductor(conductor, planner, workers, options, face="conductor_node")
    output = output or (input if input == "messages" else "answer")
    nodes = ConductorNodes(
        own=own.bind(labels=labels, policy=policy),
        input=input,
        output=output,
        executor=executor,
        partial=partial,
        show_steps=show_steps,
        context=context or {},
        response_format=None if response_format is None else ResponseFormat(response_format),
        writes=writes or {},
        name=own.card.name,
        limits=limits,
    )
    state_keys = StateKeys(
        output=output,
        structured=response_format is not None,
        name=nodes.name,
        writes=writes or (),
    )
    if executor == "podium" and not nodes.waits:
        nodes.is_inner = False

        async def conduct(state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
            state_keys.check(config)
            return state_keys.written(await nodes.conduct(state, config, is_sync=is_sync), config)

        return _OuterNode("conduct", conduct, acts=own.acts)
    asked = dict.fromkeys((input, *nodes.context.values()), Any)
    form = {} if response_format is None else {STRUCTURED: Any}
    graph = StateGraph(
        schema({**asked, output: Any, VIEW: Data, RECORD: list[str], UPDATES: Any, **form}),
        input_schema=schema(asked),
        output_schema=schema({output: Any, VIEW: Data, UPDATES: Any, **form}),
    )
    draw(graph, nodes)

    return _GraphNode(graph.compile(name="conductor"), state_keys, acts=own.acts)


def made_conductor(
    conductor: Conductor | None,
    planner: object,
    workers: Sequence[Any],
    options: Mapping[str, Any],
    face: str,
) -> Conductor:
    """Return the given conductor, or one of its parts, whose runs the graph stores."""
    return conductor_of(
        conductor,
        planner,
        workers,
        options,
        card=CARD,
        as_worker=as_worker,
        as_planner=as_planner,
        face=face,
        stores=True,
    )


class _OuterNode(Node):
    """A node of the user's graph: workers read its state, and the run writes to it."""

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the node from sync code."""
        settled = ensure_config(config)
        with inside(input, settled):
            return written(super().invoke(input, settled), settled)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the node."""
        settled = ensure_config(config)
        with inside(input, settled):
            return written(await super().ainvoke(input, settled), settled)


class _GraphNode(RunnableLambda[Any, Any]):
    """A node that runs a conductor's graph with the state and for the state of the user's graph.

    LangGraph finds the graph among the dependencies of a `RunnableLambda`.
    """

    def __init__(
        self, graph: "CompiledStateGraph[Any, Any, Any, Any]", keys: StateKeys, *, acts: bool
    ) -> None:
        super().__init__(graph.invoke, graph.ainvoke, name="podium")
        self.deps = [graph]
        self.acts = acts
        self._graph = graph
        self._keys = keys

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the graph from sync code."""
        settled = ensure_config(config)
        self._keys.check(settled)
        with inside(input, settled):
            return written(self._keys.written(self._graph.invoke(input, settled), settled), settled)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the graph."""
        settled = ensure_config(config)
        self._keys.check(settled)
        with inside(input, settled):
            return written(self._keys.written(await self._graph.ainvoke(input, settled), settled), settled)


def draw(graph: "StateGraph[Any, Any, Any, Any]", nodes: ConductorNodes, *, is_outer: bool = False) -> None:
    """Add a conductor's nodes and edges to a graph; `is_outer` tells whether its state is the user's."""
    node = _OuterNode if is_outer else Node
    if nodes.executor == "podium" and not nodes.waits:
        graph.add_node("conduct", node("conduct", nodes.conduct, acts=nodes.own.acts))
        graph.add_edge(START, "conduct")
        return
    graph.add_node("plan", node("plan", nodes.plan))
    graph.add_node("execute", node("execute", nodes.execute, acts=nodes.own.acts))
    graph.add_conditional_edges(START, nodes.first, ["plan", "execute"])
    paths = ["execute", END]
    if nodes.waits:
        paths.append("approve")
        graph.add_node("approve", node("approve", nodes.ask))
        graph.add_edge("approve", "execute")
    graph.add_conditional_edges("plan", nodes.following, paths)
    graph.add_conditional_edges("execute", nodes.following, paths)
