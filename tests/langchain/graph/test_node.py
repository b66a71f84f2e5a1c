"""A conductor as a node of a graph, with Podium's own executor."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

import anyio
import pytest
from graphs.conducted import DIAMOND, LATER, Calls, around, decided
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import ParentCommand
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from langchain_podium.workers import as_worker
from podium import Conductor, Plan, Step
from podium.errors import ConfigError, RunFailed, WorkerFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import Plan as PlanType
from podium.workers import FREE, ScriptedWorker, StepInput
from podium.workers.simple import FunctionWorker

OpenAI = Callable[..., ChatOpenAI]
pytestmark = pytest.mark.anyio

EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])
ASKED = {"messages": [("user", "How many?")]}


@EXECUTORS
async def test_messages_get_the_answer_and_the_key_podium_shows_the_run(
    executor: Executor, calls: Calls
) -> None:
    """What it shows is plain JSON, from which the plan can be read back."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    state = await around(conductor, executor=executor).ainvoke(ASKED)
    assert [type(message) for message in state["messages"]] == [HumanMessage, AIMessage]
    assert state["messages"][-1].content == "D(B(A()),C(A()))"
    shown = json.loads(json.dumps(state["podium"]))
    assert shown["status"] == "ok"
    assert PlanType.from_json(shown["plan"]) == DIAMOND
    assert shown["workers"] == list("ABCD")
    assert [(o["step"], o["text"]) for o in shown["outcomes"]] == [
        (0, "A()"), (1, "B(A())"), (2, "C(A())"), (3, "D(B(A()),C(A()))"),
    ]  # fmt: skip
    assert "s0 --> s1" in shown["mermaid"]
    assert state["messages"][-1].response_metadata["podium_run_id"] == shown["run_id"]


class Pair(TypedDict, total=False):
    """A question and its answer."""

    question: str
    answer: str


class Model(BaseModel):
    """A question and its answer."""

    question: str = ""
    answer: str = ""


@dataclass
class Record:
    """A question and its answer."""

    question: str = ""
    answer: str = ""
    podium: dict[str, Any] = field(default_factory=dict)


@EXECUTORS
@pytest.mark.parametrize("state", [Pair, Model, Record])
async def test_other_keys_hold_question_and_answer_whatever_the_state_is_declared_as(
    executor: Executor, state: type[Any], calls: Calls
) -> None:
    """A typed dict, a model and a dataclass are all read by their keys."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor=executor, input="question", state=state)
    left = await graph.ainvoke({"question": "How many?"})
    assert left["answer"] == "D(B(A()),C(A()))"
    assert all(step_input.query[-1].text == "How many?" for step_input in calls.briefs)


@EXECUTORS
def test_a_graph_that_is_not_async_has_it_too(executor: Executor, calls: Calls) -> None:
    """`invoke` needs nothing but the node."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    state = around(conductor, executor=executor).invoke(ASKED)
    assert state["messages"][-1].content == "D(B(A()),C(A()))"


@EXECUTORS
async def test_a_graph_called_without_await_in_a_running_loop_has_it_too(
    executor: Executor, calls: Calls
) -> None:
    """As in a notebook, and with a checkpointer."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    state = around(conductor, executor=executor, checkpointer=InMemorySaver()).invoke(
        ASKED, {"configurable": {"thread_id": "1"}}
    )
    assert state["messages"][-1].content == "D(B(A()),C(A()))"


@EXECUTORS
async def test_events_and_the_plan_as_mermaid_are_in_the_custom_stream(
    executor: Executor, calls: Calls
) -> None:
    """From the run's start to its end, in this order, as JSON."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor=executor)
    told = [event async for _, event in graph.astream(ASKED, stream_mode="custom", subgraphs=True)]
    names = [event["name"] for event in told]
    assert names[0] == "podium_run_started"
    assert names[-1] == "podium_run_ended"
    assert names.count("podium_step_ended") == 4
    assert not any(name.endswith("_delta") for name in names)
    ready = next(event["data"] for event in told if event["name"] == "podium_plan_ready")
    assert "3: D" in ready["mermaid"]
    json.dumps(told)


