"""Graphs with a conductor in them: its workers and planners, for the tests of `langchain_podium.graph`."""

from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, Final, TypedDict, get_args

import anyio
import pytest
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Command, RetryPolicy

from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from podium import Conductor, FunctionWorker, Plan, Step
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.policy import Policy
from podium.workers import FREE, StepInput, Worker

ASKED: Final[dict[str, Any]] = {"messages": [("user", "How many?")]}
CONFIG: Final[Any] = {"configurable": {"thread_id": "1"}}
EXECUTORS: Final = pytest.mark.parametrize("executor", get_args(Executor))
LATER = Policy(approve="later")
"""Each plan waits for a person."""


class Chat(TypedDict, total=False):
    """A conversation's state, as people declare it."""

    messages: Annotated[list[Any], add_messages]
    podium: dict[str, Any]


class Plans(Planner):
    """Writes one plan after the other, the last again and again, and counts."""

    name = "plans"
    reads_cards = False

    def __init__(self, *plans: Plan | str) -> None:
        self._plans = plans
        self.asked = 0

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        plan = self._plans[min(self.asked, len(self._plans) - 1)]
        self.asked += 1
        yield PlanText(text=(plan if isinstance(plan, str) else write_plan(plan, "rows")), cost=0.0)


class Slow(Planner):
    """Writes a row, and the others once it may."""

    name = "slow"

    def __init__(self, rest: anyio.Event, *rows: str) -> None:
        self._rest = rest
        self._rows = rows
        self.asked = 0

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        self.asked += 1
        yield self._rows[0]
        with anyio.fail_after(10):
            await self._rest.wait()
        for row in self._rows[1:]:
            yield row
        yield PlanText(text="".join(self._rows), cost=0.0)


class Calls:
    """Who was called, in order, and makes workers that tell of it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.briefs: list[StepInput] = []

    def worker(self, name: str, says: Callable[[StepInput], str] | None = None) -> Worker:
        """Return a worker that says its name with what it was shown in brackets, or what it is told to."""

        async def work(step_input: StepInput) -> str:
            self.names.append(name)
            self.briefs.append(step_input)
            shown = ",".join(step.output for step in step_input.visible)
            return f"{name}({shown})" if says is None else says(step_input)

        work.__name__ = name
        return FunctionWorker(work, price=FREE)

    def asking(self, name: str, says: Callable[[StepInput], str]) -> Worker:
        """Return such a worker that is known to interrupt."""
        worker = self.worker(name, says)
        worker.is_interruptible = True
        return worker

    def workers(self, names: str) -> list[Worker]:
        return [self.worker(name) for name in names]


def decided(kind: str = "approve", **facts: Any) -> Command[Any]:
    """Return the decision of a person, as chat interfaces for LangChain's agents send it."""
    return Command(resume={"decisions": [{"type": kind, **facts}]})


def edited(*steps: dict[str, Any]) -> Command[Any]:
    """Return the decision that changes a plan to these steps."""
    return decided("edit", edited_action={"name": "plan", "args": {"steps": steps}})


DIAMOND = Plan((Step(0, "begin"), Step(1, "left", (0,)), Step(2, "right", (0,)), Step(3, "join", (1, 2))))
"""Four steps, of which the two in the middle see the first."""


FIRST = '{"worker": 0, "subtask": "look", "access": []}\n'
LAST = '{"worker": 1, "subtask": "write", "access": [0]}\n'
"""The rows of a plan of two steps."""


def around(
    conductor: Conductor,
    *,
    checkpointer: Checkpointer = None,
    state: type[Any] = Chat,
    tries: int = 1,
    **options: Any,
) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return a graph of a user's own, with the conductor as its only node, which is tried `tries` times."""
    graph = StateGraph(state)
    policy = RetryPolicy(max_attempts=tries, initial_interval=0.001, jitter=False)
    graph.add_node("conductor", conductor_node(conductor, **options), retry_policy=policy)
    graph.add_edge(START, "conductor")
    return graph.compile(checkpointer=checkpointer)
