"""The contract of actions in a host: its tools and agents as workers, below its own faces.

class TestMine(ActionsContract):
    @pytest.fixture
    def host(self) -> ActionHost: ...
"""

import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest
from servers.chat_server import USAGE, Call, ChatServer, Reply, says, whole

from podium import Card, ChatPlanner, Conductor, FunctionWorker, Plan, Retry, ScriptedWorker, Step
from podium.errors import WorkerFailed
from podium.hosts import tool_call
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import Worker

Refund = Callable[[int], str]
"""A function named `refund` with the argument `order`, which the host's tool calls."""
ONCE: Final = Retry(attempts=1)
REFUND: Final = Step(0, '{"order": 1017}')
WRITE: Final = Step(1, "Write.")


class ActionHost(ABC):
    """Makes a host's workers, and asks its face."""

    @abstractmethod
    def tool(self, refund: Refund) -> Worker:
        """Return the host's tool that calls `refund`, as a worker named `refund`."""

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return the host's agent as a worker; its model is at `url`. With `None`, it has no tool."""
        pytest.skip("no agents of this host are workers")

    def own(self, refund: Refund, url: str) -> Worker:
        """Return a worker of the user's own code, which calls `refund`, and then a model at `url`."""
        pytest.skip("no code of the user's own is a worker of this host")

    @abstractmethod
    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        """Ask the host's face; return the status in the host's form, and the answer."""

    def asking_tool(self, conductor: Conductor) -> Callable[[], Awaitable[str]]:
        """Return what calls the face as the host calls a tool, and returns the text for the model."""
        pytest.skip("this face is no tool")


class Shop:
    """Refunds orders; `raising` is raised at the calls, in turn."""

    def __init__(self, *raising: Exception | None) -> None:
        self.refunds: list[int] = []
        self._raising = list(raising)

    @property
    def refund(self) -> Refund:
        def refund(order: int) -> str:
            """Refund an order."""
            self.refunds.append(order)
            error = self._raising.pop(0) if self._raising else None
            if error is not None:
                raise error
            return f"refunded {order}"

        return refund


def pool(action: Worker) -> list[Worker]:
    """Return the action, a writer, a worker that fails and one whose answer is cut."""
    return [
        action,
        ScriptedWorker("writer", "text"),
        ScriptedWorker("broken", WorkerFailed("down")),
        ScriptedWorker("cut", Completion("half", finish_reason="length")),
    ]


def calling(call: Call, usage: Mapping[str, Any] | None = USAGE) -> Reply:
    """Call the tool that is offered, once, and then answer."""
    if not call.body.get("tools") or any(said["role"] == "tool" for said in call.body["messages"]):
        return says(call, "It is done.", usage=usage)
    asked = [tool_call("c1", "refund", '{"order": 1017}')]
    return says(call, "", tool_calls=asked, finish_reason="tool_calls", usage=usage)


def breaking(status: int, usage: Mapping[str, Any] | None) -> Callable[[Call], Reply]:
    """Return a model that calls the tool if it has one, and is out of order after that."""

    def reply(call: Call) -> Reply:
        if not call.body.get("tools") or any(said["role"] == "tool" for said in call.body["messages"]):
            return whole({"error": {"message": "out of order"}}, status=status)
        return calling(call, usage)

    return reply


def actions_of(error: BaseException | None) -> list[tuple[str, str]]:
    """Return worker and end of each action that an exception, or one of its causes, carries."""
    while error is not None:
        found: Any = getattr(error, "actions", ()) or getattr(getattr(error, "result", None), "actions", ())
        if found:
            return [(action.worker, action.end) for action in found]
        error = error.__cause__ or error.__context__
    return []


