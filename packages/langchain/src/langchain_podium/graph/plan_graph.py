"""A plan as a LangGraph graph with one node for each step, built when the plan is known.

The module defines the graph and its state. The outcome of each step is in a separate channel. Only the nodes
of steps that see this outcome can read the channel. A node asks the run to execute its step; the run decides
what the step is shown, what it may spend, and what happens if it fails.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final

import anyio
from langchain_core.runnables import RunnableConfig
from langgraph.errors import ParentCommand
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from langchain_podium.graph.control_flow import GraphExit, enclosing, unwrap_graph_exit
from langchain_podium.graph.graph_node import Data, Node, State
from langchain_podium.graph.state import plan_hash, read_outcome, schema, write_outcome
from podium.errors import ConfigError
from podium.execution import ExternalScheduler
from podium.execution.graph import WAITING
from podium.types import Outcome, Plan

HASH: Final = "plan"
"""The state key of the hash of the plan that the outcomes belong to."""

_LEAST_SUPERSTEPS: Final = 25
_STOP_SECONDS: Final = 1.0
"""Seconds after which a step that has not ended is cancelled again."""
Shape = tuple[tuple[str, tuple[int, ...]], ...]
"""The name of each step's worker, and the steps on its access list."""


class Stepping:
    """The steps of one round while their graph executes them.

    Args:
        steps: the steps of the round.
        above: the namespace of the conductor's node in the user's graph, which is the target of a step's
            `Command.PARENT`; empty if there is none.
    """

    def __init__(self, steps: ExternalScheduler, above: str) -> None:
        self.steps = steps
        self.above = above
        self.hash = plan_hash(steps.plan, steps.workers)
        self.has_run = False
        """Whether a step was executed, and not only restored from a checkpoint."""
        self.held = set[int]()
        """The steps that wait for a person, or for such steps."""
        self._loop = asyncio.get_running_loop()
        self._tasks = set[asyncio.Task[Any]]()
        """The steps that nodes in other threads wait for."""
        self._is_stopped = False

    async def run(self, index: int, state: State) -> Data:
        """Execute a step, and return its update of the state."""
        if state.get(HASH) != self.hash:
            told = f"the plan of run {self.steps.run_id} was changed during its execution"
            raise ConfigError(f"{told}, so the outcomes belong to another plan: start a new run")
        if (own := state.get(channel(index))) is not None:
            self.steps.take(index, read_outcome(own))
            return {}
        shown = self.steps.plan.steps[index].access
        if any(channel(seen) not in state for seen in shown):
            self.held.add(index)
            return {}
        self.has_run = True
        known = {seen: read_outcome(state[channel(seen)]) for seen in shown}
        try:
            outcome = await unwrap_graph_exit(self.steps.run(index, known))
        except GraphExit as graph_exit:
            raise raised_above(graph_exit, self.above) from None
        if outcome.problem is not None and outcome.problem.code == WAITING:
            self.held.add(index)
            return {}
        return {channel(index): write_outcome(outcome)}

    async def call_in_thread(self, graph_call: Callable[[], Any]) -> Any:
        """Call the sync graph in a thread; a cancellation stops its steps, and waits for their end."""
        call = asyncio.ensure_future(asyncio.to_thread(graph_call))
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError:
            await self._stop(call)
            raise
        return call.result()

    def wait_for(self, work: Callable[[], Awaitable[Data]]) -> Data:
        """Run a node's function in the event loop of its run, from another thread."""

        async def run() -> Data:
            task = asyncio.current_task()
            assert task is not None
            if self._is_stopped:
                raise asyncio.CancelledError
            self._tasks.add(task)
            try:
                return await work()
            finally:
                self._tasks.discard(task)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    async def _stop(self, call: "asyncio.Future[Any]") -> None:
        self._is_stopped = True
        with anyio.CancelScope(shield=True):
            while not call.done():
                for task in self._tasks:
                    task.cancel()  # repeated: `asyncio.wait_for` loses some before Python 3.12
                with suppress(asyncio.CancelledError):  # repeated by the cancellation that led here
                    await asyncio.wait([call], timeout=_STOP_SECONDS)
        if not call.cancelled():
            call.exception()  # retrieved, because the cancellation is raised instead


_STEPPING: Final[ContextVar[Stepping]] = ContextVar("podium_stepping")


