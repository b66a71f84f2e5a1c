"""Shows the steps of a run as nodes of LangGraph graphs, one graph for each plan of the run.

The run executes the steps. The node of a step waits for the end of its step, and delivers the outcome to the
graph's state. Only calls that may interrupt, and questions to people, are carried out in the node, because
`interrupt()` belongs to a node.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.types import Command, Send, interrupt

from langchain_podium.cancellation import CallInThread, apart, cancelled
from langchain_podium.graph.approval import plan_request, read_reply, step_request
from langchain_podium.graph.around import Data, State, is_called_sync
from langchain_podium.graph.checkpoints import namespace
from langchain_podium.graph.control_flow import GraphExit, raised_above
from langchain_podium.graph.plan_graph import (
    APPROVE,
    SHOWN,
    STEPS,
    Part,
    Shape,
    compiled,
    place_of,
    shape_of,
    write_end,
)
from langchain_podium.graph.state import VIEW, drawn, of_plan, plan_hash, plan_of
from podium.conductor import Conductor
from podium.errors import PlanError
from podium.execution import HostExit
from podium.execution.graph import SUPERSEDED
from podium.types import ApprovalAsked, ApprovalGiven, Event, Message, Outcome, Plan, StepEnded
from podium.types.steps import plan_step
from podium.workers import Worker

_SCRATCHPAD: Final = "__pregel_scratchpad"
"""The configuration key of the counters of a node."""
_SUPERSTEPS: Final = 100_000
"""A limit that no plan reaches: its own limits end it."""
_MOST_PASSES: Final = 3

Ends = Mapping[str, tuple[str | None, Outcome]]
"""Outcomes by name, with the hashes of their inputs; see `read_ends`."""
Reply = tuple[Any, Data | None]
"""What a person said; of a plan, with the view of the run in the state of its graph."""


@dataclass(slots=True, eq=False)
class _Seat:
    """What an execution needs from its node."""

    work: tuple[Callable[[], Awaitable[None]], "asyncio.Future[None]"] | None = None
    """A call to carry out."""
    question: tuple[ApprovalAsked, str, "asyncio.Future[Reply | None]"] | None = None
    """What a person is asked, and why the last answer is not used."""
    inside: dict[str, None] = field(default_factory=dict)
    """The executions inside of a map or a block."""
    asks: asyncio.Lock = field(default_factory=asyncio.Lock)
    """For one question after the other."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """End what waits for the node, without a result."""
        for waiting in (self.work, self.question):
            if waiting is not None and not waiting[-1].done():
                waiting[-1].set_result(None)
        self.work = self.question = None
        self.woken.set()


@dataclass(slots=True, eq=False, kw_only=True)
class PlanHost:
    """Shows the steps of a run in the graphs of its plans, inside of the conductor's node; see `Host`."""

    conductor: Conductor
    config: RunnableConfig
    """The configuration of the conductor's node."""
    query: tuple[Message, ...]
    texts: Mapping[str, str]
    shows: bool = True
    """Whether plans are shown; otherwise a step that interrupts waits until the run continues with graphs."""
    takes_all: bool = False
    """Whether each worker may interrupt, and not only those that are known for it."""
    keep: Callable[[], Awaitable[None]] | None = None
    """Stores the record of the run, before the first step of a plan is shown."""
    plans: list[tuple[int, str]] = field(default_factory=list)
    """The rounds and hashes of the plans of the run so far."""
    before: tuple[int, str, Ends] | None = None
    """The outcomes that a graph has stored, with the round and the hash of their plan."""
    interrupt: GraphInterrupt | None = None
    """The interrupt to raise from the node after the run, because a step waits for a person."""
    left: GraphExit | None = None
    """How a worker has left its call, in a node or outside; without an `interrupt`, it must run in a node."""
    run_id: str = ""
    """Empty until it is known, without a record."""
    ends: dict[tuple[int, str], StepEnded] = field(default_factory=dict)
    """The ends of steps and executions, by round and name."""
    seats: defaultdict[tuple[int, str], _Seat] = field(default_factory=lambda: defaultdict(_Seat))
    _graph: "PlanGraph | None" = None
    is_closed: bool = False
    """Whether the nodes take nothing any more, because the graph was interrupted or left."""

    def hear(self, event: Event) -> None:
        """Take note of an event of the run, after it is recorded."""
        self.run_id = self.run_id or event.run_id
        if not isinstance(event, StepEnded) or event.run_id != self.run_id:
            return
        outcome = event.outcome
        if outcome.problem is None or outcome.problem.code != SUPERSEDED.code:
            self.ends[event.round, outcome.name] = event
            self.begin(event.round, [outcome.name])
            seat = self.seats[event.round, outcome.name]
            seat.release()
            for name in seat.inside:
                self.seats[event.round, name].woken.set()

    async def show(self, number: int, plan: Plan) -> None:
        """Show the steps of a round, until all have ended or a node has interrupted."""
        if not self.shows:
            return
        graph = await self._graph_of(number, plan)
        await graph.end(follows=True)

    def takes(self, worker: Worker) -> bool:
        """Return whether the calls of a worker, which may interrupt, are carried out in nodes."""
        return self.shows and (self.takes_all or worker.is_interruptible)

    def keeps(self, left: HostExit) -> bool:
        """Return whether a step waits that has interrupted outside of a node."""
        if not isinstance(left, GraphExit) or not isinstance(left.raised, GraphInterrupt):
            return False
        self.left = left
        self.leave()
        return True

    async def call(self, number: int, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Carry out an execution in its node."""
        if self.is_closed:
            return
        seat = self.seats[number, name]
        seat.work = given = (work, asyncio.get_running_loop().create_future())
        seat.woken.set()
        try:
            await given[1]
        finally:
            seat.work = None if seat.work is given else seat.work

    def begin(self, number: int, names: Sequence[str]) -> None:
        """Take note of executions inside of maps and blocks that begin."""
        for name in names:
            if not name.isdecimal() and name not in (seat := self.seats[number, str(plan_step(name))]).inside:
                seat.inside[name] = None
                seat.woken.set()

    def stored(self, number: int, plan: Plan, name: str) -> tuple[str | None, Outcome] | None:
        """Return the outcome of an execution in the state of the plan's graph."""
        if self.before is None or self.before[:2] != (number, self._hash(plan)):
            return None
        return self.before[2].get(name)

    async def decide(self, asked: ApprovalAsked, problem: str) -> ApprovalGiven | None:
        """Ask a person in the node of the step, or of the plan, until there is a decision or an answer."""
        name = APPROVE if asked.step is None else asked.name
        if asked.step is None:
            (await self._graph_of(asked.round, asked.plan, approves=True)).start()
        elif asked.path and asked.path not in self.seats[asked.round, str(plan_step(name))].inside:
            name = str(plan_step(name))
        seat = self.seats[asked.round, name]
        async with seat.asks:
            while not self.is_closed:
                reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
                seat.question = asked, problem, reply
                seat.woken.set()
                if (said := await reply) is None:
                    break
                try:
                    return read_reply(asked, *said, self.conductor)
                except PlanError as error:
                    problem = str(error)
        return None

    def words(self, asked: ApprovalAsked, problem: str, view: Data | None) -> Data:
        """Return what an interrupt shows to a person; `view` is given for the approval of a plan."""
        view, is_plan = view or self.view(asked.round, asked.plan, "waiting"), view is not None
        told = drawn(view, self.conductor)
        if is_plan:
            plan = replace(plan_of(view, self.conductor), query=self.query)
            return plan_request(told, self.conductor.forecast(plan, context=self.texts or None), problem)
        return step_request(told, asked, problem)

    def view(self, number: int, plan: Plan, status: str) -> Data:
        """Return the view of the run for the state of a plan's graph."""
        return of_plan(self.run_id, number, plan, self.conductor, status=status)

    def leave(self) -> None:
        """End what waits for nodes: from now on, they take nothing."""
        self.is_closed = True
        for seat in self.seats.values():
            seat.release()

    async def close(self) -> None:
        """End all nodes after the run, and raise what a graph has raised."""
        self.leave()
        if self._graph is not None:
            await self._graph.end(follows=False)

    async def cancel(self) -> None:
        """Cancel all nodes after the run has raised."""
        self.leave()
        if self._graph is not None:
            await self._graph.cancel()

    async def _graph_of(self, number: int, plan: Plan, *, approves: bool = False) -> "PlanGraph":
        place = number, self._hash(plan)
        if self._graph is not None and self._graph.place == place:
            return self._graph
        if self._graph is not None:
            await self._graph.end(follows=False)
        if is_new := place not in self.plans:
            self.plans.append(place)
        if is_new and self.keep is not None:
            await self.keep()
        self._graph = PlanGraph(self, place, plan, approves=approves)
        return self._graph

    def _hash(self, plan: Plan) -> str:
        return plan_hash(plan, self.conductor.pool.names)


class PlanGraph:
    """The graph of one plan, while a run executes the plan."""

    def __init__(self, host: PlanHost, place: tuple[int, str], plan: Plan, *, approves: bool) -> None:
        self.place = place
        self._host = host
        self._plan = plan
        self._approves = approves
        self._run_task: asyncio.Task[None] | None = None
        self._follows: bool | None = None
        """Whether the steps follow; `None` until it is known whether the plan is approved."""
        self._shape = shape_of(plan, host.conductor)
        self._sent = set[str]()
        """The executions inside of maps and blocks that have nodes in this pass."""
        self._ran = 0
        """Number of nodes that have begun."""
        self.thread = CallInThread()
        """For the nodes, if the graph is called by sync code."""

    def start(self) -> None:
        """Start the graph, which asks for the approval of its plan."""
        if self._run_task is None:
            self._run_task = asyncio.get_running_loop().create_task(self._run())

    async def end(self, *, follows: bool) -> None:
        """Run the graph to its end; `follows` is whether its steps are executed."""
        self._follows = follows
        self._host.seats[self.place[0], APPROVE].woken.set()
        if follows:
            self.start()
        if self._run_task is not None and not self._run_task.cancelled():
            await apart(self._run_task)

    async def cancel(self) -> None:
        """Cancel the graph."""
        if self._run_task is not None:
            await cancelled(self._run_task)

    async def _run(self) -> None:
        SHOWN.set(self)
        graph, passes = compiled(self._shape, approves=self._approves), 0
        try:
            for count in itertools.count():
                self._sent, began = set(), self._ran
                status = "waiting" if self._approves else "planned"
                data = {VIEW: self._host.view(self.place[0], self._plan, status)}
                values: Mapping[str, Any]
                if is_called_sync():
                    values = await self.thread.call(partial(graph.invoke, data, self._inside(count)))
                else:
                    values = await graph.ainvoke(data, self._inside(count))
                passes += self._ran > began
                is_over = self._host.is_closed or not self._follows or passes >= _MOST_PASSES
                if is_over or self._is_delivered(values):
                    return
        except GraphInterrupt as raised:
            self._host.interrupt = raised
            self._host.leave()
        except ParentCommand:
            self._host.leave()
            if self._host.left is None:
                raise
            raise self._host.left from None
        except BaseException:
            self._host.leave()
            raise

    def _inside(self, count: int) -> RunnableConfig:
        """Return the configuration of the graph: each plan has a namespace, and each further pass, too."""
        # LangGraph adds the node's callbacks to those around the run, which do not stream: pass the latter.
        given, callbacks = self._host.config["configurable"], ensure_config().get("callbacks")
        number = self._host.plans.index(self.place)
        suffix = namespace("", number, count)[1:]
        pad = replace(given[_SCRATCHPAD], subgraph_counter=lambda: suffix)
        config = RunnableConfig(**{**self._host.config, "callbacks": callbacks})
        config["configurable"] = {**given, _SCRATCHPAD: pad}
        config["recursion_limit"] = _SUPERSTEPS
        return config

    def _end_of(self, name: str) -> StepEnded | None:
        return self._host.ends.get((self.place[0], name))

    def _is_dropped(self, name: object) -> bool:
        end = self._end_of(str(name))
        return end is not None and end.outcome.is_dropped

    def _is_delivered(self, values: Mapping[str, Any]) -> bool:
        """Return whether the state of the graph has the outcomes of all steps."""
        names, done = [str(index) for index in range(len(self._shape))], values.get(STEPS, ())
        return all(self._end_of(each) and (each in done or self._is_dropped(each)) for each in names)

    async def deliver(self, index: int, part: Part, node: str, sent: State, done: Container[str]) -> Any:
        """Return the update of a node after its step has ended, or the nodes that must run before.

        What another node has `sent` is empty for a node to which an edge leads; `done` are the names of the
        executions in the state.
        """
        self._ran += 1
        name, nodes = sent.get("name", str(index)), dict(part.inside) if node == part.name else {}
        for need in map(str, part.needs):
            if self._end_of(need) is None or not (sent or need in done or self._is_dropped(need)):
                return {}
        seat, replies = self._host.seats[self.place[0], name], list(sent.get("replies", ()))
        while True:
            seat.woken.clear()
            new = [each for each in seat.inside if place_of(each) in nodes and each not in self._sent]
            new = [each for each in new if each not in done]
            if seat.question is not None and (again := self._ask(seat, name, node, replies)) is not None:
                return again
            if seat.work is not None:
                await self._carry_out(seat)
            elif new:
                self._sent.update(new)
                return Command(goto=[Send(nodes[place_of(each)], {"name": each}) for each in new])
            elif (end := self._end_of(name)) is not None:
                return {STEPS: {name: write_end(end, has_parts=bool(nodes))}}
            elif self._host.is_closed or self._end_of(str(index)) is not None:  # this run has not made it
                return {}
            else:
                await seat.woken.wait()

    async def approve(self, sent: State, view: Data) -> Any:
        """Return the update of the node that asks for the approval of the plan."""
        self._ran += 1
        seat, replies = self._host.seats[self.place[0], APPROVE], list(sent.get("replies", ()))
        while self._follows is None:
            seat.woken.clear()
            if seat.question is not None and (again := self._ask(seat, APPROVE, APPROVE, replies, view)):
                return again
            if seat.question is None and self._follows is None:
                await seat.woken.wait()
        return {VIEW: {**view, "status": "planned"}} if self._follows else {}

    def follows_approval(self) -> bool:
        """Return whether the steps of the plan follow its approval."""
        return bool(self._follows)

    def following(self, index: int, shape: Shape, reached: Iterable[int]) -> list[str]:
        """Return the nodes that can run after a step has ended."""
        if self._end_of(str(index)) is None:
            return []
        dropped = {index, *filter(self._is_dropped, reached)}
        due = [
            each
            for each in reached
            if each not in dropped
            and not dropped.isdisjoint(shape[each].needs)
            and all(self._end_of(str(need)) is not None for need in shape[each].needs)
        ]
        return [shape[each].name for each in due]

    def _ask(
        self, seat: _Seat, name: str, node: str, replies: list[Any], view: Data | None = None
    ) -> "Command[Any] | None":
        """Ask a person, and send the answer to another task of the node; there, give it to the run.

        So each question has a task of its own, to which LangGraph assigns the answer.
        """
        assert seat.question is not None
        asked, problem, reply = seat.question
        if replies:
            seat.question = None
            reply.set_result((replies.pop(), view))
            return None
        try:
            said = interrupt(self._host.words(asked, problem, view))
        except GraphInterrupt:
            seat.release()
            raise
        return Command(goto=Send(node, {"name": name, "replies": [said]}))

    async def _carry_out(self, seat: _Seat) -> None:
        """Carry out the call of an execution in its node."""
        assert seat.work is not None
        (work, done), seat.work = seat.work, None
        try:
            await work()
        except GraphExit as left:
            self._host.left = left
            raise raised_above(left, self._host.config["configurable"]["checkpoint_ns"]) from None
        except Exception as bug:  # noqa: BLE001 - the run raises it
            done.set_exception(bug)
        finally:
            if not done.done():
                done.set_result(None)
