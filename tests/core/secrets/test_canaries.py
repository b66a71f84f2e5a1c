"""No worker ever receives a byte from outside its access list.

Every question, subtask, output, broken-off piece and error text is a canary, a word that
stands nowhere else. All strings of every request are searched for all canaries there are,
in runs that fail, retry, have stand-ins, go on by notes, plan again and nest.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Literal

import anyio
import pytest
from core.actors import Actor, boss
from core.virtual_clock import OPTIONS
from hypothesis import given, strategies as st

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import WorkerBroken, WorkerUnavailable
from podium.execution import OnFailure, Retry
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion, Message, Plan, Step
from podium.usage import Usage
from podium.workers import FREE, Caller, Card, Request

Way = Literal["ok", "raises", "is down", "is cut"]
Place = tuple[str, int, int]
"""Run, round and step."""


@dataclass
class Canaries:
    """All canaries of a run, and who may be shown them."""

    made: list[str] = field(default_factory=list)
    outputs: dict[Place, str] = field(default_factory=dict)
    """What each step put out when it ended well."""

    def new(self) -> str:
        self.made.append(f"canary-{len(self.made):05}.")
        return self.made[-1]

    def found(self, value: object) -> set[str]:
        text = "\n".join(texts(value))
        return {canary for canary in self.made if canary in text}


def texts(value: object) -> Iterator[str]:
    """Yield every text in a value, however deep; of the caller, what is data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Caller):
        for name in ("run_id", "labels"):
            yield from texts(getattr(value, name))
    elif is_dataclass(value):
        for one in fields(value):
            yield from texts(getattr(value, one.name))
    elif isinstance(value, Mapping):
        yield from texts(list(value.items()))
    elif isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from texts(item)


@dataclass(frozen=True)
class Scene:
    """Plans of two rounds, and what their steps will do."""

    plans: tuple[Plan, Plan]
    """Their subtasks are numbers, in whose place canaries are put."""
    ways: tuple[Way, ...]
    """How calls end, in the order in which they are made."""
    ticks: tuple[int, ...]
    """How long they take."""
    on_failure: OnFailure
    judged: bool
    shows_question: bool
    streamed: bool


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    steps = []
    for index in range(draw(st.integers(1, 6))):
        seen = draw(st.sets(st.integers(0, index - 1), max_size=4)) if index else set()
        enough = draw(st.none() | st.integers(1, len(seen))) if seen else None
        steps.append(Step(draw(st.integers(0, 3)), str(index), tuple(seen), enough))
    return Plan(tuple(steps))


_ENDINGS: tuple[Way, ...] = ("ok", "ok", "ok", "raises", "is down", "is cut")
SCENES = st.builds(
    Scene,
    plans=st.tuples(plans(), plans()),
    ways=st.lists(st.sampled_from(_ENDINGS), min_size=5, max_size=20).map(tuple),
    ticks=st.lists(st.integers(0, 8), min_size=5, max_size=20).map(tuple),
    on_failure=st.sampled_from(["skip", "note", "replan", "fail"]),
    judged=st.booleans(),
    shows_question=st.booleans(),
    streamed=st.booleans(),
)


