"""Actions of a conductor's node, with both executors, over tries, kills and approvals."""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from typing import Any

import anyio
import pytest
from graphs.conducted import ASKED, CONFIG, EXECUTORS, Executor, Plans, around, decided
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver

from langchain_podium import ChatPodium, as_worker
from podium import Conductor, Limits, Plan, Retry, ScriptedWorker, Step
from podium.errors import RunFailed, WorkerFailed
from podium.journal import Journal, MemoryJournal
from podium.policy import Policy
from podium.run import decide
from podium.workers import FREE, Worker

pytestmark = pytest.mark.anyio
KEPT = pytest.mark.parametrize(
    ("executor", "journal"),
    [("podium", MemoryJournal), ("langgraph", None), ("langgraph", MemoryJournal)],
    ids=["podium", "langgraph", "langgraph with a journal"],
)
Make = Callable[[], Journal] | None


class _Shop:
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
        tool = StructuredTool.from_function(coroutine=self._refund, name="refund")
        return as_worker(tool, price=FREE)


def _writer(failures: int = 0) -> ScriptedWorker:
    replies = [WorkerFailed("no luck")] * failures
    return ScriptedWorker("writer", lambda request: replies.pop() if replies else "written")


def _graph_of(plans: Plan | Plans, *workers: Worker, **options: Any) -> Any:
    """Return a graph of a user with a conductor over these workers, which calls each once."""
    names = ("journal", "on_failure", "limits")
    own = {name: options.pop(name) for name in names if name in options}
    planner = Plans(plans) if isinstance(plans, Plan) else plans
    return around(Conductor(planner, workers, retry=Retry(attempts=1), **own), **options)


def refund(order: int = 1017, *access: int) -> Step:
    return Step(0, f'{{"order": {order}}}', access)


ACTIONS = Policy(ask="actions", approve="later")
"""Each action waits for a person."""
REFUND_AND_WRITE = Plan((refund(), Step(1, "Write.")))
"""No step reads the refund."""


@pytest.mark.parametrize(
    ("journal", "error", "is_sync"), [(MemoryJournal(), None, True), (None, TimeoutError("late"), False)]
)
async def test_a_retry_policy(journal: Journal | None, error: Exception | None, *, is_sync: bool) -> None:
    """A refund that was made, failed, or may have been made, is not made by LangGraph's next try."""
    shop = _Shop(error)
    options: Any = {"checkpointer": InMemorySaver(), "tries": 3, "executor": "langgraph", "partial": "raise"}
    graph = _graph_of(REFUND_AND_WRITE, shop.worker, _writer(1), journal=journal, **options)

    async def call() -> Any:
        return graph.invoke(ASKED, CONFIG) if is_sync else await graph.ainvoke(ASKED, CONFIG)

    if error is None:
        assert (await call())["podium"]["status"] == "ok"
    else:
        with pytest.raises(RunFailed) as caught:
            await call()
        assert [action.end for action in caught.value.actions] == ["unknown"]
    assert shop.refunds == [1017]


@KEPT
async def test_a_node_that_is_stopped_after_a_refund(executor: Executor, journal: Make) -> None:
    shop, scope, calls = _Shop(), anyio.CancelScope(), list[str]()

    def reply(request: Any) -> str:
        calls.append("writer")
        if len(calls) == 1:
            scope.cancel()
        return "written"

    plan = Plan((refund(), Step(1, "Read.", (0,)), Step(1, "Write.", (1,))))
    options: Any = {"checkpointer": InMemorySaver(), "executor": executor, "journal": journal and journal()}
    graph = _graph_of(plan, shop.worker, ScriptedWorker("writer", reply, latency=0.01), **options)
    with scope:
        await graph.ainvoke(ASKED, CONFIG)
    state = await graph.ainvoke(None, CONFIG)
    assert (state["podium"]["status"], shop.refunds) == ("ok", [1017])


@KEPT
async def test_a_later_plan(executor: Executor, journal: Make) -> None:
    shop = _Shop()
    planner = Plans(REFUND_AND_WRITE, Plan((refund(), refund(), Step(1, "Write.", (0,)))))
    options: Any = {"checkpointer": InMemorySaver(), "executor": executor, "journal": journal and journal()}
    options |= {"on_failure": "replan", "limits": Limits(replans=1)}
    state = await _graph_of(planner, shop.worker, _writer(1), **options).ainvoke(ASKED, CONFIG)
    assert (state["podium"]["status"], shop.refunds) == ("ok", [1017, 1017])
    reused = [outcome.get("reused", False) for outcome in state["podium"]["outcomes"]]
    assert reused[2:] == [True, False, False]


@EXECUTORS
async def test_a_process_that_dies_in_a_refund(executor: Executor) -> None:
    """The checkpointer had what it is to know before the refund began."""
    shop, saver, kept = _Shop(), InMemorySaver(), list[InMemorySaver]()

    def graph(saver: InMemorySaver) -> Any:
        return _graph_of(REFUND_AND_WRITE, shop.worker, _writer(), checkpointer=saver, executor=executor)

    def die() -> None:
        kept.append(deepcopy(saver))  # what another process would find
        scope.cancel()

    shop.during = die
    with anyio.CancelScope() as scope:
        await graph(saver).ainvoke(ASKED, CONFIG)
    state = await graph(kept[0]).ainvoke(None, CONFIG)
    assert (state["podium"]["status"], shop.refunds) == ("partial", [1017])
    assert state["podium"]["problem"]["code"] == "action_unknown"
    assert state["messages"][-1].text.startswith("written\n\n(Not complete: step 0 (refund): ")


