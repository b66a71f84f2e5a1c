"""The nodes of a conductor: plan, ask for approval, execute.

The module converts between a run and a graph's state, and resumes a run in a later call of the graph, also in
another process. The module `node` adds the edges between the nodes.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial as bound
from hashlib import sha256
from typing import Any, Final, Literal, get_args

import anyio
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt
from langgraph.graph import END

from langchain_podium.graph.approval_interrupt import ask_approval
from langchain_podium.graph.around import (
    around,
    context_labels,
    context_limits,
    context_policy,
    context_workers,
)
from langchain_podium.graph.control_flow import GraphExit, enclosing, pass_graph_exits, unwrap_graph_exit
from langchain_podium.graph.events import stream_events
from langchain_podium.graph.graph_node import Data, State
from langchain_podium.graph.journal import StateJournal
from langchain_podium.graph.kept_record import KeptRecord
from langchain_podium.graph.message_stream import Listener, MessageStream, without_streams
from langchain_podium.graph.named_texts import named_texts
from langchain_podium.graph.plan_graph import raised_above
from langchain_podium.graph.state import RECORD, VIEW, of_plan, of_result, plan_hash
from langchain_podium.graph.state_keys import MESSAGES, STRUCTURED, answer_message
from langchain_podium.graph.step_starter import GraphStepStarter, check_checkpointer, is_kept
from langchain_podium.graph.writes import UPDATES, Writes
from langchain_podium.messages import to_query
from langchain_podium.response_format import ResponseFormat
from langchain_podium.tracing import child_runs, thread_of, under
from langchain_podium.workers import as_worker
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import StepStarter
from podium.execution.context import pause
from podium.hosts.continuation import session_run_id, undecided_run
from podium.hosts.results import answered, text_answer
from podium.journal import Journal
from podium.run.approval import PAUSED, REFUSED
from podium.run_state import fold
from podium.run_state.state import for_pool
from podium.types import Event, Message, Plan, Result, RunEnded

Executor = Literal["podium", "langgraph"]
"""How steps are started: `podium` starts each as soon as its inputs exist; `langgraph` uses supersteps."""

Partial = Literal["return", "raise"]
"""Whether an incomplete answer is returned or raised, such as when the last step failed."""

_KEEP_SECONDS: Final = 5.0
"""Seconds that a cancelled node waits until its record is stored."""


@dataclass(slots=True, kw_only=True)
class ConductorNodes:
    """A conductor as nodes of a graph.

    Raises:
        ConfigError: `executor` or `partial` is invalid.
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
    is_inner: bool = True
    """Whether the nodes are in the conductor's own graph, which may be inside the user's graph."""

    def __post_init__(self) -> None:
        for name, kind in (("executor", Executor), ("partial", Partial)):
            if getattr(self, name) not in get_args(kind):
                told = " or ".join(get_args(kind))
                raise ConfigError(f"{name} is {getattr(self, name)!r:.40}: it must be {told}")

        self._fields(self.own)

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

    def _fields(self, conductor: Conductor) -> Writes:
        return Writes(self.writes, conductor.pool, self.response_format)

    @property
    def waits(self) -> bool:
        """Whether plans or actions wait for approval."""
        return self.own.waits

    @property
    def is_flat(self) -> bool:
        """Whether the graph starts the steps, so that plans can have no maps, branches and blocks."""
        return self.executor == "langgraph"

    async def conduct(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Run everything in one node."""
        async with self._recorded(config, is_sync=is_sync) as journal:
            return self._ended(await self._begin(state, config, self._new_id(config), journal, None))

    async def plan(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Plan a run; the graph's state stores the plan before its steps are paid for."""
        if self.waits:
            check_checkpointer(config)
        run_id = self._new_id(config)
        starter: StepStarter = pause
        if self.is_flat:
            starter = GraphStepStarter(config, 0, is_sync=is_sync)
        if self.waits and (thread := thread_of(config)) is not None:
            place, texts = f"{self.conductor.card.name}/{thread}", named_texts(state, self.context)
            earlier = self._journal(state)
            found = await undecided_run(earlier, place, self._query(state), texts)
            if found is not None:
                begun = self._resume(found.run_id)
                result = await self._called(begun, config, earlier, starter)
                return await self._kept(result, earlier)
            run_id = session_run_id(place, run_id)
        async with self._recorded(config, is_sync=is_sync) as recorded:
            journal = recorded or StateJournal()
            return await self._kept(await self._begin(state, config, run_id, journal, starter), journal)

    async def execute(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Continue the run to its end or to the next plan; without stored state, run everything."""
        begins = self._begins(config)
        number = None if begins else state[VIEW]["round"]
        step_starter = None
        if self.is_flat:
            step_starter = GraphStepStarter(config, number, is_sync=is_sync)
        if begins:
            run_id, journal = self._new_id(config), self.conductor.journal
            result = await self._begin(state, config, run_id, journal, step_starter)
            return await self._written(result, journal, step_starter)
        async with self._recorded(config, state[RECORD], is_sync=is_sync) as journal:
            return await self._go_on(state, config, journal or StateJournal(state[RECORD]), step_starter)

    @asynccontextmanager
    async def _recorded(
        self, config: RunnableConfig, lines: Sequence[str] = (), *, is_sync: bool
    ) -> AsyncGenerator[Journal | None, None]:
        """Return a context manager with the journal of a run, which an earlier try may have begun.

        It is the conductor's journal, or one that is stored by the graph's checkpointer if the node fails or
        carries out actions; `None` without both.

        Args:
            config: the configuration of the node.
            lines: the lines of the run in the graph's state.
            is_sync: whether sync code called the graph.
        """
        record = KeptRecord(config, self._place(config), is_sync=is_sync)
        if self.conductor.journal is not None or not record.is_stored:
            yield self.conductor.journal
            return
        kept = await record.read()
        latest = kept if len(kept) > len(lines) else lines  # lines are only added
        journal = StateJournal(latest, record.write)
        try:
            yield journal
        except BaseException:  # then the node cannot update the state; interrupts and cancellations, too
            with anyio.move_on_after(_KEEP_SECONDS, shield=True):
                await record.write(journal.lines())
            raise

    async def _go_on(
        self, state: State, config: RunnableConfig, journal: Journal, step_starter: GraphStepStarter | None
    ) -> Data:
        view = state[VIEW]
        go_on = self._resume(view["run_id"], self._edited(view))
        result = await self._called(go_on, config, journal, step_starter)
        return await self._written(result, journal, step_starter)

    async def _written(
        self, result: Result, journal: Journal | None, step_starter: GraphStepStarter | None
    ) -> Data:
        """Return the update of the state, or raise the interrupt of a step."""
        if step_starter is not None and step_starter.interrupt is not None:
            raise step_starter.interrupt
        return await self._kept(result, journal)

    async def ask(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Show the plan at an interrupt, until there is a valid decision."""
        del config, is_sync
        journal, view = self._journal(state), state[VIEW]
        edited = self._edited(view)
        await ask_approval(self.conductor, journal, view, self._query(state), edited, is_flat=self.is_flat)
        if edited is None or view.get("waits_for") is not None:
            return {RECORD: _lines(journal)}
        # the decision contains the edited plan, which is then no longer an edit
        decided = of_plan(view["run_id"], view["round"], edited, self.conductor, status=view["status"])
        return {RECORD: _lines(journal), VIEW: decided}

    def first(self, state: State, config: RunnableConfig) -> Literal["plan", "execute"]:
        """Return the first node of a run."""
        del state
        return "execute" if self._begins(config) else "plan"

    def following(self, state: State) -> str:
        """Return the next node after a run was started or continued."""
        status = state[VIEW]["status"]
        return "approve" if status == "waiting" else "execute" if status == "planned" else END

    async def _begin(
        self,
        state: State,
        config: RunnableConfig,
        run_id: str,
        journal: Journal | None,
        step_starter: StepStarter | None,
    ) -> Result:
        """Start a run; a run that is already in a journal is resumed."""
        query = self._query(state)
        named = run_id if journal is not None else None
        if isinstance(journal, StateJournal) and not journal.is_empty:
            return await self._called(self._resume(run_id), config, journal, step_starter)
        heard: list[Event] | None = None if self.conductor.journal is None else []
        texts = named_texts(state, self.context)
        form = self.response_format
        asked: dict[str, Any] = {} if form is None else {"tools": form.tools, "sampling": form.sampling}
        begun = bound(
            self.conductor.run, query, run_id=named, context=texts, labels=context_labels(), **asked
        )
        result = await self._called(begun, config, journal, step_starter, heard)
        if heard is not None and result.status in ("failed", "partial") and isinstance(heard[0], RunEnded):
            # The run failed in an earlier call of the node, and is resumed here.
            again = self._resume(run_id)
            result = await self._called(again, config, journal, step_starter)
        return result

    def _resume(self, run_id: str, plan: Plan | None = None) -> Callable[..., Awaitable[Result]]:
        """Return a function that resumes a run; an answer that must be complete may be made again."""
        return bound(self.conductor.resume, run_id, plan=plan, refresh=self.partial == "raise")

    async def _called(
        self,
        run: Callable[..., Awaitable[Result]],
        config: RunnableConfig,
        journal: Journal | None,
        step_starter: StepStarter | None,
        heard: list[Event] | None = None,
    ) -> Result:
        """Call the conductor, and raise LangGraph's control-flow exceptions unchanged."""
        self._fields(self.conductor)
        above = _namespace(config)
        place = (enclosing(above) if self.is_inner else "") or above
        messages = MessageStream(config, place, show_steps=self.show_steps)
        quiet = without_streams(config.get("callbacks"))
        try:
            with nullcontext() if quiet is None else under(quiet):
                tell = stream_events(
                    get_stream_writer(), self.conductor.pool.names, heard, has_pieces=self.show_steps
                )
                begun = bound(
                    run,
                    policy=context_policy(),
                    limits=context_limits() or self.limits,
                    journal=None if journal is self.conductor.journal else journal,
                    middleware=pass_graph_exits(child_runs(), waits=step_starter is not None),
                    step_starter=step_starter,
                )
                if not messages.is_heard:
                    return await unwrap_graph_exit(begun(on_event=tell))
                return await unwrap_graph_exit(
                    messages.listen(lambda emit: begun(on_event=_both(emit, tell)))
                )
        except GraphExit as graph_exit:
            if isinstance(graph_exit.raised, GraphInterrupt) and step_starter is None:
                told = "steps can wait for a person only as nodes of a graph: use executor='langgraph'"
                wrong = ConfigError(f"worker {graph_exit.worker!r} called interrupt(): {told}")
                wrong.actions = graph_exit.actions
                raise wrong from None
            raise raised_above(graph_exit, enclosing(above) if self.is_inner else above) from None

    async def _kept(self, result: Result, journal: Journal | None) -> Data:
        """Return the update of the state after a run has ended, waits, or has its next plan."""
        if result.status != "waiting":
            return self._ended(result) | {RECORD: []}
        assert result.problem is not None
        current, status = result.rounds[-1], "planned" if result.problem.code == PAUSED else "waiting"
        assert current.plan is not None
        view = of_plan(result.run_id, current.number, current.plan, self.conductor, status=status)
        if status == "waiting" and journal is not None:
            async with journal:
                events = [entry.event for entry in await journal.read(result.run_id)]
            view["waits_for"] = fold(events).waiting[0].step
        return {VIEW: view, RECORD: _lines(journal)}

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
        data[UPDATES] = self._fields(self.conductor).updates(result, answer)
        if self.output != MESSAGES:
            return data | {self.output: said}
        if refused and result.problem is not None and not said:
            said = result.problem.message
        return data | {self.output: [answer_message(said, data[VIEW], self.name)]}

    def _query(self, state: State) -> tuple[Message, ...]:
        asked = state.get(self.input)
        if not asked:
            told = f"set it, or name another key, as in conductor_node(..., input={self.input!r})"
            raise ConfigError(f"the state has no question under {self.input!r}: {told}")
        query = to_query(asked)
        return query.query if isinstance(query, Plan) else query

    def _journal(self, state: State) -> Journal:
        """Return the journal of a continued run: the conductor's, or else the one in the state."""
        return self.conductor.journal or StateJournal(state.get(RECORD, ()))

    def _begins(self, config: RunnableConfig) -> bool:
        """Return whether a run starts in the execute node, because its plan cannot be stored before."""
        return not self.waits and not is_kept(config)

    def _planned(self, view: Data) -> Plan:
        """Return the plan in the state, with the pool's current worker numbers."""
        plan = Plan.from_json(view["plan"])
        most_steps = self.conductor.limits.plan_steps
        plan.fit(len(view["workers"]), most_steps, previous=view["round"] > 1)
        return for_pool(plan, view["workers"], self.conductor.pool.names)

    def _edited(self, view: Data) -> Plan | None:
        """Return the plan in the state if it was edited there since planning; otherwise `None`."""
        plan, names = self._planned(view), self.conductor.pool.names
        return None if plan_hash(plan, names) == view["hash"] else plan

    def _new_id(self, config: RunnableConfig) -> str:
        """Return the id of a new run: the same in all tries of the node."""
        return sha256(self._place(config).encode()).hexdigest()[:32]

    def _place(self, config: RunnableConfig) -> str:
        """Return the namespace of the conductor's node: the same in all tries of the node."""
        namespace = _namespace(config)
        return (enclosing(namespace) if self.is_inner else namespace) or namespace


def _is_refused(result: Result) -> bool:
    """Return whether a person has refused the latest plan; a refused action leaves the rest of its plan."""
    current = result.rounds[-1] if result.rounds else None
    steps = () if current is None or current.plan is None else current.outcomes[: len(current.plan.steps)]
    return bool(steps) and all(step.problem is not None and step.problem.code == REFUSED for step in steps)


def _lines(journal: Journal | None) -> list[str]:
    """Return the record of a run for the state: empty if the conductor's journal has it."""
    return journal.lines() if isinstance(journal, StateJournal) else []


def _both(first: Listener, second: Listener | None) -> Listener:
    """Return a listener that passes each event to two listeners."""
    if second is None:
        return first

    def tell(event: Event) -> None:
        second(event)
        first(event)

    return tell


def _namespace(config: RunnableConfig) -> str:
    namespace: str = config.get("configurable", {}).get("checkpoint_ns", "")
    if not namespace:
        raise ConfigError("a conductor's node works only inside a graph: use ConductorRunnable elsewhere")
    return namespace
