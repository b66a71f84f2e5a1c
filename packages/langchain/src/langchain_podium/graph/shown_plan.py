"""The graph of one plan, while a run executes the plan.

The run executes the steps. The node of a step waits for the end of its step, and delivers the outcome to the
graph's state. Only calls that may interrupt, and questions to people, are carried out in the node, because
an interrupt belongs to a node.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from re import findall
from typing import TYPE_CHECKING, Any, Final

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.types import Command, Interrupt, Send

from langchain_podium.cancellation import CallInThread, apart, cancelled
from langchain_podium.graph.approval import id_of
from langchain_podium.graph.around import Data, is_called_sync
from langchain_podium.graph.checkpoints import SCRATCHPAD, namespace
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
from langchain_podium.graph.state import VIEW
from podium.types import ApprovalAsked, Plan, StepEnded
from podium.types.steps import plan_step

if TYPE_CHECKING:
    from langchain_podium.graph.plan_host import PlanHost

_SENT: Final = "__pregel_tasks"
"""The name under which a node reads what was sent to nodes of the same superstep."""
_SUPERSTEPS: Final = 100_000
"""A limit that no plan reaches: its own limits end it."""
_MOST_PASSES: Final = 3
_PATIENCE: Final = 0.2
"""Seconds in which nodes of a superstep begin, before it is ended because all of them only wait."""

Reply = tuple[Any, Data | None]
"""What a person said; of a plan, with the view of the run in the state of its graph."""


@dataclass(slots=True, eq=False)
class Seat:
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
    is_let_go: bool = False
    """Whether its node ends without waiting longer."""

    @property
    def is_open(self) -> bool:
        """Whether something waits for the node."""
        return self.work is not None or self.question is not None

    def release(self) -> None:
        """End what waits for the node, without a result."""
        for waiting in (self.work, self.question):
            if waiting is not None and not waiting[-1].done():
                waiting[-1].set_result(None)
        self.work = self.question = None
        self.woken.set()


class ShownPlan:
    """The graph of one plan, while a run executes the plan."""

    def __init__(self, host: "PlanHost", place: tuple[int, str], plan: Plan, *, approves: bool) -> None:
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
        self._running = 0
        """Number of nodes that have not ended."""
        self._resting = dict[Seat, None]()
        """Those of the running nodes that have nothing to do."""
        self._places = dict[str, list[int]]()
        """The places of interrupts in the plan, by their ids."""
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
        token = SHOWN.set(self)
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
                if self._host.is_closed or self._follows is False or self._is_delivered(values):
                    return
                if passes >= _MOST_PASSES:
                    self._host.leave()
                    return
        except GraphInterrupt as raised:
            asked = sorted(raised.args[0], key=lambda each: self._places.get(each.id, []))
            self._host.interrupt = GraphInterrupt(asked)
            self._host.leave()
        except ParentCommand:
            self._host.leave()
            if self._host.left is None:
                raise
            raise self._host.left from None
        except BaseException:  # cancellations, too: the run waits for no node
            self._host.leave()
            raise
        finally:
            SHOWN.reset(token)

    def _inside(self, count: int) -> RunnableConfig:
        """Return the configuration of the graph: each plan has a namespace, and each further pass, too."""
        # LangGraph adds the node's callbacks to those around the run, which do not stream: pass the latter.
        given, callbacks = self._host.config["configurable"], ensure_config().get("callbacks")
        number = self._host.plans.index(self.place)
        suffix = namespace("", number, count)[1:]
        pad = replace(given[SCRATCHPAD], subgraph_counter=lambda: suffix)
        config = RunnableConfig(**{**self._host.config, "callbacks": callbacks})
        config["configurable"] = {**given, SCRATCHPAD: pad}
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

    async def deliver(self, index: int, part: Part, node: str, name: str, read: Callable[[str], Any]) -> Any:
        """Return the update of a node after its step has ended, or the nodes that must run before.

        `read` reads the state, which has the executions that were delivered.
        """
        self._ran += 1
        done, sent = read(STEPS), {each.arg["name"] for each in read(_SENT) or ()}
        for need in map(str, part.needs):
            if self._end_of(need) is None or not (name in sent or need in done or self._is_dropped(need)):
                return {}
        seat, nodes = self.seat(name), dict(part.inside) if node == part.name else {}
        beside = bool(nodes) and any(plan_step(each) == index for each in sent)
        self._sent |= sent
        with self._running_node(name):
            while self._follows is not None:  # otherwise the plan is to be approved, which another pass asks
                seat.woken.clear()
                new = [each for each in seat.inside if place_of(each) in nodes and each not in self._sent]
                new = [each for each in new if each not in done or self.seat(each).is_open]
                if seat.question is not None:
                    self._ask(seat)
                elif seat.work is not None:
                    await self._carry_out(seat)
                elif new:
                    self._sent.update(new)
                    return Command(goto=[Send(nodes[place_of(each)], {"name": each}) for each in new])
                elif (end := self._end_of(name)) is not None:
                    return {STEPS: {name: write_end(end, has_parts=bool(nodes))}}
                else:  # an edge leads back from the nodes inside; the run may not have made an execution
                    ends = beside or self._host.is_closed or self._end_of(str(index)) is not None
                    if ends or not await self._rest(seat):
                        break
        return {}

    async def approve(self, view: Data) -> Any:
        """Return the update of the node that asks for the approval of the plan."""
        self._ran += 1
        seat = self.seat(APPROVE)
        with self._running_node(APPROVE):
            while self._follows is None:
                seat.woken.clear()
                if seat.question is not None:
                    self._ask(seat, view)
                elif not await self._rest(seat):
                    break
        return {VIEW: {**view, "status": "planned"}} if self._follows else {}

    def seat(self, name: str) -> Seat:
        """Return the seat of an execution."""
        return self._host.seats[self.place[0], name]

    @contextmanager
    def _running_node(self, name: str) -> Iterator[None]:
        """Count a node that runs; note the place of its interrupt."""
        self._running += 1
        try:
            yield
        except GraphInterrupt as raised:
            self._places |= {each.id: [int(n) for n in findall(r"\d+", name)] for each in raised.args[0]}
            raise
        finally:
            self._running -= 1

    async def _rest(self, seat: Seat) -> bool:
        """Wait until a node has something to do; return False if it is to end."""
        self._resting[seat] = None
        self.look()
        try:
            await seat.woken.wait()
        finally:
            del self._resting[seat]
        is_let_go, seat.is_let_go = seat.is_let_go, False
        return not is_let_go

    def look(self) -> None:
        """Let the nodes end that rest, if something waits for nodes that do not run, and nothing executes.

        The graph then reaches these nodes, in this pass or in the next one.
        """
        if self._is_stuck():
            asyncio.get_running_loop().call_later(_PATIENCE, self._let_go)

    def _is_stuck(self) -> bool:
        if self._host.executing or not self._resting or len(self._resting) < self._running:
            return False
        if any(seat.woken.is_set() for seat in self._resting):
            return False
        return any(seat.is_open for (number, _), seat in self._host.seats.items() if number == self.place[0])

    def _let_go(self) -> None:
        if self._is_stuck():
            for seat in self._resting:
                seat.is_let_go = True
                seat.woken.set()

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

    def _ask(self, seat: Seat, view: Data | None = None) -> None:
        """Give the run what a person has answered, or interrupt.

        An answer is found by the id of its request, and not by LangGraph's `interrupt()`, for which it is the
        next answer that the node has: after a kill, that may be the answer to another request.
        """
        assert seat.question is not None
        asked, problem, reply = seat.question
        words = self._host.words(asked, problem, view)
        if (key := id_of(asked, words)) not in self._host.answers:
            seat.release()
            raise GraphInterrupt([Interrupt(words, id=key)])
        seat.question = None
        reply.set_result((self._host.answers.pop(key), view))

    async def _carry_out(self, seat: Seat) -> None:
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
