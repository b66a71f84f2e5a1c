"""The run of a conductor in a node of a graph.

The module converts between a run and a graph's state, and resumes a run in a later call of the node, also in
another process.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial as bound
from hashlib import sha256
from typing import Any, Final, Literal, get_args

import anyio
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, patch_config
from langgraph.config import get_stream_writer

from langchain_podium.callbacks import ambient, child_runs, stream_events, thread_of
from langchain_podium.graph.approval import is_request
from langchain_podium.graph.around import Around, check_context, in_context, inside, is_called_sync
from langchain_podium.graph.checkpoints import SCRATCHPAD, Checkpoints, answers_in, forget_interrupts
from langchain_podium.graph.control_flow import GraphExit, pass_graph_exits, raised_above
from langchain_podium.graph.message_stream import MessageStream, without_streams
from langchain_podium.graph.output import Output
from langchain_podium.graph.plan_graph import read_ends
from langchain_podium.graph.plan_host import PlanHost
from langchain_podium.graph.state import VIEW, is_edited, plan_hash, plan_of
from langchain_podium.messages import to_query
from langchain_podium.workers import as_worker
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, PodiumError, RunUnknown
from podium.hosts.continuation import place_of, session_run_id, undecided_run
from podium.journal import Journal, MemoryJournal, export
from podium.policy import Policy
from podium.run_state import fold
from podium.run_state.actions import unpaid
from podium.types import Action, Event, Message, Plan, PlanReady, Result, RunEnded, RunResumed, RunStarted

Executor = Literal["podium", "langgraph"]
"""Which plans are shown as graphs: `podium` those that may wait for a person, `langgraph` all."""

_KEEP_SECONDS: Final = 5.0
"""Seconds that a cancelled node waits until its record is stored."""


@dataclass(slots=True, kw_only=True)
class Conducted:
    """The runs of a conductor in a node of a graph."""

    own: Conductor
    """The conductor of the node."""
    input: str
    """The state key of the question."""
    output: Output
    executor: Executor
    show_steps: bool = False
    """Whether texts of planners and workers are messages in the graph's streams, too."""
    limits: Limits | None = None
    """The limits of each run; `None` means those of the conductor."""
    context: Mapping[str, str] = field(default_factory=dict)
    """The state keys of named texts, by name."""

    def __post_init__(self) -> None:
        if self.executor not in get_args(Executor):
            told = " or ".join(get_args(Executor))
            raise ConfigError(f"executor is {self.executor!r:.40}: it must be {told}")
        self.output.fields(self.own.pool)

    async def conduct(self, given: Any, config: RunnableConfig) -> Any:
        """Answer the question in the state; continue a run that an earlier call of the node began.

        Workers read the state as it was `given`. The result is an update of the state.
        """
        channels = Around(config).channels
        if not config.get("configurable", {}).get("checkpoint_ns") or all(map(_is_internal, channels)):
            told = "a conductor's node works only in a graph with a state: use ConductorRunnable elsewhere"
            raise ConfigError(f"{told}, such as in a @task")
        with inside(given, config):
            check_context()
            conductor = self._conductor()
            self.output.check(config, conductor)
            checkpoints = Checkpoints(config, conductor, is_sync=is_called_sync())
            if conductor.waits and not checkpoints.exist:
                raise ConfigError(
                    "the run waits for approvals, but the graph has no checkpointer to store it: use "
                    "graph.compile(checkpointer=...) or create_conductor_agent(..., checkpointer=...)"
                )
            shows = checkpoints.exist and (conductor.waits or conductor.is_interruptible)
            async with _recorded(conductor, checkpoints) as journal:
                call = _Call(self, conductor, given, config, journal, checkpoints)
                try:
                    result = await call.run(shows=self.executor == "langgraph" or shows)
                    return self.output.update(result, config, conductor)
                except GraphExit as graph_exit:
                    raise raised_above(graph_exit, config["configurable"]["checkpoint_ns"]) from None
                except PodiumError as error:
                    forget_interrupts(config, error)
                    raise

    def _conductor(self) -> Conductor:
        """Return the conductor of the call: the node's, with the workers of a tenant."""
        if not (workers := in_context("podium_workers", list, tuple)):
            return self.own
        bound = self.own.bind(workers=[as_worker(each) for each in workers])
        if bound.acts and not self.own.acts:
            told = "a worker of podium_workers in the runtime context may act, and no worker of the node may"
            raise ConfigError(f"{told}: build the node with one that may")
        return bound


def _is_internal(channel: str) -> bool:
    return channel.startswith("__") and channel != "__root__"


@asynccontextmanager
async def _recorded(conductor: Conductor, checkpoints: Checkpoints) -> AsyncGenerator[Journal | None, None]:
    """Yield the journal of a run, which an earlier try may have begun.

    It is the conductor's journal, or one that is stored by the graph's checkpointer if the node fails,
    shows a plan or carries out actions; `None` without both.
    """
    if conductor.journal is not None or not checkpoints.exist:
        yield conductor.journal
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
    finally:
        journal.keep = None  # it refers to the journal