@EXECUTORS
@pytest.mark.parametrize(
    ("fails", "edit", "refunds"),
    [
        (False, {"status": "ok", "action": "done", "problem": None, "text": "refunded by hand"}, [1017]),
        (True, {"action": "not_done"}, [1017, 1017]),
    ],
    ids=["killed", "failed"],
)
async def test_a_person_edits_the_end_of_an_action(
    executor: Executor, edit: dict[str, Any], refunds: list[int], *, fails: bool
) -> None:
    """Without a journal, that decides on an action that failed, or may be done; the error says how."""
    shop, plan = _Shop(*[ToolException("no")] * fails), Plan((refund(), Step(1, "Write.", (0,))))
    graph = _graph_of(plan, shop.worker, _writer(), checkpointer=InMemorySaver(), executor=executor)
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


@EXECUTORS
@pytest.mark.parametrize(("done", "refunds"), [(True, [1017]), (False, [1017, 1017])])
async def test_a_person_decides_in_the_journal(executor: Executor, refunds: list[int], *, done: bool) -> None:
    """The decision is later than the end of the action that the graph has stored."""
    shop, plan = _Shop(), Plan((refund(), Step(1, "Write.", (0,))))
    workers, journal = (shop.worker, _writer()), MemoryJournal()
    graph = _graph_of(plan, *workers, journal=journal, checkpointer=InMemorySaver(), executor=executor)
    with anyio.CancelScope() as scope:
        shop.during = scope.cancel
        await graph.ainvoke(ASKED, CONFIG)
    shop.during = None
    with pytest.raises(RunFailed, match="podium decide") as caught:
        await graph.ainvoke(None, CONFIG)
    run_id = caught.value.result.run_id
    await decide(journal, run_id, action=0, done=done)
    state = await graph.ainvoke(None, CONFIG)
    assert (state["podium"]["status"], shop.refunds) == ("ok", refunds)
    assert [action["end"] for action in state["podium"]["actions"]] == ["done"]


@EXECUTORS
class TestApprovalOfActions:
    PLAN = Plan((Step(1, "Read."), refund(1017, 0), refund(1018), Step(1, "Sum up.", (0, 1, 2))))

    async def test_later(self, executor: Executor) -> None:
        """Each waits at an interrupt with its arguments; what does not need it has ended before."""
        shop, model = _Shop(), _writer()
        options: Any = {"checkpointer": InMemorySaver(), "executor": executor, "policy": ACTIONS}
        graph = _graph_of(self.PLAN, shop.worker, model, **options)
        state, shown = await graph.ainvoke(ASKED, CONFIG), list[Any]()
        while "__interrupt__" in state:
            (asked,) = state["__interrupt__"]
            (request,) = asked.value["action_requests"]
            shown.append((asked.value["podium"]["step"], request["name"], request["args"]))
            assert asked.value["podium"]["kind"] == "action"
            assert [request.step_input.subtask for request in model.requests] == ["Read."]
            answers = {1017: decided(), 1018: decided("reject", message="too much")}
            state = await graph.ainvoke(answers[request["args"]["order"]], CONFIG)
        assert sorted(shown) == [("1", "refund", {"order": 1017}), ("2", "refund", {"order": 1018})]
        assert (state["podium"]["status"], shop.refunds) == ("partial", [1017])
        assert "too much" in state["podium"]["problem"]["message"]
        assert [request.step_input.subtask for request in model.requests] == ["Read.", "Sum up."]

    async def test_edited_arguments(self, executor: Executor) -> None:
        """The action is carried out with them; a worker without JSON has its subtask."""
        shop, agent = _Shop(), ScriptedWorker("writer", "sent")
        agent.acts = True
        plan = Plan((refund(1017), Step(1, "Mail it.", (0,))))
        options: Any = {"checkpointer": InMemorySaver(), "executor": executor, "policy": ACTIONS}
        graph = _graph_of(plan, shop.worker, agent, **options)
        await graph.ainvoke(ASKED, CONFIG)
        for name, order in (("refund", "1O20"), ("charge", 1020), ("refund", 1020)):
            edit = decided("edit", edited_action={"name": name, "args": {"order": order}})
            state = await graph.ainvoke(edit, CONFIG)
            is_wrong = (name, order) != ("refund", 1020)
            assert ("not accepted" in str(state["__interrupt__"][0].value)) == is_wrong
        (request,) = state["__interrupt__"][0].value["action_requests"]
        assert (request["args"], shop.refunds) == ({"subtask": "Mail it."}, [1020])
        text = {"subtask": "Mail it to Ann."}
        state = await graph.ainvoke(decided("edit", edited_action={"name": "writer", "args": text}), CONFIG)
        assert (state["podium"]["status"], shop.refunds) == ("ok", [1020])
        assert [request.step_input.subtask for request in agent.requests] == ["Mail it to Ann."]


async def test_middleware_that_calls_the_model_again() -> None:
    shop = _Shop()
    workers = [shop.worker, _writer(1)]
    conductor = Conductor(Plans(REFUND_AND_WRITE), workers, journal=MemoryJournal(), retry=Retry(attempts=1))
    again = ModelRetryMiddleware(max_retries=2, initial_delay=0.001, on_failure="error")
    model: Any = ChatPodium(conductor=conductor, partial="raise")
    agent = create_agent(model, middleware=[again], checkpointer=InMemorySaver())
    await agent.ainvoke(ASKED, CONFIG)
    assert shop.refunds == [1017]
