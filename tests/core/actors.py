"""Workers, hosts and plans for the tests of runs, where `ScriptedWorker` cannot play the part."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from podium import Card, ChatPlanner, Conductor, Plan, Result, Retry, ScriptedWorker, Step
from podium.errors import WorkerBroken
from podium.hosts import ToolWorker
from podium.plan_text import write_plan
from podium.planners import FixedPlanner, Planner, PlanRequest, PlanText
from podium.types import Completion, Event, Outcome, Problem, Proposal, StepDelta, StepEnded, StepStarted
from podium.usage import Usage
from podium.workers import FREE, Request, Worker
from podium.workers.simple import Reply

Act = Callable[[Request], AsyncGenerator[str | Completion, None]]
Row = tuple[int, str, tuple[int, ...]]
ONCE = Retry(attempts=1)


class Actor(Worker):
    """Does what an async generator function does, and counts calls, their ends and their stops."""

    def __init__(self, name: str | Card, act: Act) -> None:
        self.card = name if isinstance(name, Card) else Card(name=name, price=FREE)
        self._act = act
        self.requests: list[Request] = []
        self.running = 0
        self.peak = 0
        """Most calls that ran at the same time."""
        self.stopped = 0
        """Calls that saw a cancel."""

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        self.requests.append(request)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            async with aclosing(self._act(request)) as pieces:
                async for piece in pieces:
                    yield piece
        except anyio.get_cancelled_exc_class():
            self.stopped += 1
            raise
        finally:
            self.running -= 1


def writing(*pieces: str, pause: float = 1.0) -> Act:
    """Return an act that writes each piece after a pause, in seconds, and ends well."""

    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        for piece in pieces:
            await anyio.sleep(pause)
            yield piece
        yield Completion("".join(pieces), usage=Usage(10, 5))

    return act


def answering(text: str, *, latency: float = 0.0, usage: Usage | None = None) -> Act:
    """Return an act that gives a whole answer after a time, in seconds."""

    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        await anyio.sleep(latency)
        yield Completion(text, usage=usage or Usage(10, 5))

    return act


def yielding(*pieces: Any) -> Callable[[Any], AsyncGenerator[Any, None]]:
    """Return an act of a worker or planner that yields these; exceptions are raised, `...` waits for ever."""

    async def act(request: object) -> AsyncGenerator[Any, None]:
        for piece in pieces:
            await checkpoint()
            if isinstance(piece, BaseException):
                raise piece
            if piece is ...:
                await anyio.sleep_forever()
            yield piece

    return act


def breaking_off(first: str, second: str) -> Actor:
    """Return a writer that breaks off in its first text, and then writes its second text."""
    texts = [first, second]

    async def act(request: Request) -> AsyncGenerator[str | Completion, None]:
        text = texts.pop(0)
        yield text[:3]
        if texts:
            raise WorkerBroken("cut", maybe_paid=True)
        yield text[3:]
        yield Completion(text)

    return Actor("writer", act)


async def never(request: Request) -> AsyncGenerator[str | Completion, None]:
    """Act by waiting for something that does not come."""
    await anyio.sleep_forever()
    yield Completion("too late")


class Shop:
    """A tool that refunds orders, with what it was asked to do; `raising` are raised, call by call."""

    def __init__(self, *raising: Exception | None, seconds: float = 0.0, name: str = "refund") -> None:
        self.refunds: list[int] = []
        self.begun = anyio.Event()
        self._raising = list(raising)
        self._seconds = seconds
        self._name = name

    async def _refund(self, arguments: dict[str, Any]) -> str:
        self.refunds.append(arguments["order"])
        self.begun.set()
        error = self._raising.pop(0) if self._raising else None
        await anyio.sleep(self._seconds)
        if error is not None:
            raise error
        return f"refunded {arguments['order']}"

    @property
    def worker(self) -> ToolWorker:
        schema = {"properties": {"order": {"type": "integer"}}, "required": ["order"]}
        return ToolWorker(schema, self._refund, card=Card(name=self._name, price=FREE))


class PlanningActor(Planner):
    """Plans what an async generator function writes; `name` is `actor`."""

    name = "actor"

    def __init__(self, act: Callable[[PlanRequest], AsyncGenerator[str | PlanText, None]]) -> None:
        self._act = act

    def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        return self._act(request)


def slowly(*texts: str) -> PlanningActor:
    """Return a planner that writes a line a second; the texts in turn, then the last again."""
    left = list(texts)

    async def write(request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        text = left.pop(0) if len(left) > 1 else left[0]
        for line in text.splitlines(keepends=True):
            await anyio.sleep(1.0)
            yield line
        yield PlanText(text=text)

    return PlanningActor(write)


def plan_of(*steps: Row) -> Plan:
    return Plan(tuple(Step(*step) for step in steps))


def rows(*steps: Row) -> str:
    return write_plan(plan_of(*steps), "rows")


def in_turn(name: str | Card, *replies: Reply, **options: Any) -> ScriptedWorker:
    """Return a worker that gives these replies one after the other, then the last again."""
    left = list(replies)
    return ScriptedWorker(name, lambda _: left.pop(0) if len(left) > 1 else left[0], **options)


def boss(*replies: Reply, latency: float = 0.0, piece: int | None = None, **options: object) -> ChatPlanner:
    """Return a planner that writes these texts one after the other, then the last again."""
    return ChatPlanner(in_turn("boss", *replies, latency=latency, piece=piece), **options)  # type: ignore[arg-type]


def told(planner: ChatPlanner, call: int = -1) -> str:
    """Return all the text that a boss was sent in one of its calls."""
    return sent(planner.worker.requests[call])


def sent(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


def pair() -> list[ScriptedWorker]:
    return [ScriptedWorker("a", "A"), ScriptedWorker("b", "B")]


def in_a_row(*workers: Worker, **options: Any) -> Conductor:
    """Return a conductor whose plan has each worker shown the one before."""
    steps = [Step(at, f"task {at}", (at - 1,) if at else ()) for at in range(len(workers))]
    return Conductor(FixedPlanner(Plan(tuple(steps))), list(workers), **options)


def problem_of(ended: Result | Outcome | Proposal) -> Problem:
    assert ended.problem is not None
    return ended.problem


def codes(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the ends in short: status, and the code of the problem."""
    return [o.status if o.problem is None else f"{o.status} {o.problem.code}" for o in outcomes]


def tags(events: Sequence[Event], *, without: str = "_delta") -> list[str]:
    """Return the events in short: type and step."""
    return [
        f"{event.type} {event.step}" if isinstance(event, StepStarted | StepDelta | StepEnded) else event.type
        for event in events
        if not event.type.endswith(without)
    ]
