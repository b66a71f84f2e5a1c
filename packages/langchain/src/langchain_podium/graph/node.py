"""A conductor as a node of the user's own graph."""

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langgraph.graph import END, START, StateGraph

from langchain_podium.graph.conductor_nodes import ConductorNodes, Executor, Partial
from langchain_podium.graph.graph_node import Data, Node, State
from langchain_podium.graph.message_stream import Show
from langchain_podium.graph.state import RECORD, VIEW, schema
from langchain_podium.graph.state_keys import STRUCTURED, InParent, StateKeys
from langchain_podium.response_format import ResponseFormat
from podium.conductor import Conductor


def conductor_node(  # noqa: PLR0913 - each is one fact about the node, most are left out
    conductor: Conductor,
    *,
    input: str = "messages",  # noqa: A002 - the word users know
    output: str | None = None,
    executor: Executor = "podium",
    approve: bool = False,
    partial: Partial = "return",
    show: Show = "answer",
    result: str | None = "podium",
    context: Mapping[str, str] | None = None,
    response_format: dict[str, Any] | type | None = None,
    name: str | None = None,
) -> Runnable[Any, Any]:
    """Return a node that plans what it is asked and has the conductor's pool carry it out.

    It goes into a graph by `graph.add_node("conductor", conductor_node(conductor))`. Where the
    graph's state declares a key `podium` (a dict), that shows the run: its id, status, plan,
    outcomes, and the plan as mermaid. A key whose reducer adds to a list gets one item more, so
    that nodes which run in parallel, or by `Send`, do not collide.

    Args:
        conductor: who plans, and its pool.
        input: key of the graph's state with what is asked: text, or messages.
        output: key that takes the answer: `messages` takes a message, any other text. `None`
            means `messages` where that is asked, and `answer` elsewhere.
        executor: `podium` starts each step as soon as its inputs exist. `langgraph` makes a graph
            of the plan: each step is a node, checkpointed and free to call `interrupt()`, and
            starts when all of its superstep before has ended.
        approve: whether each plan waits at an interrupt for somebody to look at it. The graph
            needs a checkpointer then.
        partial: whether an answer that lacks something, as one does whose last step failed, is
            returned, or raised as `RunFailed`; `ainvoke(None, config)` then tries again what failed.
        show: which texts of a run are messages in the graph's streams, token by token: the answer alone,
            under the id of the message in the state; or with `all` what planners and workers write,
            too. The metadata of each has `podium_role`: `planner`, `worker` or `answer`.
        result: key that takes the run as plain data; `None` keeps the run out of the state.
        context: parts of the state that steps can be given, by name: `{"contract": "contract_text"}`. A
            worker is shown those whose names stand in its subtask, as in `{{contract}}`; the planner
            is shown names and lengths. A list becomes `doc_1`, `doc_2` and so on. `None` gives none.
        response_format: the form of the answer: a Pydantic class, a `TypedDict` or a JSON schema with a
            `title`. It is offered as a tool that has to be called to the worker of the plan's last step.
            The state's key `structured_response` takes the answer in this form, and `output` takes it
            as JSON. An answer that does not fit raises `RunFailed`. `None` asks for text.
        name: the name on the message with the answer, by which other agents know who speaks; `None`
            means that on the conductor's card.

    Raises:
        ConfigError: `executor`, `partial` or `show` has another value, or `response_format` is no
            form. When the node is called: the graph's state lacks the key `output`, or a `result` other
            than `podium`, or `structured_response` where there is a form.
    """
    output = output or (input if input == "messages" else "answer")
    nodes = ConductorNodes(
        conductor=conductor,
        input=input,
        output=output,
        executor=executor,
        approve=approve,
        partial=partial,
        show=show,
        context=context or {},
        response_format=None if response_format is None else ResponseFormat(response_format),
        name=name or conductor.card.name,
    )
    state_keys = StateKeys(
        output=output, result=result, structured=response_format is not None, name=nodes.name
    )
    if executor == "podium" and not nodes.waits:
        nodes.is_inner = False

        async def conduct(state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
            state_keys.check(config)
            return state_keys.written(await nodes.conduct(state, config, is_sync=is_sync), config)

        return Node("conduct", conduct)
    asked = dict.fromkeys((input, *nodes.context.values()), Any)
    form = {} if response_format is None else {STRUCTURED: Any}
    graph = StateGraph(
        schema({**asked, output: Any, VIEW: Data, RECORD: list[str], **form}),
        input_schema=schema(asked),
        output_schema=schema({output: Any, VIEW: Data, **form}),
    )
    draw(graph, nodes)

    def check(state: State, config: RunnableConfig) -> State:
        state_keys.check(config)
        return state

    parts = (InParent(check), graph.compile(name="conductor"), InParent(state_keys.written))
    return RunnableSequence(*parts, name="podium")


def draw(graph: "StateGraph[Any, Any, Any, Any]", nodes: ConductorNodes) -> None:
    """Put a conductor's nodes and edges into a graph."""
    if nodes.executor == "podium" and not nodes.waits:
        graph.add_node("conduct", Node("conduct", nodes.conduct))
        graph.add_edge(START, "conduct")
        return
    graph.add_node("plan", Node("plan", nodes.plan))
    graph.add_node("execute", Node("execute", nodes.execute))
    graph.add_conditional_edges(START, nodes.first, ["plan", "execute"])
    paths = ["execute", END]
    if nodes.waits:
        paths.append("approve")
        graph.add_node("approve", Node("approve", nodes.ask))
        graph.add_edge("approve", "execute")
    graph.add_conditional_edges("plan", nodes.following, paths)
    graph.add_conditional_edges("execute", nodes.following, paths)
