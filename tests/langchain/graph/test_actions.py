"""Actions of a conductor's node, with both executors, over tries, kills and approvals."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import anyio
import pytest
from graphs.conducted import LATER, Chat, Plans, decided
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt

from langchain_podium import ChatPodium, ConductorRunnable, as_worker
from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from podium import Conductor, Limits, Plan, ScriptedWorker, Step
from podium.errors import RunFailed, WorkerFailed
from podium.execution import Retry
from podium.journal import Journal, MemoryJournal
from podium.planners import Planner
from podium.policy import Policy
from podium.workers import FREE, Worker

pytestmark = pytest.mark.anyio

ASKED = {"messages": [("user", "Refund it.")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])
JOURNALS = pytest.mark.parametrize("journal", [None, MemoryJournal], ids=["checkpointer", "journal"])
Make = Callable[[], Journal] | None


class Shop:
    """A tool that refunds orders; `raising` is raised at the calls, in turn."""

    def __init__(self, *raising: Exception | None) -> None:
        self.refunds: list[int] = []
        self.during: Callable[[], None] | None = None
        """Called during each refund."""
        self._raising = list(raising)

    async def _refund(self, order: int) -> str:
        """Refund an order."""
        self.refunds.append(order)
        if self.during is not None:
            self.during()
            await anyio.sleep(30)
        error = self._raising.pop(0) if self._raising else None
        if error is not None:
            raise error
        return f"refunded {order}"

    @property
    def worker(self) -> Worker:
        """The tool as a worker."""
        tool = StructuredTool.from_function(coroutine=self._refund, name="refund")
        return as_worker(tool, price=FREE)


class Writer:
    """A model that fails `failures` times, then writes."""

    def __init__(self, failures: int = 0) -> None:
        self.left = failures

    def _reply(self, request: Any) -> Any:
        self.left -= 1
        return WorkerFailed("no luck") if self.left >= 0 else "written"

    @property
    def worker(self) -> Worker:
        """The model as a worker."""
        return ScriptedWorker("writer", self._reply)


def graph_of(
    planner: Planner | Plan, *workers: Worker, saver: Any = None, tries: int = 1, **options: Any
) -> Any:
    """Return a graph of a user, with a conductor over these workers as its only node."""
    names = ("executor", "partial", "policy")
    own = {name: options.pop(name) for name in names if name in options}
    options.setdefault("retry", Retry(attempts=1))
    planner = Plans(planner) if isinstance(planner, Plan) else planner
    node = conductor_node(Conductor(planner, workers, **options), **own)
    policy = RetryPolicy(max_attempts=tries, initial_interval=0.001, jitter=False)
    graph = StateGraph(Chat).add_node("conductor", node, retry_policy=policy)
    return graph.add_edge(START, "conductor").compile(checkpointer=saver)


def refund(order: int = 1017, *access: int) -> Step:
    """Return a step of worker 0 that refunds an order."""
    return Step(0, f'{{"order": {order}}}', access)


ACTIONS = Policy(ask="actions", approve="later")
"""Each action waits for a person."""
REFUND_AND_WRITE = Plan((refund(), Step(1, "Write.")))
"""No step reads the refund."""


@EXECUTORS
@JOURNALS
class TestOnceInAllTries:
    """Of LangGraph's own retry policy, and of a thread that goes on after a kill."""

    @pytest.mark.parametrize(
        ("error", "end"),
        [(None, "ok"), (ToolException("no such order"), "failed"), (TimeoutError("late"), "unknown")],
    )
    @pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
    async def test_a_retry_policy(
        self, executor: Executor, journal: Make, error: Exception | None, end: str, *, is_sync: bool
    ) -> None:
        """A refund that failed, or may have been made, is not made by the next try."""
        shop = Shop(error)
        graph = graph_of(
            REFUND_AND_WRITE,
            shop.worker,
            Writer(1).worker,
            saver=InMemorySaver(),
            tries=3,
            executor=executor,
            partial="raise",
            journal=journal and journal(),
        )

        async def call() -> Any:
            return graph.invoke(ASKED, CONFIG) if is_sync else await graph.ainvoke(ASKED, CONFIG)

        if end == "ok":
            assert (await call())["podium"]["status"] == "ok"
        else:
            with pytest.raises(RunFailed) as caught:
                await call()
            assert [action.end for action in caught.value.actions] == [end]
        assert shop.refunds == [1017]

    async def test_a_node_that_is_stopped_in_a_refund(self, executor: Executor, journal: Make) -> None:
        """Nobody knows whether it was made, so it is not made again."""
        shop, saver, kept = Shop(), InMemorySaver(), journal and journal()
        graph = graph_of(
            REFUND_AND_WRITE, shop.worker, Writer().worker, saver=saver, executor=executor, journal=kept
        )
        with anyio.CancelScope() as scope:
            shop.during = scope.cancel
            await graph.ainvoke(ASKED, CONFIG)
        state = await graph.ainvoke(None, CONFIG)
        assert (state["podium"]["status"], shop.refunds) == ("partial", [1017])
        assert state["podium"]["problem"]["code"] == "action_unknown"
        assert state["messages"][-1].text.startswith("written\n\n(Not complete: step 0 (refund): ")

    async def test_a_node_that_is_stopped_after_a_refund(self, executor: Executor, journal: Make) -> None:
        """It is known to be made."""
        shop, saver, kept = Shop(), InMemorySaver(), journal and journal()
        plan = Plan((refund(), Step(1, "Read.", (0,)), Step(1, "Write.", (1,))))
        scope = anyio.CancelScope()
        calls = list[str]()

        def reply(request: Any) -> str:
            calls.append("writer")
            if len(calls) == 1:
                scope.cancel()
            return "written"

        graph = graph_of(
            plan,
            shop.worker,
            ScriptedWorker("writer", reply, latency=0.01),
            saver=saver,
            executor=executor,
            journal=kept,
        )
        with scope:
            await graph.ainvoke(ASKED, CONFIG)
        state = await graph.ainvoke(None, CONFIG)
        assert (state["podium"]["status"], shop.refunds) == ("ok", [1017])

    async def test_a_later_plan(self, executor: Executor, journal: Make) -> None:
        """It asks again for what the first plan has done."""
        shop = Shop()
        again = Plan((refund(), refund(), Step(1, "Write.", (0,))))
        planner = Plans(REFUND_AND_WRITE, again)
        graph = graph_of(
            planner,
            shop.worker,
            Writer(1).worker,
            saver=InMemorySaver(),
            executor=executor,
            journal=journal and journal(),
            on_failure="replan",
            limits=Limits(replans=1),
        )
        state = await graph.ainvoke(ASKED, CONFIG)
        assert (state["podium"]["status"], shop.refunds) == ("ok", [1017, 1017])
        reused = [outcome.get("reused", False) for outcome in state["podium"]["outcomes"]]
        assert reused[2:] == [True, False, False]


