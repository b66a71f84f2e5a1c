"""A conductor as a node of the user's graph, and the graph of its plan as the node's subgraph.

LangGraph looks for subgraphs before a run, when there is no plan. So the node is a graph for LangGraph, and
reads from a checkpoint which plan it has.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.graph import Graph
from langgraph.pregel.protocol import PregelProtocol
from langgraph.types import StateSnapshot, StateUpdate

from langchain_podium.graph.around import inside
from langchain_podium.graph.checkpoints import UNKNOWN, Checkpoints, PlanGraph
from langchain_podium.graph.conducted import Conducted, Executor, Partial
from langchain_podium.graph.graph_node import Data, Node, State
from langchain_podium.graph.plan_graph import compiled
from langchain_podium.graph.state_keys import StateKeys
from langchain_podium.graph.writes import written
from langchain_podium.planner import as_planner
from langchain_podium.response_format import ResponseFormat
from langchain_podium.workers import as_worker
from podium.aio import run_sync
from podium.budget import Limits
from podium.conductor import CARD, Conductor
from podium.errors import ConfigError
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
    own = made_conductor(conductor, planner, workers, options, face="conductor_node")
    output = output or (input if input == "messages" else "answer")
    conducted = Conducted(
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
    keys = StateKeys(
        output=output,
        structured=response_format is not None,
        name=conducted.name,
        writes=writes or (),
    )
    return ConductorNode(conducted, keys)


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


class ConductorNode(Node, PregelProtocol[Any, Any, Any, Any]):
    """A conductor as a node of a graph."""

    def __init__(self, conducted: Conducted, keys: StateKeys) -> None:
        self._conductor = conducted.own

        async def conduct(state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
            if not config.get("configurable", {}).get("checkpoint_ns"):
                told = "a conductor's node works only inside a graph: use ConductorRunnable elsewhere"
                raise ConfigError(told)
            keys.check(config)
            return keys.written(await conducted.conduct(state, config, is_sync=is_sync), config)

        super().__init__("podium", conduct, acts=self._conductor.acts)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the node from sync code: workers read the graph's state, and the run writes to it."""
        settled = ensure_config(config)
        with inside(input, settled):
            return written(super().invoke(input, settled), settled)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the node."""
        settled = ensure_config(config)
        with inside(input, settled):
            return written(await super().ainvoke(input, settled), settled)

    with_config = Runnable.with_config  # type: ignore[assignment]
    stream = Runnable.stream  # type: ignore[assignment]
    astream = Runnable.astream  # type: ignore[assignment]

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

    def update_state(self, config: RunnableConfig, values: Any, as_node: str | None = None) -> RunnableConfig:
        """Edit the state as a node."""
        return self.bulk_update_state(config, [[StateUpdate(values, as_node)]])

    async def aupdate_state(
        self, config: RunnableConfig, values: Any, as_node: str | None = None
    ) -> RunnableConfig:
        """Edit the state as a node."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node)]])

    def _found_sync(self, config: RunnableConfig) -> tuple[PlanGraph, RunnableConfig]:
        return run_sync(lambda: Checkpoints(config, self._conductor, is_sync=True).graph(config))

    async def _found(self, config: RunnableConfig) -> tuple[PlanGraph, RunnableConfig]:
        return await Checkpoints(config, self._conductor, is_sync=False).graph(config)
