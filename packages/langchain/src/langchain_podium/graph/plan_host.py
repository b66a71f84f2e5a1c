"""Shows the steps of a run as nodes of LangGraph graphs: one graph, of `shown_plan`, for each plan."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt

from langchain_podium.graph.approval import plan_request, read_reply, step_request
from langchain_podium.graph.around import Data
from langchain_podium.graph.control_flow import GraphExit
from langchain_podium.graph.plan_graph import APPROVE
from langchain_podium.graph.shown_plan import Reply, Seat, ShownPlan
from langchain_podium.graph.state import drawn, of_plan, plan_hash, plan_of
from podium.conductor import Conductor
from podium.errors import PlanError
from podium.execution import HostExit
from podium.execution.graph import SUPERSEDED
from podium.run_state.actions import by_command
from podium.types import Action, ApprovalAsked, ApprovalGiven, Event, Message, Outcome, Plan, StepEnded
from podium.types.steps import plan_step
from podium.workers import Worker

Ends = Mapping[str, tuple[str | None, Outcome]]
"""Outcomes by name, with the hashes of their inputs; see `read_ends`."""


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
    answers: dict[str, Any] = field(default_factory=dict)
    """What people have answered, by the ids of interrupts."""
    run_id: str = ""
    """Empty until it is known, without a record."""
    ends: dict[tuple[int, str], StepEnded] = field(default_factory=dict)
    """The ends of steps and executions, by round and name."""
    seats: defaultdict[tuple[int, str], Seat] = field(default_factory=lambda: defaultdict(Seat))
    executing: set[tuple[int, str]] = field(default_factory=set)
    """The executions that have begun, have not ended, and do not wait for a person or a node."""
    _graph: ShownPlan | None = None
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
            self._note(event.round, outcome.name)
            self.executing.discard((event.round, outcome.name))
            seat = self.seats[event.round, outcome.name]
            seat.release()
            for name in seat.inside:
                self.seats[event.round, name].woken.set()
            self.look()

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
        self.executing.discard((number, name))
        seat.woken.set()
        self.look()
        try:
            await given[1]
        finally:
            seat.work = None if seat.work is given else seat.work

    def begin(self, number: int, names: Sequence[str]) -> None:
        """Take note of executions that begin."""
        for name in names:
            self.executing.add((number, name))
            self._note(number, name)

    def _note(self, number: int, name: str) -> None:
        """Tell the node of a map or a block of an execution inside."""
        if not name.isdecimal() and name not in (seat := self.seats[number, str(plan_step(name))]).inside:
            seat.inside[name] = None
            seat.woken.set()

    def look(self) -> None:
        """Look whether the nodes that run wait for others; see `ShownPlan.look`."""
        if self._graph is not None:
            self._graph.look()

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
        seat, place = self.seats[asked.round, name], (asked.round, asked.name)
        async with seat.asks:
            while not self.is_closed:
                reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
                seat.question, executes = (asked, problem, reply), place in self.executing
                self.executing.discard(place)
                seat.woken.set()
                self.look()
                if (said := await reply) is None:
                    break
                self.executing |= {place} if executes else set()
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

    def remedy(self, action: Action, options: str) -> str:
        """Return how a person decides on an action whose end is unknown, or which has failed."""
        if self.keep is None:
            return by_command(action, options)
        where = f"step {action.name}" + (f" of round {action.round}" if action.round > 1 else "")
        told = f"see for yourself, then edit the outcome of {where} in the state of the subgraph"
        told += "" if self.shows else ', which executor="langgraph" shows'
        done = 'to "status": "ok", "action": "done", "problem": None and a "text"'
        return f'{told}, {done}, or only to "action": "not_done"'

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
            self._graph = None

    async def cancel(self) -> None:
        """Cancel all nodes after the run has raised."""
        self.leave()
        if self._graph is not None:
            await self._graph.cancel()
            self._graph = None

    async def _graph_of(self, number: int, plan: Plan, *, approves: bool = False) -> ShownPlan:
        place = number, self._hash(plan)
        if self._graph is not None and self._graph.place == place:
            return self._graph
        if self._graph is not None:
            await self._graph.end(follows=False)
        if is_new := place not in self.plans:
            self.plans.append(place)
        if is_new and self.keep is not None:
            await self.keep()
        self._graph = ShownPlan(self, place, plan, approves=approves)
        return self._graph

    def _hash(self, plan: Plan) -> str:
        return plan_hash(plan, self.conductor.pool.names)
