"""The run of a conductor in a node of a graph.

The module converts between a run and a graph's state, and resumes a run in a later call of the node, also in
another process.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial as bound
from hashlib import sha256
from typing import Any, Final, Literal, get_args

import anyio
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, patch_config
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt

from langchain_podium.graph.around import (
    around,
    context_labels,
    context_limits,
    context_policy,
    context_workers,
)
from langchain_podium.graph.checkpoints import Checkpoints
from langchain_podium.graph.control_flow import GraphExit, pass_graph_exits, raised_above
from langchain_podium.graph.events import stream_events
from langchain_podium.graph.graph_node import Data, State
from langchain_podium.graph.message_stream import Listener, MessageStream, without_streams
from langchain_podium.graph.named_texts import named_texts
from langchain_podium.graph.plan_graph import read_ends
from langchain_podium.graph.plan_host import PlanHost
from langchain_podium.graph.state import VIEW, is_edited, of_result, plan_hash, plan_of
from langchain_podium.graph.state_keys import MESSAGES, STRUCTURED, answer_message
from langchain_podium.graph.writes import UPDATES, Writes
from langchain_podium.messages import to_query
from langchain_podium.response_format import ResponseFormat
from langchain_podium.tracing import ambient, child_runs, thread_of
from langchain_podium.workers import as_worker
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, RunUnknown
from podium.hosts.continuation import session_run_id, undecided_run
from podium.hosts.results import answered, text_answer
from podium.journal import Journal, MemoryJournal, export
from podium.run.approval import REFUSED
from podium.run_state import fold
from podium.run_state.actions import unpaid
from podium.types import Action, Event, Message, Plan, PlanReady, Result, RunEnded, RunResumed, RunStarted

Executor = Literal["podium", "langgraph"]
"""Which plans are shown as graphs: `podium` those that may wait for a person, `langgraph` all."""

Partial = Literal["return", "raise"]
"""Whether an incomplete answer is returned or raised, such as when the last step failed."""

_KEEP_SECONDS: Final = 5.0
"""Seconds that a cancelled node waits until its record is stored."""


@dataclass(slots=True, kw_only=True)
class Conducted:
    """The runs of a conductor in a node of a graph.

    Raises:
        ConfigError: `executor`, `approve`, `partial` or `show` is invalid.
    """

    own: Conductor
    """The conductor of the node."""
    input: str
    """The state key of the question."""
    output: str
    """The state key of the answer."""
    executor: Executor
    partial: Partial
    show_steps: bool = False
    """Whether texts of planners and workers are messages in the graph's streams, too."""
    limits: Limits | None = None
    """The limits of each run; `None` means those of the conductor."""
    context: Mapping[str, str] = field(default_factory=dict)
    """The state keys of named texts, by name."""
    response_format: ResponseFormat | None = None
    """The schema of the answer, which is then also under `structured_response`; `None` means text."""
    name: str | None = None
    """The name on the message with the answer."""
    writes: Mapping[str, str] = field(default_factory=dict)
    """The fields that are written to keys of the state: see `Writes`."""

    def __post_init__(self) -> None:
        for name, kind in (("executor", Executor), ("partial", Partial)):
            if getattr(self, name) not in get_args(kind):
                told = " or ".join(get_args(kind))
                raise ConfigError(f"{name} is {getattr(self, name)!r:.40}: it must be {told}")

        self.fields(self.own)

    @property
    def conductor(self) -> Conductor:
        """The conductor of the call: the node's, with the workers of a tenant."""
        workers, found = context_workers(), around()
        if not workers or found is None:
            return self.own
        if (bound := found.bound.get(id(self.own))) is None:
            bound = found.bound[id(self.own)] = self.own.bind(workers=[as_worker(each) for each in workers])
        if bound.acts and not self.own.acts:
            told = "a worker of podium_workers in the runtime context may act, and no worker of the node may"
            raise ConfigError(f"{told}: build the node with one that may")
        return bound

    def fields(self, conductor: Conductor) -> Writes:
        """Return the fields that are written; raise `ConfigError` if one does not exist."""
        return Writes(self.writes, conductor.pool, self.response_format)

    async def conduct(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Answer the question in the state; continue a run that an earlier call of the node began.

        Raises:
            GraphBubbleUp: a step waits for a person, or a worker has sent a command.
            RunFailed: there is no answer, or it is incomplete and `partial` is `raise`.
        """
        conductor = self.conductor
        checkpoints = Checkpoints(config, conductor, is_sync=is_sync)
        if conductor.waits and not checkpoints.exist:
            raise ConfigError(
                "the run waits for approvals, but the graph has no checkpointer to store it: use "
                "graph.compile(checkpointer=...) or create_conductor_agent(..., checkpointer=...)"
            )
        shows = checkpoints.exist and (conductor.waits or conductor.is_interruptible)
        async with self._recorded(checkpoints) as journal:
            call = _Call(self, state, config, journal, checkpoints, is_sync=is_sync)
            try:
                return self._ended(await call.run(shows=self.executor == "langgraph" or shows))
            except GraphExit as graph_exit:
                if isinstance(graph_exit.raised, GraphInterrupt):
                    raise _not_stored(graph_exit, graph_exit.actions) from None
                raise raised_above(graph_exit, config["configurable"]["checkpoint_ns"]) from None

    @asynccontextmanager
    async def _recorded(self, checkpoints: Checkpoints) -> AsyncGenerator[Journal | None, None]:
        """Return a context manager with the journal of a run, which an earlier try may have begun.

        It is the conductor's journal, or one that is stored by the graph's checkpointer if the node fails,
        shows a plan or carries out actions; `None` without both.
        """
        if self.conductor.journal is not None or not checkpoints.exist:
            yield self.conductor.journal
            return
        journal = MemoryJournal.of(await checkpoints.read())

        async def keep() -> None:
            await checkpoints.write([line async for line in export(journal)])

        journal.keep = keep
        try:
            yield journal
        except BaseException:  # then the node cannot update the state; interrupts and cancellations, too
            with anyio.move_on_after(_KEEP_SECONDS, shield=True):
                await keep()
            raise

    def _ended(self, result: Result) -> Data:
        """Return the update of the state at the end of a run.

        Raises:
            RunFailed: there is no answer, or it is incomplete and `partial` is `raise`.
        """
        refused = _is_refused(result)
        if not refused:
            answered(result, partial=self.partial)
        said, answer = text_answer(result), None
        data: Data = {VIEW: of_result(result, self.conductor)}
        if self.response_format is not None:
            answer = data[STRUCTURED] = None if refused else self.response_format.read(result)
            said = said if refused else self.response_format.text(answer)
        data[UPDATES] = self.fields(self.conductor).updates(result, answer)
        if self.output != MESSAGES:
            return data | {self.output: said}
        if refused and result.problem is not None and not said:
            said = result.problem.message
        return data | {self.output: [answer_message(said, data[VIEW], self.name)]}

    def query(self, state: State) -> tuple[Message, ...]:
        """Return the question in the state; raise `ConfigError` if there is none."""
        asked = state.get(self.input)
        if not asked:
            told = f"set it, or name another key, as in conductor_node(..., input={self.input!r})"
            raise ConfigError(f"the state has no question under {self.input!r}: {told}")
        query = to_query(asked)
        return query.query if isinstance(query, Plan) else query


class _Call:
    """One call of the node."""

    def __init__(
        self,
        node: Conducted,
        state: State,
        config: RunnableConfig,
        journal: Journal | None,
        checkpoints: Checkpoints,
        *,
        is_sync: bool,
    ) -> None:
        self._node = node
        self._conductor = node.conductor
        self._query = node.query(state)
        self._texts = named_texts(state, node.context)
        self._config = config
        self._journal = journal
        self._checkpoints = checkpoints
        self._is_sync = is_sync

    async def run(self, *, shows: bool, takes_all: bool = False) -> Result:
        """Begin the run, or continue it.

        Args:
            shows: whether the plans are shown as graphs.
            takes_all: whether each worker may interrupt.

        Raises:
            GraphInterrupt: a step waits for a person.
        """
        run_id = await self._run_id()
        events = await self._events(run_id)
        if not (shows or self._checkpoints.exist):
            return await self._called(self._begun(run_id, events), None)
        host = PlanHost(
            conductor=self._conductor,
            config=self._config,
            query=self._query,
            texts=self._texts,
            is_sync=self._is_sync,
            shows=shows,
            takes_all=takes_all,
            run_id="" if self._journal is None else run_id,
            keep=getattr(self._journal, "keep", None),
        )
        run = self._begun(run_id, events, await self._stored(host, events))
        try:
            result = await self._called(run, host)
        except BaseException:
            await host.cancel()
            raise
        await host.close()
        if host.left is not None and not self._checkpoints.exist:
            raise _not_stored(host.left, result.actions)
        if host.interrupt is not None:
            raise host.interrupt
        if host.left is not None:
            return await self.run(shows=True, takes_all=True)
        return result

    async def _run_id(self) -> str:
        """Return the id of the run: the same in all calls of the node for one task."""
        run_id = sha256(self._checkpoints.place.encode()).hexdigest()[:32]
        journal, thread = self._conductor.journal, thread_of(self._config)
        if not self._conductor.waits or journal is None or thread is None:
            return run_id
        place = f"{self._conductor.card.name}/{thread}"
        found = await undecided_run(journal, place, self._query, self._texts)
        return session_run_id(place, run_id) if found is None else found.run_id

    async def _events(self, run_id: str) -> Sequence[Event]:
        """Return the recorded events of the run; empty if it has not begun."""
        if self._journal is None:
            return ()
        async with self._journal:
            try:
                return [entry.event for entry in await self._journal.read(run_id)]
            except RunUnknown:
                return ()

    async def _stored(self, host: PlanHost, events: Sequence[Event]) -> Plan | None:
        """Give the host what the states of graphs have; return the plan, if it was edited or is to be run."""
        host.plans += _plans_of(events)
        state = await self._checkpoints.state(len(host.plans) - 1) if host.plans else None
        is_fork = state is None and not events
        state = await self._checkpoints.addressed() if is_fork else state
        if state is None:
            return None
        view, plan = state[VIEW], plan_of(state[VIEW], self._conductor)
        number, ends = 1 if is_fork else view["round"], read_ends(state)
        if is_fork:  # another run has paid for them
            ends = {name: (key, unpaid(outcome)) for name, (key, outcome) in ends.items()}
        host.before = number, plan_hash(plan, self._conductor.pool.names), ends
        waits = bool(events) and any(asked.step is None for asked in fold(events).waiting)
        return plan if is_fork or (is_edited(view) and not waits) else None  # its approval shows an edit

    def _begun(
        self, run_id: str, events: Sequence[Event], plan: Plan | None = None
    ) -> Callable[..., Awaitable[Result]]:
        """Return a function that begins the run, or resumes it."""
        last = events[-1] if events else None
        has_failed = isinstance(last, RunEnded) and last.result.status != "ok"
        if events and (has_failed or plan is not None or self._journal is not self._conductor.journal):
            refresh = self._node.partial == "raise"
            return bound(self._conductor.resume, run_id, plan=plan, refresh=refresh)
        form = self._node.response_format
        asked: dict[str, Any] = {} if form is None else {"tools": form.tools, "sampling": form.sampling}
        return bound(
            self._conductor.run,
            self._query if plan is None else replace(plan, query=self._query),
            run_id=None if self._journal is None else run_id,
            context=self._texts,
            labels=context_labels(),
            **asked,
        )

    async def _called(self, run: Callable[..., Awaitable[Result]], host: PlanHost | None) -> Result:
        """Call the conductor; raise LangGraph's control-flow exceptions as `GraphExit`."""
        config, conductor = self._config, self._conductor
        self._node.fields(conductor)
        messages = MessageStream(config, self._checkpoints.place, show_steps=self._node.show_steps)
        quiet = without_streams(config.get("callbacks"))
        names = conductor.pool.names
        tell = stream_events(get_stream_writer(), names, has_pieces=self._node.show_steps)
        own = ensure_config()
        # Graphs that are called outside of nodes, such as a planner's, have a namespace of their own.
        place = {**own["configurable"], "checkpoint_ns": f"{self._checkpoints.place}|podium"}
        inside = patch_config({**own, "configurable": place}, callbacks=quiet)
        with ambient(inside):
            begun = bound(
                run,
                policy=context_policy(),
                limits=context_limits() or self._node.limits,
                journal=None if self._journal is conductor.journal else self._journal,
                middleware=pass_graph_exits(child_runs(), waits=self._checkpoints.exist),
                host=host,
            )
            if messages.is_heard:
                return await messages.listen(lambda emit: begun(on_event=_both(emit, tell)))
            return await begun(on_event=tell)


def _not_stored(left: GraphExit, actions: Sequence[Action]) -> ConfigError:
    """Return the error of an interrupt that no checkpointer stores, with the actions that were begun."""
    told = "the graph has no checkpointer, so no step can wait for a person: use compile(checkpointer=...)"
    error = ConfigError(f"worker {left.worker!r} called interrupt(): {told}")
    error.actions = tuple(actions)
    return error


def _is_refused(result: Result) -> bool:
    """Return whether a person has refused the latest plan; a refused action leaves the rest of its plan."""
    current = result.rounds[-1] if result.rounds else None
    steps = () if current is None or current.plan is None else current.outcomes[: len(current.plan.steps)]
    return bool(steps) and all(step.problem is not None and step.problem.code == REFUSED for step in steps)


def _plans_of(events: Sequence[Event]) -> list[tuple[int, str]]:
    """Return the rounds and hashes of the plans in a record, in order."""
    found, names = dict[tuple[int, str], None](), tuple[str, ...]()
    for event in events:
        if isinstance(event, RunStarted | RunResumed):
            names = event.workers
        elif isinstance(event, PlanReady):
            found[event.round, plan_hash(event.plan, names)] = None
    return list(found)


def _both(first: Listener, second: Listener | None) -> Listener:
    """Return a listener that passes each event to two listeners."""
    if second is None:
        return first

    def tell(event: Event) -> None:
        second(event)
        first(event)

    return tell