@EXECUTORS
async def test_a_process_that_dies_in_a_refund(executor: Executor) -> None:
    """The checkpointer had what it is to know before the refund began."""
    shop, saver, kept = Shop(), InMemorySaver(), list[InMemorySaver]()

    def graph(saver: InMemorySaver) -> Any:
        return graph_of(REFUND_AND_WRITE, shop.worker, Writer().worker, saver=saver, executor=executor)

    def die() -> None:
        kept.append(deepcopy(saver))  # what another process would find
        scope.cancel()

    shop.during = die
    with anyio.CancelScope() as scope:
        await graph(saver).ainvoke(ASKED, CONFIG)
    state = await graph(kept[0]).ainvoke(None, CONFIG)
    assert (state["podium"]["status"], shop.refunds) == ("partial", [1017])
    assert state["podium"]["problem"]["code"] == "action_unknown"


@EXECUTORS
@pytest.mark.parametrize("fails", [False, True], ids=["killed", "failed"])
@pytest.mark.parametrize(
    ("edit", "refunds"),
    [
        ({"status": "ok", "action": "done", "problem": None, "text": "refunded by hand"}, [1017]),
        ({"action": "not_done"}, [1017, 1017]),
    ],
)
async def test_a_person_edits_the_end_of_an_action(
    executor: Executor, edit: dict[str, Any], refunds: list[int], *, fails: bool
) -> None:
    """Without a journal, that decides on an action that failed, or may be done; the error says how."""
    shop, plan = Shop(*[ToolException("no")] * fails), Plan((refund(), Step(1, "Write.", (0,))))
    graph = graph_of(plan, shop.worker, Writer().worker, saver=InMemorySaver(), executor=executor)
    with anyio.CancelScope() as scope, suppress(RunFailed):
        shop.during = None if fails else scope.cancel
        await graph.ainvoke(ASKED, CONFIG)
    shop.during = None
    for _ in range(2):
        with pytest.raises(RunFailed, match="edit the outcome of step 0 in the state of the subgraph, to "):
            await graph.ainvoke(None, CONFIG)
    inside = (await graph.aget_state(CONFIG, subgraphs=True)).tasks[0].state
    edited = {**inside.values["steps"]["0"], **edit}
    await graph.aupdate_state(inside.config, {"steps": {"0": edited}}, as_node="0 refund")
    state = await graph.ainvoke(None, CONFIG)
    assert (state["podium"]["status"], shop.refunds) == ("ok", refunds)
    assert [action["end"] for action in state["podium"]["actions"]] == ["done"]