@EXECUTORS
async def test_pieces_of_text_are_in_the_custom_stream_if_steps_are_shown(
    executor: Executor, calls: Calls
) -> None:
    """Each once: the answer is the text of a step."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor=executor, show_steps=True)
    told = [event async for _, event in graph.astream(ASKED, stream_mode="custom", subgraphs=True)]
    assert "podium_plan_delta" in [event["name"] for event in told]
    texts = [event["data"]["text"] for event in told if event["name"] == "podium_step_delta"]
    assert sorted(texts) == ["A()", "B(A())", "C(A())", "D(B(A()),C(A()))"]


async def test_podiums_executor_streams_without_subgraphs_too(calls: Calls) -> None:
    """It is one plain node, whose stream LangGraph passes on."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    told = [event async for event in around(conductor).astream(ASKED, stream_mode="custom")]
    assert "podium_plan_ready" in [event["name"] for event in told]


def _reply(call: Call) -> Reply:
    return says(call, "one two three")


@EXECUTORS
async def test_tokens_of_chat_models_are_in_the_stream_of_messages(
    executor: Executor, openai: OpenAI
) -> None:
    """Piece by piece, with the step they are of."""
    async with ChatServer(_reply) as server:
        counter = as_worker(openai(server.url), name="counter")
        conductor = Conductor(FixedPlanner(Plan((Step(0, "count"),))), [counter])
        pieces = [
            (chunk.text, metadata)
            async for _, (chunk, metadata) in around(conductor, executor=executor).astream(
                ASKED, stream_mode="messages", subgraphs=True
            )
        ]
    tokens = [text for text, metadata in pieces if metadata.get("podium_step") == 0]
    assert len(tokens) > 1
    assert "".join(tokens) == "one two three"


@EXECUTORS
async def test_a_run_without_an_answer_raises_with_what_it_came_to(executor: Executor) -> None:
    """No node after it goes on without an answer."""
    conductor = Conductor(
        FixedPlanner(Plan((Step(0, "try"),))), [ScriptedWorker("broken", WorkerFailed("no luck"))]
    )
    with pytest.raises(RunFailed, match="no luck") as raised:
        await around(conductor, executor=executor).ainvoke(ASKED)
    assert raised.value.result.status == "failed"


@EXECUTORS
async def test_what_lacks_a_part_is_an_answer_and_says_so(executor: Executor, calls: Calls) -> None:
    """The state says what is missing, and why."""
    workers = calls.workers("ABCD")
    workers[2] = ScriptedWorker("C", WorkerFailed("no luck"))
    conductor = Conductor(FixedPlanner(DIAMOND), workers, on_failure="note")
    state = await around(conductor, executor=executor).ainvoke(ASKED)
    assert state["messages"][-1].content.startswith("D(B(A()),)\n\n(Not complete: ")
    assert state["podium"]["status"] == "partial"
    assert "no luck" in json.dumps(state["podium"]["outcomes"])


