"""What a framework that runs Podium may take over: calls, questions to people, outcomes, the record."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest
from core.execution.flows import call, plan_of

from podium import Card, ChatPlanner, Conductor, FunctionWorker, Plan, ScriptedWorker
from podium.execution import Host, HostExit
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.types import ApprovalAsked, ApprovalGiven, Completion, Event, Outcome
from podium.workers import Request, Worker

pytestmark = pytest.mark.anyio


async def test_every_call_goes_through() -> None:
    seen: list[tuple[str, int | None]] = []

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        seen.append((worker.card.name, None if request.caller is None else request.caller.step))
        async for piece in worker.call(request):
            yield piece

    planner = FixedPlanner('{"worker": 0, "subtask": "inside", "access": []}')
    inner = Conductor(planner, [ScriptedWorker("leaf", "deep")], card=Card(name="inner"))
    planner = ChatPlanner(ScriptedWorker("model", '{"worker": 0, "subtask": "think", "access": []}'))
    result = await Conductor(planner, [inner]).run("What?", middleware=middleware)
    assert (result.answer, seen) == ("deep", [("model", None), ("inner", 0), ("leaf", 0)])


class Stored(Host):
    """Carries out nothing, and has outcomes of the first round, by the names of steps."""

    def __init__(self, ends: dict[str, tuple[str | None, Outcome]]) -> None:
        self._ends = ends

    async def show(self, number: int, plan: Plan) -> None: ...

    def takes(self, worker: Worker) -> bool:
        return False

    async def call(self, number: int, name: str, work: Callable[[], Awaitable[None]]) -> None:
        await work()

    def keeps(self, left: HostExit) -> bool:
        return False

    async def decide(self, asked: ApprovalAsked, problem: str) -> ApprovalGiven | None: ...

    def hear(self, event: Event) -> None: ...

    def stored(self, number: int, plan: Plan, name: str) -> tuple[str | None, Outcome] | None:
        return self._ends.get(name) if number == 1 else None

    def begin(self, number: int, names: Sequence[str]) -> None: ...


@pytest.mark.parametrize("name", ["1", "2"])
async def test_labels_of_what_a_host_has_stored_still_hold(name: str) -> None:
    rule = Rule("secret", never=["outside"])

    def worker(name: str, *labels: str) -> FunctionWorker:
        return FunctionWorker(lambda step_input: '["a"]', card=Card(name=name, labels=frozenset(labels)))

    pool = [worker("vault", "secret"), worker("plain"), worker("web", "outside")]
    read = [call("b", 0, worker=1), call("{{item}}", worker=1, each="{{0}}")]
    plan = plan_of(call("a", returns=["string"]), *read, call("d", int(name), worker=1))
    seen: list[frozenset[str]] = []

    async def middleware(worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        seen.append(request.caller.labels)
        async for piece in worker.call(request):
            yield piece

    edited = Outcome(round=1, step=int(name), worker="plain", status="ok", text='["b"]', attempts=1)
    conductor = Conductor(FixedPlanner("x"), pool, policy=Policy(rules=[rule]))
    await conductor.run(plan, host=Stored({name: (None, edited)}), middleware=middleware)
    assert "secret" in seen[-1]