class _Call:
    """One call of the node."""

    def __init__(
        self,
        node: Conducted,
        conductor: Conductor,
        given: Any,
        config: RunnableConfig,
        journal: Journal | None,
        checkpoints: Checkpoints,
    ) -> None:
        self._node = node
        self._conductor = conductor
        state = given if isinstance(given, Mapping) else vars(given)
        self._query = _query(state, node.input)
        self._texts = _named_texts(state, node.context)
        self._answers, pad = answers_in(config, is_request)
        self._config = RunnableConfig(**config)
        self._config["configurable"] = {**config["configurable"], SCRATCHPAD: pad}
        self._journal = journal
        self._checkpoints = checkpoints

    async def run(self, *, shows: bool, takes_all: bool = False) -> Result:
        """Begin the run, or continue it, and show its plans as graphs; `takes_all` is as for `PlanHost`."""
        run_id = await self._run_id()
        events = await self._events(run_id)
        host = PlanHost(
            conductor=self._conductor,
            config=self._config,
            query=self._query,
            texts=self._texts,
            shows=shows,
            takes_all=takes_all,
            run_id="" if self._journal is None else run_id,
            keep=getattr(self._journal, "keep", None),
            answers=self._answers,
        )
        run = self._begun(run_id, events, await self._stored(host, events))
        try:
            result = await self._called(run, host)
        except BaseException:  # cancellations, too: no node outlives the run
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
        place = place_of(self._conductor, thread, ())
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
            refresh = self._node.output.partial == "raise"
            return bound(self._conductor.resume, run_id, plan=plan, refresh=refresh)
        form = self._node.output.response_format
        asked: dict[str, Any] = {} if form is None else {"tools": form.tools, "sampling": form.sampling}
        return bound(
            self._conductor.run,
            self._query if plan is None else replace(plan, query=self._query),
            run_id=None if self._journal is None else run_id,
            context=self._texts,
            labels=in_context("podium_labels", Collection) or (),
            **asked,
        )

    async def _called(self, run: Callable[..., Awaitable[Result]], host: PlanHost) -> Result:
        """Call the conductor; raise LangGraph's control-flow exceptions as `GraphExit`."""
        config, conductor = self._config, self._conductor
        messages = MessageStream(config, self._checkpoints.place, show_steps=self._node.show_steps)
        quiet = without_streams(config.get("callbacks"))
        names = conductor.pool.names
        tell = stream_events(get_stream_writer(), names, has_pieces=self._node.show_steps)
        own = ensure_config()
        # Graphs that are called outside of nodes, such as a planner's, have a namespace of their own.
        pad = config["configurable"][SCRATCHPAD]
        place = {**own["configurable"], SCRATCHPAD: pad, "checkpoint_ns": f"{self._checkpoints.place}|podium"}
        inside = patch_config({**own, "configurable": place}, callbacks=quiet)
        with ambient(inside):
            begun = bound(
                run,
                policy=in_context("podium_policy", Policy),
                limits=in_context("podium_limits", Limits) or self._node.limits,
                journal=None if self._journal is conductor.journal else self._journal,
                middleware=pass_graph_exits(child_runs(), waits=self._checkpoints.exist),
                host=host,
            )
            if quiet is None:  # nobody reads a stream
                return await begun(on_event=tell)
            return await messages.listen(begun, tell)


def _not_stored(left: GraphExit, actions: Sequence[Action]) -> ConfigError:
    """Return the error of an interrupt that no checkpointer stores, with the actions that were begun."""
    told = "the graph has no checkpointer, so no step can wait for a person: use compile(checkpointer=...)"
    error = ConfigError(f"worker {left.worker!r} called interrupt(): {told}")
    error.actions = tuple(actions)
    return error


def _query(state: Mapping[str, Any], key: str) -> tuple[Message, ...]:
    """Return the question in the state; raise `ConfigError` if there is none."""
    asked = state.get(key)
    if not asked:
        told = f"set it, or name another key, as in conductor_node(..., input={key!r})"
        raise ConfigError(f"the state has no question under {key!r}: {told}")
    query = to_query(asked)
    return query.query if isinstance(query, Plan) else query


def _named_texts(state: Mapping[str, Any], context: Mapping[str, str]) -> dict[str, str]:
    """Return the named texts of a run.

    A list becomes a text for each item, numbered from 1: `doc_1`, `doc_2`. An empty list becomes an empty
    text `doc`, so that a plan that refers to `doc_1` is refused. Messages and documents are converted to
    their text, other values to JSON.
    """
    texts: dict[str, str] = {}
    for name, key in context.items():
        value = state.get(key)
        if value is None:
            raise ConfigError(f"the state has no value under {key!r}, the text {name!r} of context: set it")
        if isinstance(value, list | tuple) and not value:
            texts[name] = ""
        elif isinstance(value, list | tuple):
            texts |= {f"{name}_{number}": _text(item, key) for number, item in enumerate(value, 1)}
        else:
            texts[name] = _text(value, key)
    return texts


def _text(value: Any, key: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Document):
        return value.page_content
    if isinstance(value, BaseMessage):
        return str(value.text)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        told = f"the state holds a {type(value).__name__} under {key!r}, which is not text"
        raise ConfigError(f"{told}: use text, documents, messages or JSON data") from error


def _plans_of(events: Sequence[Event]) -> list[tuple[int, str]]:
    """Return the rounds and hashes of the plans in a record, in order."""
    found, names = dict[tuple[int, str], None](), tuple[str, ...]()
    for event in events:
        if isinstance(event, RunStarted | RunResumed):
            names = event.workers
        elif isinstance(event, PlanReady):
            found[event.round, plan_hash(event.plan, names)] = None
    return list(found)