@EXECUTORS
async def test_with_a_journal_a_run_that_failed_goes_on_and_pays_nothing_twice(
    executor: Executor, calls: Calls
) -> None:
    """Calling the graph with nothing new calls only who failed."""
    luck = [False]

    def join(step_input: Any) -> str:
        if not luck[0]:
            raise ValueError("no luck")
        return "joined"

    journal = MemoryJournal()
    workers = [*calls.workers("ABC"), calls.worker("D", join)]
    conductor = Conductor(FixedPlanner(DIAMOND), workers, journal=journal)
    graph = around(conductor, executor=executor, partial="raise", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(RunFailed, match=r"run \w+: there is no answer \(worker_failed: step 3 \(D\)"):
        await graph.ainvoke(ASKED, config)
    luck[0] = True
    state = await graph.ainvoke(None, config)
    assert state["messages"][-1].content == "joined"
    assert sorted(calls.names) == ["A", "B", "C", "D", "D"]
    assert len(await journal.runs()) == 1


@EXECUTORS
async def test_a_step_waits_for_its_inputs_alone(executor: Executor) -> None:
    """What needs only the fast one of two begins while the slow one is at work, with nodes too."""
    begun, told = anyio.Event(), list[str]()

    async def slow(step_input: StepInput) -> str:
        with anyio.fail_after(20):
            await begun.wait()
        told.append("slow ended")
        return "slow"

    async def fast(step_input: StepInput) -> str:
        return "fast"

    async def behind(step_input: StepInput) -> str:
        told.append("behind the fast one began")
        begun.set()
        return "+".join(step.output for step in step_input.visible)

    workers = [FunctionWorker(work, price=FREE) for work in (slow, fast, behind)]
    plan = Plan((Step(0, "a"), Step(1, "b"), Step(2, "c", (1,)), Step(2, "d", (0, 2))))
    state = await around(Conductor(FixedPlanner(plan), workers), executor=executor).ainvoke(ASKED)
    assert state["messages"][-1].content == "slow+fast"
    assert told[:2] == ["behind the fast one began", "slow ended"]


@EXECUTORS
async def test_an_interrupt_needs_a_checkpointer(executor: Executor, calls: Calls) -> None:
    """The error says so."""
    asking = calls.worker("asking", lambda step_input: interrupt("may I?"))
    graph = around(Conductor(FixedPlanner(Plan((Step(0, "ask"),))), [asking]), executor=executor)
    with pytest.raises(ConfigError, match=r"'asking' called interrupt.*no checkpointer"):
        await graph.ainvoke(ASKED)


@EXECUTORS
@pytest.mark.parametrize("approve", [False, True])
async def test_a_command_to_the_parent_graph_jumps_in_the_users_own(
    *, executor: Executor, approve: bool, calls: Calls
) -> None:
    """And not in the graphs in between, which the user never sees."""

    def hand_over(step_input: Any) -> str:
        raise ParentCommand(Command(graph=Command.PARENT, goto="human", update={"question": "handed over"}))

    workers = [calls.worker("A"), calls.worker("B", hand_over)]
    plan = Plan((Step(0, "begin"), Step(1, "end", (0,))))
    graph = StateGraph(Pair)
    node = conductor_node(
        Conductor(FixedPlanner(plan), workers),
        input="question",
        executor=executor,
        policy=LATER if approve else None,
    )
    graph.add_node("conductor", node)
    graph.add_node("human", lambda state: {"answer": f"a human has {state['question']}"})
    graph.add_edge(START, "conductor")
    graph.add_edge("conductor", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    state = await compiled.ainvoke({"question": "How many?"}, config)
    if approve:
        state = await compiled.ainvoke(decided(), config)
    assert state["answer"] == "a human has handed over"
    assert calls.names == ["A", "B"]


async def test_a_node_is_not_called_outside_of_a_graph(calls: Calls) -> None:
    """The error says what is for that."""
    node = conductor_node(Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD")))

    @task
    async def ask() -> Any:
        return await node.ainvoke(ASKED)

    @entrypoint()
    async def flow(_: str) -> Any:
        return await ask()

    for call in (node.ainvoke, flow.ainvoke):
        with pytest.raises(ConfigError, match="ConductorRunnable"):
            await call(ASKED)


async def test_a_state_that_asks_nothing_is_refused(calls: Calls) -> None:
    """Before anything is paid for."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    with pytest.raises(ConfigError, match="no question under 'messages'"):
        await around(conductor).ainvoke({"messages": []})


def test_an_executor_that_is_none_is_refused(calls: Calls) -> None:
    """When the node is made, and not when it runs."""
    with pytest.raises(ConfigError, match="podium or langgraph"):
        conductor_node(Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD")), executor="temporal")