class Nested(Conductor):
    """A conductor as a worker, that notes what it is handed and what it puts out."""

    def __init__(self, play: "Play", pool: Sequence[Actor]) -> None:
        super().__init__(FixedPlanner(play.inner), pool, card=Card(name="w3"))
        self._play = play

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        place = place_of(request)
        self._play.handed[request.messages] = place
        async with aclosing(super().call(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    self._play.canaries.outputs[place] = piece.text
                yield piece


def place_of(request: Request) -> Place:
    assert request.caller is not None
    return request.caller.run_id, request.caller.round, request.caller.step


class Play:
    """A scene being played: it hands out canaries, and keeps all that was sent to whom."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.canaries = Canaries()
        self.plans = tuple(self._marked(plan) for plan in scene.plans)
        self.inner = self._marked(Plan((Step(0, "0"), Step(1, "1", (0,)), Step(0, "2", (1,)))))
        self.query = tuple(Message(role, self.canaries.new()) for role in ("user", "assistant", "user"))
        self.handed: dict[tuple[Message, ...], Place] = {}
        """The steps of which nested runs were handed these queries."""
        self._calls = 0
        inner_pool = [self._actor("inner 0"), self._actor("inner 1")]
        self.workers = [self._actor("w0"), self._actor("w1"), self._actor("w2")]
        self.judge = Actor(Card(name="judge", price=FREE), self._judge)
        self.asked = [*self.workers, *inner_pool]
        self.conductor = Conductor(
            boss(*(write_plan(plan, "rows") for plan in self.plans)),
            [*self.workers, Nested(self, inner_pool)],
            limits=Limits(plan_steps=6, rounds=2),
            retry=Retry(attempts=3, first_wait=0.1, break_after=None, fallbacks={"w0": ["w1"], "w1": ["w3"]}),
            on_failure=scene.on_failure,
            accept=self.judge if scene.judged else None,
            show_question=scene.shows_question,
        )

    def _marked(self, plan: Plan) -> Plan:
        return Plan(tuple(Step(s.worker, self.canaries.new(), s.access, s.enough) for s in plan.steps))

    def _actor(self, name: str) -> Actor:
        return Actor(Card(name=name, price=FREE), self._act)

    async def _act(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        number, self._calls = self._calls, self._calls + 1
        new = self.canaries.new
        await anyio.sleep(self.scene.ticks[number % len(self.scene.ticks)] / 64)
        way = self.scene.ways[number % len(self.scene.ways)]
        if way == "is down":
            raise WorkerUnavailable(new())
        if way == "raises":
            yield new()
            raise ValueError(new())
        if way == "is cut":
            yield new()
            raise WorkerBroken(new(), maybe_paid=True)
        output = new()
        self.canaries.outputs[place_of(request)] = output
        yield Completion(output, usage=Usage(7, 3))

    async def _judge(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        yield Completion(f"NO, {self.canaries.new()}")

    async def play(self) -> None:
        asked = list(self.query)
        if self.scene.streamed:
            _ = [event async for event in self.conductor.stream(asked)]
        else:
            await self.conductor.run(asked)

    def plan_of(self, request: Request) -> Plan:
        return self.inner if self._parent(request) else self._outer_plan(place_of(request))

    def _outer_plan(self, place: Place) -> Plan:
        return self.plans[min(place[1], len(self.plans)) - 1]  # the planner repeats its last plan

    def _parent(self, request: Request) -> Place | None:
        """Return the step whose nested run a request belongs to; `None` for one of the run itself."""
        return self.handed.get(request.step_input.query) if request.step_input is not None else None

    def allowed(self, request: Request) -> set[str]:
        """Return what may stand in a request."""
        place, plan, parent = place_of(request), self.plan_of(request), self._parent(request)
        if place[2] == len(plan.steps):  # the judge, who is shown the question whoever else is
            return {self.query[-1].text, *self._outputs(place, [place[2] - 1])}
        question = {message.text for message in self.query} if self.scene.shows_question else set[str]()
        if parent is not None:
            question |= self._shown(self._outer_plan(parent), parent)
        return question | self._shown(plan, place)

    def _shown(self, plan: Plan, place: Place) -> set[str]:
        access = plan.steps[place[2]].access
        subtasks = {plan.steps[index].subtask for index in (*access, place[2])}
        return subtasks | self._outputs(place, access)

    def _outputs(self, place: Place, steps: Iterable[int]) -> set[str]:
        """Return what stands for the outputs of these steps; a plan that is repeated keeps those it has."""
        run, number, _ = place
        rounds = [
            each
            for each in range(1, number + 1)
            if self._outer_plan((run, each, 0)) is self._outer_plan(place)
        ]
        places = ((run, each, step) for each in rounds for step in steps)
        return {self.canaries.outputs[place] for place in places if place in self.canaries.outputs}


@pytest.mark.timeout(300)
@given(SCENES)
def test_no_worker_receives_a_byte_from_outside_its_access_list(scene: Scene) -> None:
    play = Play(scene)
    anyio.run(play.play, backend_options=OPTIONS)
    for worker in (*play.asked, play.judge):
        for request in worker.requests:
            found = play.canaries.found(request)
            assert found <= play.allowed(request)
            if worker is not play.judge:
                assert play.plan_of(request).steps[place_of(request)[2]].subtask in found