def _asking(journal: Make) -> dict[str, Any]:
    """Return the options with which actions wait."""
    return {"journal": journal and journal(), "policy": ACTIONS}


@EXECUTORS
class TestApprovalOfActions:
    """`Policy(ask="actions")`: everything else runs, and an action waits at its arguments."""

    PLAN = Plan((Step(1, "Read."), refund(1017, 0), refund(1018), Step(1, "Sum up.", (0, 1, 2))))

    async def test_a_function_decides(self, executor: Executor) -> None:
        """It is asked about each action, and a refused one is not carried out."""
        shop = Shop()
        policy = Policy(ask="actions", approve=lambda asked: "1017" in str(asked.action) or "not that one")
        graph = graph_of(self.PLAN, shop.worker, Writer().worker, executor=executor, policy=policy)
        state = await graph.ainvoke(ASKED, CONFIG)
        assert (state["podium"]["status"], shop.refunds) == ("partial", [1017])
        assert "not that one" in state["podium"]["problem"]["message"]

    @pytest.mark.long
    @JOURNALS
    @pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
    async def test_later(self, executor: Executor, journal: Make, *, is_sync: bool) -> None:
        """Each waits at an interrupt with its arguments; what does not need it has ended before."""
        shop, model = Shop(), ScriptedWorker("writer", "written")
        graph = graph_of(
            self.PLAN,
            shop.worker,
            model,
            saver=InMemorySaver(),
            executor=executor,
            **_asking(journal),
        )

        async def call(asked: Any) -> Any:
            return graph.invoke(asked, CONFIG) if is_sync else await graph.ainvoke(asked, CONFIG)

        state, shown = await call(ASKED), list[Any]()
        while "__interrupt__" in state:
            (asked,) = state["__interrupt__"]
            (request,) = asked.value["action_requests"]
            shown.append((asked.value["podium"]["step"], request["name"], request["args"]))
            assert asked.value["podium"]["kind"] == "action"
            assert [request.step_input.subtask for request in model.requests] == ["Read."]
            answers = {1017: decided(), 1018: decided("reject", message="too much")}
            state = await call(answers[request["args"]["order"]])
        assert sorted(shown) == [("1", "refund", {"order": 1017}), ("2", "refund", {"order": 1018})]
        assert (state["podium"]["status"], shop.refunds) == ("partial", [1017])
        assert "too much" in state["podium"]["problem"]["message"]
        assert [request.step_input.subtask for request in model.requests] == ["Read.", "Sum up."]

    @pytest.mark.parametrize(("args", "refunds"), [({"order": 1020}, [1020]), ({"order": 1017}, [1017])])
    async def test_edited_arguments(self, executor: Executor, args: Any, refunds: list[int]) -> None:
        """The action is carried out with them; a worker without JSON has its subtask."""
        shop, agent = Shop(), ScriptedWorker("writer", "sent")
        agent.acts = True
        plan = Plan((refund(1017), Step(1, "Mail it.", (0,))))
        graph = graph_of(plan, shop.worker, agent, saver=InMemorySaver(), executor=executor, policy=ACTIONS)
        await graph.ainvoke(ASKED, CONFIG)
        state = await graph.ainvoke(decided("edit", edited_action={"name": "refund", "args": args}), CONFIG)
        (asked,) = state["__interrupt__"]
        (request,) = asked.value["action_requests"]
        assert (request["args"], shop.refunds) == ({"subtask": "Mail it."}, refunds)
        text = {"subtask": "Mail it to Ann."}
        state = await graph.ainvoke(decided("edit", edited_action={"name": "writer", "args": text}), CONFIG)
        assert (state["podium"]["status"], shop.refunds) == ("ok", refunds)
        assert [request.step_input.subtask for request in agent.requests] == ["Mail it to Ann."]

    @pytest.mark.parametrize(
        "said",
        [
            decided("edit").resume,
            decided("edit", edited_action={"args": {"order": "[secret]"}}).resume,
            "we keep the money",
            7,
            None,
            [],
        ],
    )
    async def test_answers_that_are_no_decision(self, executor: Executor, said: Any) -> None:
        """They are asked again; a text alone is no refusal."""
        shop = Shop()
        graph = graph_of(
            REFUND_AND_WRITE,
            shop.worker,
            Writer().worker,
            saver=InMemorySaver(),
            executor=executor,
            policy=ACTIONS,
        )
        await graph.ainvoke(ASKED, CONFIG)
        state = await graph.ainvoke(Command(resume={"none": said} if said is None else said), CONFIG)
        (asked,) = state["__interrupt__"]
        assert asked.value["podium"]["problem"]
        assert "(action)" in asked.value["podium"]["mermaid"]
        state = await graph.ainvoke(decided("reject", message="we keep the money"), CONFIG)
        assert (state["podium"]["status"], shop.refunds) == ("partial", [])
        assert "we keep the money" in state["podium"]["problem"]["message"]

    async def test_plans_and_actions(self, executor: Executor) -> None:
        """First the plan, then its action."""
        shop = Shop()
        graph = graph_of(
            REFUND_AND_WRITE,
            shop.worker,
            Writer().worker,
            saver=InMemorySaver(),
            executor=executor,
            policy=LATER & ACTIONS,
            journal=MemoryJournal(),
        )
        state, shown = await graph.ainvoke(ASKED, CONFIG), list[str]()
        while "__interrupt__" in state:
            shown.append(state["__interrupt__"][0].value["podium"]["kind"])
            assert shop.refunds == []
            state = await graph.ainvoke(decided(), CONFIG)
        assert (shown, state["podium"]["status"], shop.refunds) == (["plan", "action"], "ok", [1017])


