"""What the nodes of a conductor do: plan, have the plan looked at, and carry it out.

It owns how a run and a graph's state are each read as the other, and how a run goes on in
a later call of the graph, in another process too. It knows no edges: `node` draws them.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial as bound
from hashlib import sha256
from typing import Final, Literal, get_args

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.errors import GraphInterrupt
from langgraph.graph import END

from langchain_podium.graph.approval_interrupt import ask_approval
from langchain_podium.graph.control_flow import GraphExit, enclosing, pass_graph_exits, unwrap_graph_exit
from langchain_podium.graph.events import stream_events
from langchain_podium.graph.graph_node import Data, State
from langchain_podium.graph.journal import StateJournal
from langchain_podium.graph.kept_record import KeptRecord
from langchain_podium.graph.message_stream import Listener, MessageStream, Show, without_streams
from langchain_podium.graph.named_texts import named_texts
from langchain_podium.graph.plan_graph import raised_above
from langchain_podium.graph.state import RECORD, VIEW, of_plan, of_result, plan_hash
from langchain_podium.graph.state_keys import MESSAGES, STRUCTURED, answer_message
from langchain_podium.graph.step_starter import GraphStepStarter, check_checkpointer, is_kept, pause_round
from langchain_podium.messages import to_query
from langchain_podium.response_format import ResponseFormat
from langchain_podium.tracing import child_runs, under
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import StepStarter
from podium.hosts import answered
from podium.journal import Journal
from podium.policy import Policy
from podium.resume import renumbered
from podium.run import PAUSED, REFUSED
from podium.types import Event, Message, Plan, Result, RunEnded

Executor = Literal["podium", "langgraph"]
"""Who starts the steps: Podium, each as soon as its inputs exist; or LangGraph, in supersteps."""

Partial = Literal["return", "raise"]
"""What becomes of an answer that lacks something, as one does whose last step failed."""

_LATER: Final = Policy(approve="later")


@dataclass(slots=True, kw_only=True)
class ConductorNodes:
    """A conductor at work in a graph.

    Raises:
        ConfigError: `executor`, `partial` or `show` has another value than it may have.
    """

    conductor: Conductor
    input: str
    """Key of the state that is asked."""
    output: str
    """Key of the state that takes the answer."""
    executor: Executor
    approve: bool
    """Whether each plan is shown to somebody at an interrupt."""
    partial: Partial
    show: Show = "answer"
    """Which texts of a run are messages in the graph's streams."""
    context: Mapping[str, str] = field(default_factory=dict)
    """By name of a text, the key of the state that holds it."""
    response_format: ResponseFormat | None = None
    """The form of the answer, which the state then has under `structured_response` too; `None`: text."""
    name: str | None = None
    """The name on the message that holds the answer."""
    is_inner: bool = True
    """Whether the nodes stand in a graph of the conductor's own, which may be inside of the user's."""

    def __post_init__(self) -> None:
        for name, kind in (("executor", Executor), ("partial", Partial), ("show", Show)):
            if getattr(self, name) not in get_args(kind):
                told = " or ".join(get_args(kind))
                raise ConfigError(f"{name} is {getattr(self, name)!r:.40}: it is {told}")

    @property
    def waits(self) -> bool:
        """Whether plans wait for somebody."""
        return self.approve or self.conductor.policy.waits

    async def conduct(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Do the whole run in one node."""
        del is_sync
        journal, run_id = self.conductor.journal, self._new_id(config)
        return self._ended(await self._begin(state, config, run_id, journal, None))

    async def plan(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Begin a run, up to its plan, so that this is kept before anything is paid for by it."""
        del is_sync
        if self.waits:
            check_checkpointer(config)
        run_id, journal = self._new_id(config), self.conductor.journal or StateJournal()
        return self._kept(await self._begin(state, config, run_id, journal, pause_round), journal)

    async def execute(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Go on with the run, to its end or to the next plan; where nothing is kept, do all of it."""
        begins = self._begins(config)
        number = None if begins else state[VIEW]["round"]
        step_starter = None
        if self.executor == "langgraph":
            step_starter = GraphStepStarter(config, number, is_sync=is_sync)
        if begins:
            run_id, journal = self._new_id(config), self.conductor.journal
            result = await self._begin(state, config, run_id, journal, step_starter)
            return self._written(result, journal, step_starter)
        if self.conductor.journal is not None:
            return await self._go_on(state, config, self.conductor.journal, step_starter)
        record = KeptRecord(config, is_sync=is_sync)
        kept = StateJournal(await record.read() or state[RECORD])
        try:
            return await self._go_on(state, config, kept, step_starter)
        except Exception:  # with an exception, an interrupt too, the node writes nothing to the state
            await record.write(kept.lines())
            raise

    async def _go_on(
        self, state: State, config: RunnableConfig, journal: Journal, step_starter: GraphStepStarter | None
    ) -> Data:
        view = state[VIEW]
        go_on = bound(self.conductor.resume, view["run_id"], plan=self._edited(view))
        return self._written(await self._called(go_on, config, journal, step_starter), journal, step_starter)

    def _written(
        self, result: Result, journal: Journal | None, step_starter: GraphStepStarter | None
    ) -> Data:
        """Return what the state is to hold, or raise the interrupt of a step."""
        if step_starter is not None and step_starter.interrupt is not None:
            raise step_starter.interrupt
        return self._kept(result, journal)

    async def ask(self, state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        """Show the plan at an interrupt, until somebody has said something of it that can be done."""
        del config, is_sync
        journal, view = self._journal(state), state[VIEW]
        edited = self._edited(view)
        await ask_approval(self.conductor, journal, view, self._query(state), edited)
        if edited is None:
            return {RECORD: _lines(journal)}
        names = self.conductor.pool.names  # the decision holds the edited plan, which is no edit any more
        decided = of_plan(view["run_id"], view["round"], edited, names, status=view["status"])
        return {RECORD: _lines(journal), VIEW: decided}

    def first(self, state: State, config: RunnableConfig) -> Literal["plan", "execute"]:
        """Return the node that a run begins in."""
        del state
        return "execute" if self._begins(config) else "plan"

    def following(self, state: State) -> str:
        """Return the node that is next, after a run was begun or went on."""
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
        """Begin a run; one that was begun before and is in a journal goes on."""
        query = self._query(state)
        named = run_id if journal is not None else None
        heard: list[Event] | None = None if self.conductor.journal is None else []
        texts = named_texts(state, self.context)
        tools = () if self.response_format is None else self.response_format.tools
        begun = bound(self.conductor.run, query, run_id=named, context=texts, tools=tools)
        result = await self._called(begun, config, journal, step_starter, heard)
        if heard is not None and result.status in ("failed", "partial") and isinstance(heard[0], RunEnded):
            # It failed in an earlier call of the node, and is there to be gone on with.
            result = await self._called(bound(self.conductor.resume, run_id), config, journal, step_starter)
        return result

    async def _called(
        self,
        run: Callable[..., Awaitable[Result]],
        config: RunnableConfig,
        journal: Journal | None,
        step_starter: StepStarter | None,
        heard: list[Event] | None = None,
    ) -> Result:
        """Call the conductor, and raise what LangGraph leaves a node by as it came."""
        above = _namespace(config)
        messages = MessageStream(config, (enclosing(above) if self.is_inner else "") or above, self.show)
        quiet = without_streams(config.get("callbacks"))
        try:
            with nullcontext() if quiet is None else under(quiet):
                tell = stream_events(get_stream_writer(), self.conductor.pool.names, heard)
                begun = bound(
                    run,
                    policy=_LATER if self.approve and not self.conductor.policy.waits else None,
                    journal=None if journal is self.conductor.journal else journal,
                    middleware=pass_graph_exits(child_runs()),
                    step_starter=step_starter,
                )
                if not messages.is_heard:
                    return await unwrap_graph_exit(begun(on_event=tell))
                return await unwrap_graph_exit(
                    messages.listen(lambda emit: begun(on_event=_both(emit, tell)))
                )
        except GraphExit as graph_exit:
            if isinstance(graph_exit.raised, GraphInterrupt) and step_starter is None:
                told = "steps can wait for somebody only as nodes of a graph: give it executor='langgraph'"
                raise ConfigError(f"worker {graph_exit.worker!r} called interrupt(): {told}") from None
            raise raised_above(graph_exit, enclosing(above) if self.is_inner else above) from None

    def _kept(self, result: Result, journal: Journal | None) -> Data:
        """Return what is to stand in the state once a run has ended, waits, or has its next plan."""
        if result.status != "waiting":
            return self._ended(result) | {RECORD: []}
        assert result.problem is not None
        current, status = result.rounds[-1], "planned" if result.problem.code == PAUSED else "waiting"
        assert current.plan is not None
        view = of_plan(result.run_id, current.number, current.plan, result.workers, status=status)
        return {VIEW: view, RECORD: _lines(journal)}

    def _ended(self, result: Result) -> Data:
        """Return what a run leaves in the state.

        Raises:
            RunFailed: it came to nothing, and nobody wanted it so.
        """
        refused = result.problem is not None and result.problem.code == REFUSED
        if not refused:
            answered(result, partial=self.partial)
        said = result.answer
        data: Data = {VIEW: of_result(result)}
        if self.response_format is not None:
            data[STRUCTURED] = None if refused else self.response_format.read(result)
            said = said if refused else self.response_format.text(data[STRUCTURED])
        if self.output != MESSAGES:
            return data | {self.output: said}
        if refused and result.problem is not None and not said:
            said = result.problem.message
        return data | {self.output: [answer_message(said, data[VIEW], self.name)]}

    def _query(self, state: State) -> tuple[Message, ...]:
        asked = state.get(self.input)
        if not asked:
            told = f"set it, or name another key, as in conductor_node(..., input={self.input!r})"
            raise ConfigError(f"the state has nothing under {self.input!r} to be asked: {told}")
        query = to_query(asked)
        return query.query if isinstance(query, Plan) else query

    def _journal(self, state: State) -> Journal:
        """Return where the run that goes on is recorded: with the conductor, or else in the state."""
        return self.conductor.journal or StateJournal(state[RECORD])

    def _begins(self, config: RunnableConfig) -> bool:
        """Say whether a run is begun where it is carried out: its plan cannot be kept before."""
        return not self.waits and not is_kept(config)

    def _planned(self, view: Data) -> Plan:
        """Return the plan that stands in the state, numbered as the pool is now."""
        plan = Plan.from_json(view["plan"])
        most_steps = self.conductor.limits.plan_steps
        plan.fit(len(view["workers"]), most_steps, previous=view["round"] > 1)
        return renumbered(plan, view["workers"], self.conductor.pool.names)

    def _edited(self, view: Data) -> Plan | None:
        """Return the plan in the state, where somebody has changed it there since it was planned."""
        plan, names = self._planned(view), self.conductor.pool.names
        return None if plan_hash(plan, names) == view["hash"] else plan

    def _new_id(self, config: RunnableConfig) -> str:
        """Return the id of the run that a node begins: the same if the node is begun again."""
        namespace = _namespace(config)
        place = enclosing(namespace) if self.is_inner else namespace
        return sha256((place or namespace).encode()).hexdigest()[:32]


def _lines(journal: Journal | None) -> list[str]:
    """Return what the state keeps of a run: nothing, where it is recorded with the conductor."""
    return journal.lines() if isinstance(journal, StateJournal) else []


def _both(first: Listener, second: Listener | None) -> Listener:
    """Return what tells two listeners of each event."""
    if second is None:
        return first

    def tell(event: Event) -> None:
        second(event)
        first(event)

    return tell


def _namespace(config: RunnableConfig) -> str:
    namespace: str = config.get("configurable", {}).get("checkpoint_ns", "")
    if not namespace:
        raise ConfigError("a conductor's node works inside of a graph: use ConductorRunnable elsewhere")
    return namespace