async def carry_out(steps: ExternalScheduler, config: RunnableConfig, *, is_sync: bool) -> None:
    """Execute a round's steps as a graph inside the node with this config.

    Args:
        steps: the steps of the round.
        config: the node's configuration.
        is_sync: whether sync code called the outer graph, whose checkpointer may support only sync calls.

    Raises:
        GraphBubbleUp: LangGraph's control flow, such as an interrupt or a command.
    """
    stepping = Stepping(steps, enclosing(config["configurable"]["checkpoint_ns"]))
    graph = compiled(_shape(steps.plan, steps.workers))
    most = max(config.get("recursion_limit", 0), _LEAST_SUPERSTEPS, len(steps.plan.layers) + 5)
    inside = RunnableConfig(**{**config, "recursion_limit": most})
    data: Data = {HASH: stepping.hash}
    token = _STEPPING.set(stepping)
    try:
        while True:
            if is_sync:
                called: Any = await stepping.call_in_thread(partial(graph.invoke, data, inside))
            else:
                called = await graph.ainvoke(data, inside)
            data = called
            outcomes = _outcomes(data)
            whole = _whole(steps.plan, outcomes)
            if not stepping.has_run and len(whole) < len(outcomes):
                # All outcomes are from the checkpoint, and some are incomplete: run these steps again.
                for index in outcomes.keys() - whole:
                    steps.charge(index, outcomes[index])
                kept = whole
            elif len(outcomes.keys() | stepping.held) < len(steps.plan.steps):
                # The checkpoint ended nodes whose steps wait for a person: show these steps again.
                kept = set(outcomes)
            else:
                break
            data = {HASH: stepping.hash, **{channel(index): data[channel(index)] for index in kept}}
    finally:
        _STEPPING.reset(token)
    for index, outcome in outcomes.items():
        steps.take(index, outcome)


def _whole(plan: Plan, outcomes: Mapping[int, Outcome]) -> set[int]:
    """Return the steps that succeeded with enough outputs of other such steps."""
    whole = set[int]()
    for index, outcome in sorted(outcomes.items()):
        step = plan.steps[index]
        shown = step.access if outcome.shown is None else outcome.shown
        if outcome.status == "ok" and len(shown) >= step.least and whole.issuperset(shown):
            whole.add(index)
    return whole


@lru_cache(maxsize=128)
def compiled(shape: Shape) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the graph for plans of this shape. It uses the checkpointer of the calling graph.

    Graphs are cached, because many plans have the same shape. A node finds its step in the current run.
    """
    fields = {HASH: str, **{channel(index): Data for index in range(len(shape))}}
    graph = StateGraph(schema(fields))
    for index, (worker, access) in enumerate(shape):
        handed = {name: fields[name] for name in (HASH, *map(channel, (*access, index)))}
        graph.add_node(
            node_name(index, worker),
            _node(index, node_name(index, worker)),
            input_schema=schema(handed),
            metadata={"worker": worker},
        )
        sources = [node_name(seen, shape[seen][0]) for seen in access]
        graph.add_edge(
            sources if len(sources) > 1 else sources[0] if sources else START, node_name(index, worker)
        )
    return graph.compile()


def channel(index: int) -> str:
    """Return the state key of a step's outcome."""
    return f"step_{index}"


def node_name(index: int, worker: str) -> str:
    """Return the node name of a step; LangGraph reserves two characters."""
    return f"{index} {worker}".replace(":", "_").replace("|", "_")


def raised_above(graph_exit: GraphExit, above: str) -> Exception:
    """Return the exception to raise from the conductor for a control-flow exception of a worker's call.

    A command to the parent graph is sent to the graph that contains the conductor's node, and not to the
    internal graphs in between.

    Args:
        graph_exit: the control-flow exception of the call.
        above: the namespace of the conductor's node in that graph; empty if there is none.
    """
    raised = graph_exit.raised
    if not isinstance(raised, ParentCommand):
        return raised
    if not above:
        told = "the conductor is the root graph: add it to a graph with conductor_node(...)"
        return ConfigError(
            f"worker {graph_exit.worker!r} sent a Command to the parent graph, but there is none: {told}"
        )
    command = raised.args[0]
    return ParentCommand(
        Command(graph=above, update=command.update, resume=command.resume, goto=command.goto)
    )


def _node(index: int, name: str) -> Node:
    async def run(state: State, config: RunnableConfig, *, is_sync: bool) -> Data:
        del config, is_sync
        return await _STEPPING.get().run(index, state)

    return Node(name, run, lambda work: _STEPPING.get().wait_for(work))


def _shape(plan: Plan, workers: tuple[str, ...]) -> Shape:
    return tuple((workers[step.worker], step.access) for step in plan.calls)


def _outcomes(data: Mapping[str, Any]) -> dict[int, Outcome]:
    prefix = channel(0)[:-1]
    found = {key.removeprefix(prefix): value for key, value in data.items() if key.startswith(prefix)}
    return {int(number): read_outcome(value) for number, value in found.items()}