@pytest.mark.anyio
class ActionsContract:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.mark.parametrize(
        ("steps", "status", "refunds"),
        [
            pytest.param((REFUND, WRITE), "ok", [1017], id="no step reads it"),
            pytest.param((REFUND, REFUND, WRITE), "ok", [1017, 1017], id="asked for twice"),
            pytest.param(
                (Step(2, "Break."), WRITE, Step(0, '{"order": 1}', (0, 1)), Step(1, "End.", (1,))),
                "partial", [], id="from a gap"
            ),
            pytest.param(
                (Step(3, "Read."), Step(0, '{"order": 1}', (0,)), WRITE), "partial", [], id="after a cut"
            )
        ]
    )  # fmt: skip
    async def test_the_accepted_plan(
        self, host: ActionHost, steps: tuple[Step, ...], status: str, refunds: list[int]
    ) -> None:
        shop = Shop()
        conductor = Conductor(FixedPlanner(Plan(steps)), pool(host.tool(shop.refund)), retry=ONCE)
        told, answer = await host.ask(conductor)
        assert (told, shop.refunds) == (status, refunds)
        assert answer.startswith("text")

    @pytest.mark.parametrize("error", [TimeoutError("late"), ConnectionRefusedError("of a mail")])
    async def test_an_unknown_end_blocks_an_equal_action(self, host: ActionHost, error: Exception) -> None:
        """Neither a retry nor the next round carries it out; a person is asked."""
        shop, text = Shop(error), write_plan(Plan((REFUND, WRITE)), "rows")
        planner = ChatPlanner(ScriptedWorker("boss", text))
        again = Retry(attempts=3, first_wait=0.001)
        conductor = Conductor(planner, pool(host.tool(shop.refund)), on_failure="replan", retry=again)
        told, _ = await host.ask(conductor)
        assert (told, shop.refunds) == ("partial", [1017])

    @pytest.mark.parametrize(
        ("subtask", "error", "end"),
        [
            ('{"order": 1017}', None, [("refund", "done")]),
            ('{"order": 1017}', ValueError("no such order"), [("refund", "failed")]),
            ('{"order": 1017}', TimeoutError("late"), [("refund", "unknown")]),
            ('{"order": "none"}', None, []),
        ],
        ids=["done", "failed", "unknown", "not done"],
    )
    async def test_errors_tell_what_was_done(
        self, host: ActionHost, subtask: str, error: Exception | None, end: list[tuple[str, str]]
    ) -> None:
        shop = Shop(error)
        plan = Plan((Step(0, subtask), Step(2, "Break.")))
        conductor = Conductor(FixedPlanner(plan), pool(host.tool(shop.refund)), retry=ONCE)
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each face has its own
            await host.ask(conductor)
        assert actions_of(caught.value) == end
        told = "".join(traceback.format_exception_only(caught.value))  # the message and its notes
        assert all(worker in told for worker, _ in end), told
        assert len(shop.refunds) == len(end)

    async def test_a_model_that_asks_again_reads_what_was_done(self, host: ActionHost) -> None:
        """The text of a failure names the action; with a journal, it is not repeated."""
        shop, writes = Shop(), list[str]()

        def write(step: Any) -> str:
            writes.append(step.subtask)
            if len(writes) == 1:
                raise ValueError("no mail server")
            return "text"

        workers = [host.tool(shop.refund), FunctionWorker(write, card=Card(name="writer"))]
        plan = Plan((REFUND, Step(1, "Write.", (0,))))
        ask = host.asking_tool(Conductor(FixedPlanner(plan), workers, retry=ONCE, journal=MemoryJournal()))
        assert f"actions of the run: refund {REFUND.subtask}: done" in await ask()
        assert "text" in await ask()
        assert shop.refunds == [1017]

    async def test_an_agent_acts_if_it_holds_a_tool(self, host: ActionHost) -> None:
        shop = Shop()
        async with ChatServer(calling) as server:
            assert not host.agent(None, server.url).acts
            agent = host.agent(shop.refund, server.url)
            assert agent.acts
            plan = Plan((Step(0, "Refund order 1017."), WRITE))
            told, _ = await host.ask(Conductor(FixedPlanner(plan), pool(agent), retry=ONCE))
        assert (told, shop.refunds) == ("ok", [1017])

    @pytest.mark.parametrize(
        ("kind", "status"), [("agent", 429), ("agent without usage", 503), ("own code", 503)]
    )
    async def test_an_agent_that_broke_off_is_not_asked_again(
        self, host: ActionHost, kind: str, status: int
    ) -> None:
        """After it has acted, its model refuses the next call: nobody knows what it did."""
        shop = Shop()
        async with ChatServer(breaking(status, USAGE if kind == "agent" else None)) as server:
            plan = Plan((Step(0, "Refund order 1017."), WRITE))
            retry = Retry(attempts=3, first_wait=0.001)
            worker = (host.own if kind == "own code" else host.agent)(shop.refund, server.url)
            told, _ = await host.ask(Conductor(FixedPlanner(plan), pool(worker), retry=retry))
        assert (told, shop.refunds) == ("partial", [1017])
