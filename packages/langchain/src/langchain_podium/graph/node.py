"""A conductor as a node of the user's graph, and the graph of its plan as the node's subgraph.

LangGraph looks for subgraphs before a run, when there is no plan. So the node is a graph for LangGraph, and
reads from a checkpoint which plan it has.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.graph import Graph
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.pregel.protocol import PregelProtocol
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, StateSnapshot, StateUpdate

from langchain_podium.graph.around import Data, Node
from langchain_podium.graph.checkpoints import UNKNOWN, Checkpoints, PlanGraph
from langchain_podium.graph.conducted import Conducted, Executor
from langchain_podium.graph.output import MESSAGES, STRUCTURED, Output
from langchain_podium.graph.plan_graph import compiled
from langchain_podium.graph.state import VIEW, schema
from langchain_podium.response_format import ResponseFormat
from langchain_podium.workers import as_planner, as_worker
from podium.aio import run_sync
from podium.budget import Limits
from podium.conductor import CARD, Conductor
from podium.hosts import Partial
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
    declares a key `podium` (a dict), the node writes the run there as JSON: `run_id`, `status`, `problem`
    (the reason of an incomplete answer), `planner`, `round` (the number of the latest round), its `plan`,
    `hash` and drawing (`mermaid`), `workers` (in the order of their numbers in the plan), `outcomes` (of each
    step; `data` has a retriever's documents and a tool's artifact), `actions`, `usage`, `cost` (`None` if
    unknown), `maybe_paid` (whether `cost` has calls that may not be billed), `seconds`, `labels` and
    `message_id` (of the answer). If the key has a reducer that adds lists, the run is appended to the list.
    Nodes that run in parallel, or that `Send` calls, need such a reducer. The key keeps the run before until
    the node ends; what an interrupted run has so far is in the state of its subgraph.

    Args:
        conductor: the conductor; or give its parts, `planner` and `workers`.
        planner: the planner, or a chat model.
        workers: all objects that `as_worker` accepts.
        input: the state key of the question: text, or messages.
        output: the state key of the answer: `messages` gets a message, other keys get text. `None` means
            `messages` if `input` is `messages`, otherwise `answer`.
        context: parts of the state for single steps, by name: `{"contract": "contract_text"}`. A worker is
            shown the parts that its subtask names, as in `{{contract}}`; the planner is shown names and
            lengths. A list becomes `contract_1`, `contract_2` and so on. Messages and documents are passed as
            their text, other data as JSON. `None` means no parts.
        writes: keys of the state that get fields of typed outputs: of the answer, which needs
            `response_format`, as in `{"sum": "total"}`, or of a worker whose card has `returns`, as in
            `{"sum": "clerk.total"}`. A key that is declared as a list gets the values of all executions,
            another key the last one. `None` writes none.
        response_format: the schema of the answer: a Pydantic class, a `TypedDict` or a JSON schema with a
            `title`. It is offered to the worker of the plan's last step as a tool that it must call. An
            agent, a graph or a chain gets it with its subtask; another worker must write the JSON. The
            state's key `structured_response` gets the parsed answer, and `output` gets it as JSON. An answer
            that does not fit raises `RunFailed`. `None` means text.
        executor: which plans are shown as graphs, with a node for each step, which is checkpointed and may
            call `interrupt()`: with `podium`, those that may wait for a person, if there is a checkpointer;
            with `langgraph`, all. The steps run in the same way.
        partial: whether an incomplete answer, such as after a failed last step, is returned, or raised as
            `RunFailed`; `ainvoke(None, config)` then retries the failed steps.
        show_steps: whether the texts of planners and workers are messages in the graph's streams, too, and
            their pieces are events of the custom stream; otherwise only the answer is a message. The metadata
            of each has `podium_role`: `planner`, `worker` or `answer`; `podium_round`, `podium_step`,
            `podium_attempt`, `podium_path` (an item or a turn, as in `2[17]`) and `podium_worker` name its
            source. If a call fails while it streams the answer, its message stays unfinished, and the retry
            streams another one, with a new id. With `accept`, or several rounds, the answer is streamed at
            the end of the run.
        labels: labels of each question; `podium_labels` of the graph's runtime context adds others.
        policy: applies in addition to the conductor's policy, as does `podium_policy` of the runtime context.
            There, `podium_limits` are the limits of the call, and `podium_workers` are further workers of it.
            What waits for approval (`Policy(approve="later")`: plans, or with `ask="actions"` each action)
            waits at an interrupt, which requires a checkpointer. A decision that was made elsewhere (`podium
            decide`) is not asked for again. If a plan is refused, the run ends without an error: `messages`
            says so, and a text key such as `answer` stays empty.
        limits: the limits of each run; `None` means those of the conductor.
        options: further options of `Conductor`, and `workflows`, if only its parts are given.

    Raises:
        ConfigError: there is neither a conductor nor a planner, or there are both; or `executor`, `partial`
            or `response_format` is invalid, or `writes` names a field that does not exist. When the node is
            called: the graph's state lacks the key `output`, a key of `writes`, or `structured_response` if
            there is a `response_format`.
        TypeError: an option is unknown.
    """
    output = output or (input if input == "messages" else "answer")
    own = _made(conductor, planner, workers, options, face=conductor_node)
    form = None if response_format is None else ResponseFormat(response_format)
    written = Output(
        key=output, name=own.card.name, partial=partial, response_format=form, writes=writes or {}
    )
    return ConductorNode(
        Conducted(
            own=own.bind(labels=labels, policy=policy),
            input=input,
            output=written,
            executor=executor,
            show_steps=show_steps,
            limits=limits,
            context=context or {},
        )
    )


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
    own = _made(conductor, planner, workers, options, face=create_conductor_agent)
    form = None if response_format is None else ResponseFormat(response_format)
    conducted = Conducted(
        own=own.bind(labels=labels, policy=policy),
        input=MESSAGES,
        output=Output(key=MESSAGES, name=name, partial=partial, response_format=form),
        executor=executor,
        show_steps=show_steps,
        limits=limits,
    )
    messages: Any = Annotated[list[AnyMessage], add_messages]
    shown = {MESSAGES: messages, VIEW: Data, **({} if form is None else {STRUCTURED: Any})}
    graph = StateGraph(schema(shown), input_schema=schema({MESSAGES: messages}))
    graph.add_node("conductor", ConductorNode(conducted))
    graph.add_edge(START, "conductor")
    return graph.compile(checkpointer=checkpointer, store=store, name=name)