@pytest.mark.long
@JOURNALS
@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize(
    "plan",
    [
        Plan((Step(1, '{"order": 17}'), refund(18), refund(19, 0, 1))),
        Plan((refund(18), Step(1, '{"order": 17}'), refund(19, 0, 1))),
        Plan((Step(1, '{"order": 16}'), Step(1, '{"order": 17}'), refund(18), refund(19, 0, 1, 2))),
    ],
    ids=["first", "second", "two"],
)
async def test_an_action_that_interrupts_beside_others_that_wait(
    journal: Make, plan: Plan, *, is_sync: bool
) -> None:
    """Each is shown, approved and carried out once."""
    shop, done = Shop(), list[int]()

    def ask(order: int) -> str:
        """Refund an order after a question."""
        answer = interrupt(f"refund {order}?")
        done.append(order)
        return str(answer)

    asking = as_worker(StructuredTool.from_function(ask), price=FREE)
    graph = graph_of(
        plan,
        shop.worker,
        asking,
        saver=InMemorySaver(),
        executor="langgraph",
        policy=ACTIONS,
        journal=journal and journal(),
    )

    async def call(given: Any) -> Any:
        return graph.invoke(given, CONFIG) if is_sync else await graph.ainvoke(given, CONFIG)

    state, shown = await call(ASKED), list[Any]()
    while (asked := state.get("__interrupt__")) and len(shown) < 10:
        shown += [
            each.value if isinstance(each.value, str) else each.value["action_requests"][0]["args"]
            for each in asked
        ]
        state = await call(Command(resume={each.id: decided().resume for each in asked}))
    asks = [order for order in (16, 17) if {"order": order} in shown]
    assert state["podium"]["status"] == "ok"
    assert sorted(map(str, shown)) == sorted(
        [*(f"refund {order}?" for order in asks), *(str({"order": order}) for order in (*asks, 18, 19))]
    )
    assert (sorted(done), shop.refunds) == (asks, [18, 19])


