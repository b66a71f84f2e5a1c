"""A conductor as a node of a graph, with Podium's own executor."""

import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from graphs.conducted import ASKED, DIAMOND, EXECUTORS, LATER, Calls, Plans, around, decided
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import ParentCommand
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from pydantic import BaseModel

from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner
from podium.types import Plan as PlanType
from podium.workers import FREE, StepInput
from podium.workers.simple import FunctionWorker

pytestmark = pytest.mark.anyio


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
class _Record:
    question: str = ""
    answer: str = ""
    podium: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("state", "executor"), [(Pair, "podium"), (Model, "langgraph"), (_Record, "langgraph")]
)
async def test_other_keys_hold_question_and_answer_whatever_the_state_is_declared_as(
    state: type[Any], executor: Executor, calls: Calls
) -> None:
    """A typed dict, a model and a dataclass are all read by their keys."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor=executor, input="question", state=state)
    left = await graph.ainvoke({"question": "How many?"})
    assert left["answer"] == "D(B(A()),C(A()))"
    assert all(step_input.query[-1].text == "How many?" for step_input in calls.briefs)


@EXECUTORS
async def test_events_and_the_plan_as_mermaid_are_in_the_custom_stream(
    executor: Executor, calls: Calls
) -> None:
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


@pytest.mark.parametrize(("executor", "approve"), [("podium", False), ("langgraph", True)])
async def test_a_command_to_the_parent_graph_jumps_in_the_users_own(
    executor: Executor, calls: Calls, *, approve: bool
) -> None:
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


async def test_what_cannot_run_is_refused(calls: Calls) -> None:
    """A node outside of a graph, a state that asks nothing, an executor that is none."""
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
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    with pytest.raises(ConfigError, match="no question under 'messages'"):
        await around(conductor).ainvoke({"messages": []})
    with pytest.raises(ConfigError, match="podium or langgraph"):
        conductor_node(conductor, executor="temporal")


class Reports(TypedDict, total=False):
    """Questions, and what the conductors make of them."""

    question: str
    questions: list[str]
    answers: Annotated[list[str], operator.add]
    podium: Annotated[list[dict[str, Any]], operator.add]


@EXECUTORS
async def test_a_conductor_called_by_send_adds_an_answer_and_a_run_for_each(
    executor: Executor, calls: Calls
) -> None:
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = StateGraph(Reports)
    node = conductor_node(conductor, input="question", output="answers", executor=executor)
    graph.add_node("conductor", node)
    graph.add_conditional_edges(
        START,
        lambda state: [Send("conductor", {"question": text}) for text in state["questions"]],
        ["conductor"],
    )
    app = graph.compile(checkpointer=InMemorySaver())
    state = await app.ainvoke({"questions": ["one", "two", "three"]}, {"configurable": {"thread_id": "1"}})
    assert state["answers"] == ["D(B(A()),C(A()))"] * 3
    assert [run["status"] for run in state["podium"]] == ["ok"] * 3
    assert len({run["run_id"] for run in state["podium"]}) == 3


async def test_a_key_that_the_state_does_not_have_is_refused_before_anything_is_called(calls: Calls) -> None:
    """LangGraph drops what a node writes to such a key without a word."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, state=Reports, input="question", output="anwser")
    with pytest.raises(ConfigError, match=r"no key 'anwser'.*output="):
        await graph.ainvoke({"question": "How many?"})
    assert calls.names == []


class Desk(TypedDict, total=False):
    """A question about documents."""

    question: str
    documents: list[Any]
    rules: str
    answer: str


def _texts(worker: ScriptedWorker) -> list[str]:
    return ["\n".join(message.text for message in request.messages) for request in worker.requests]


@EXECUTORS
async def test_each_step_of_a_map_is_shown_its_own_document(executor: Executor) -> None:
    """Twelve documents cost the tokens of twelve documents, and not of a hundred and forty-four."""
    documents = [Document(f"page {number}: " + f"word{number} " * 200) for number in range(1, 13)]
    steps = [Step(0, f"Sum up {{{{document_{number}}}}}.") for number in range(1, 13)]
    plan = Plan((*steps, Step(0, "Join them by {{rules}}.", access=tuple(range(12)))))
    clerk = ScriptedWorker("clerk", "summed up")
    graph = around(
        Conductor(FixedPlanner(plan), [clerk]),
        executor=executor,
        state=Desk,
        input="question",
        context={"document": "documents", "rules": "rules"},
    )
    asked = {"question": "What is in them?", "documents": documents, "rules": "Be short."}
    await graph.ainvoke(asked)
    shown = _texts(clerk)
    for number, text in enumerate(shown[:12], 1):
        assert sum(f"page {other}: " in text for other in range(1, 13)) == 1, number
        assert "Be short." not in text
    assert "Be short." in shown[12]
    assert sum(map(len, shown)) < 2 * sum(len(document.page_content) for document in documents)


async def test_a_part_that_is_missing_or_no_text_is_refused_before_anything_is_called(calls: Calls) -> None:
    conductor = Conductor(Plans(Plan((Step(0, "read"),))), calls.workers("A"))
    graph = around(conductor, state=Desk, input="question", context={"rules": "rules"})
    with pytest.raises(ConfigError, match="no value under 'rules'"):
        await graph.ainvoke({"question": "What?"})
    with pytest.raises(ConfigError, match="holds a object under 'rules'"):
        await graph.ainvoke({"question": "What?", "rules": object()})
    assert calls.names == []