def _made(
    conductor: Conductor | None,
    planner: object,
    workers: Sequence[Any],
    options: Mapping[str, Any],
    face: Callable[..., Any],
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


class ConductorNode(Node, PregelProtocol[Any, Any, Any, Any]):  # type: ignore[misc]  # no overloads
    """A conductor as a node of a graph."""

    def __init__(self, conducted: Conducted) -> None:
        self._conductor = conducted.own
        super().__init__("podium", conducted.conduct, acts=self._conductor.acts)

    with_config = Runnable.with_config  # type: ignore[assignment]
    stream = Runnable.stream  # type: ignore[assignment]
    astream = Runnable.astream  # type: ignore[assignment]
    update_state = Pregel.update_state  # which calls `bulk_update_state`
    aupdate_state = Pregel.aupdate_state

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return a drawing without the steps, because the plan does not exist yet."""
        return compiled(UNKNOWN, approves=False).get_graph(config, xray=xray)

    async def aget_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Return what `get_graph` returns."""
        return self.get_graph(config, xray=xray)

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of the latest plan's graph, or at the checkpoint that `config` names."""
        graph, place = self._found_sync(config)
        return graph.get_state(place, subgraphs=subgraphs)

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return what `get_state` returns."""
        graph, place = await self._found(config)
        return await graph.aget_state(place, subgraphs=subgraphs)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """Yield the states of the latest plan's graph, the latest first."""
        graph, place = self._found_sync(config)
        return graph.get_state_history(place, filter=filter, before=before, limit=limit)

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """Yield what `get_state_history` yields."""
        graph, place = await self._found(config)
        async for state in graph.aget_state_history(place, filter=filter, before=before, limit=limit):
            yield state

    def bulk_update_state(
        self, config: RunnableConfig, updates: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Edit the state of the latest plan's graph, or at the checkpoint that `config` names."""
        graph, place = self._found_sync(config)
        return graph.bulk_update_state(place, updates)

    async def abulk_update_state(
        self, config: RunnableConfig, updates: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Edit the state as `bulk_update_state` does."""
        graph, place = await self._found(config)
        return await graph.abulk_update_state(place, updates)

    def _found_sync(self, config: RunnableConfig) -> tuple[PlanGraph, RunnableConfig]:
        return run_sync(lambda: Checkpoints(config, self._conductor, is_sync=True).graph(config))

    async def _found(self, config: RunnableConfig) -> tuple[PlanGraph, RunnableConfig]:
        return await Checkpoints(config, self._conductor, is_sync=False).graph(config)