Face = Callable[[Conductor], Any]
FACES: dict[str, Face] = {
    "runnable": lambda conductor: ConductorRunnable(conductor, partial="raise"),
    "runnable in a chain": lambda conductor: (
        RunnableLambda(str) | ConductorRunnable(conductor, partial="raise")
    ),
    "chat model": lambda conductor: ChatPodium(conductor=conductor, partial="raise"),
}


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
class TestHandWrittenNodes:
    """Of a user, around a conductor with a journal."""

    def graph(self, face: Face, journal: Journal, shop: Shop, fails: int, **options: Any) -> Any:
        """Return a graph; its writer fails first, or its node after the answers, as often as `fails` says.

        Args:
            face: makes the conductor a part of the node.
            journal: the journal of the runs.
            shop: refunds.
            fails: how often the writer, or if negative the node, fails.
            options: `tries` of the node, its `questions`, `saver`, `is_sync`.
        """
        workers = [shop.worker, Writer(fails).worker]
        conductor = Conductor(Plans(REFUND_AND_WRITE), workers, journal=journal, retry=Retry(attempts=1))
        asked, broken, questions = face(conductor), [None] * -fails, options.get("questions", 1)

        def end() -> dict[str, Any]:
            if broken:
                broken.pop()
                raise ConnectionError("after the answers")
            return {"messages": [("ai", "done")]}

        def node(state: Any) -> dict[str, Any]:
            for _ in range(questions):
                asked.invoke("Refund it.")
            return end()

        async def anode(state: Any) -> dict[str, Any]:
            for _ in range(questions):
                await asked.ainvoke("Refund it.")
            return end()

        policy = RetryPolicy(
            max_attempts=options.get("tries", 1), initial_interval=0.001, jitter=False, retry_on=Exception
        )
        graph = StateGraph(Chat).add_node("own", node if options["is_sync"] else anode, retry_policy=policy)
        return graph.add_edge(START, "own").compile(checkpointer=options.get("saver"))

    async def call(self, graph: Any, asked: Any, *, is_sync: bool) -> Any:
        """Call a graph."""
        return graph.invoke(asked, CONFIG) if is_sync else await graph.ainvoke(asked, CONFIG)

    @pytest.mark.parametrize("fails", [1, -1], ids=["the run fails", "the node fails"])
    @pytest.mark.parametrize("make", [None, InMemorySaver], ids=["no checkpointer", "checkpointer"])
    async def test_a_retry_policy(self, face: Face, fails: int, make: Any, *, is_sync: bool) -> None:
        """The next try takes what the try before has done."""
        shop, saver = Shop(), make and make()
        graph = self.graph(face, MemoryJournal(), shop, fails, tries=3, saver=saver, is_sync=is_sync)
        await self.call(graph, ASKED, is_sync=is_sync)
        assert shop.refunds == [1017]

    @pytest.mark.parametrize("fails", [1, -1], ids=["the run fails", "the node fails"])
    async def test_another_process_goes_on(self, face: Face, fails: int, *, is_sync: bool) -> None:
        """And a new turn of the user is a new run."""
        shop, saver, journal = Shop(), InMemorySaver(), MemoryJournal()
        first = self.graph(face, journal, shop, fails, saver=saver, is_sync=is_sync)
        with pytest.raises((RunFailed, ConnectionError)):
            await self.call(first, ASKED, is_sync=is_sync)
        second = self.graph(face, journal, shop, 0, saver=saver, is_sync=is_sync)
        await self.call(second, None, is_sync=is_sync)
        assert shop.refunds == [1017]
        await self.call(second, ASKED, is_sync=is_sync)
        assert shop.refunds == [1017, 1017]

    @pytest.mark.parametrize("fails", [1, -1], ids=["a run fails", "the node fails"])
    async def test_a_question_that_a_node_asks_twice(self, face: Face, fails: int, *, is_sync: bool) -> None:
        """It is two runs, in each try."""
        shop = Shop()
        graph = self.graph(face, MemoryJournal(), shop, fails, tries=3, questions=2, is_sync=is_sync)
        await self.call(graph, ASKED, is_sync=is_sync)
        assert shop.refunds == [1017, 1017]


async def test_middleware_that_calls_the_model_again() -> None:
    """It continues the run that failed."""
    shop = Shop()
    workers = [shop.worker, Writer(1).worker]
    conductor = Conductor(Plans(REFUND_AND_WRITE), workers, journal=MemoryJournal(), retry=Retry(attempts=1))
    model = ChatPodium(conductor=conductor, partial="raise")
    again = ModelRetryMiddleware(max_retries=2, initial_delay=0.001, on_failure="error")
    agent = create_agent(model, middleware=[again], checkpointer=InMemorySaver())
    await agent.ainvoke(ASKED, CONFIG)
    assert shop.refunds == [1017]
