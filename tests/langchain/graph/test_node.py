"""A conductor as a node of a graph: what it reads and writes, and what it streams."""

import json
import operator
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from graphs.conducted import ASKED, CONFIG, DIAMOND, EXECUTORS, LATER, Calls, Executor, Plans, around, decided
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import ParentCommand
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from pydantic import BaseModel
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium import as_planner, as_worker, conductor_node
from podium import Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner
from podium.workers import FREE, StepInput

pytestmark = pytest.mark.anyio


@EXECUTORS
async def test_messages_get_the_answer_and_podium_the_run(executor: Executor, calls: Calls) -> None:
    """What it shows is plain JSON, from which the plan can be read back."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    state = await around(conductor, executor=executor).ainvoke(ASKED)
    assert [type(message) for message in state["messages"]] == [HumanMessage, AIMessage]
    assert state["messages"][-1].content == "D(B(A()),C(A()))"
    shown = json.loads(json.dumps(state["podium"]))
    assert (shown["status"], shown["workers"]) == ("ok", list("ABCD"))
    assert Plan.from_json(shown["plan"]) == DIAMOND
    outcomes = [(o["step"], o["text"]) for o in shown["outcomes"]]
    assert outcomes == [(0, "A()"), (1, "B(A())"), (2, "C(A())"), (3, "D(B(A()),C(A()))")]
    assert "s0 --> s1" in shown["mermaid"]
    assert state["messages"][-1].response_metadata["podium_run_id"] == shown["run_id"]


class Pair(TypedDict, total=False):
    question: str
    answer: str


class Model(BaseModel):
    question: str = ""
    answer: str = ""


@dataclass
class Data:
    question: str = ""
    answer: str = ""
    podium: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(("state", "executor"), [(Pair, "podium"), (Model, "langgraph"), (Data, "langgraph")])
async def test_other_keys_of_any_state(state: type[Any], executor: Executor, calls: Calls) -> None:
    """A typed dict, a model and a dataclass are all read by their keys."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor=executor, input="question", state=state)
    left = await graph.ainvoke({"question": "How many?"})
    assert left["answer"] == "D(B(A()),C(A()))"
    assert all(step_input.query[-1].text == "How many?" for step_input in calls.briefs)


@EXECUTORS
async def test_events_are_in_the_custom_stream(executor: Executor, calls: Calls) -> None:
    """With the plan as Mermaid."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, executor=executor)
    told = [event async for _, event in graph.astream(ASKED, stream_mode="custom", subgraphs=True)]
    names = [event["name"] for event in told]
    assert (names[0], names[-1]) == ("podium_run_started", "podium_run_ended")
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
async def test_a_command_to_the_parent_graph(executor: Executor, calls: Calls, *, approve: bool) -> None:
    """It jumps in the user's own."""

    def hand_over(step_input: Any) -> str:
        raise ParentCommand(Command(graph=Command.PARENT, goto="human", update={"question": "handed over"}))

    workers = [calls.worker("A"), calls.worker("B", hand_over)]
    plan = Plan((Step(0, "begin"), Step(1, "end", (0,))))
    graph = StateGraph(Pair)
    options: Any = {"input": "question", "executor": executor, "policy": LATER if approve else None}
    graph.add_node("conductor", conductor_node(Conductor(FixedPlanner(plan), workers), **options))
    graph.add_node("human", lambda state: {"answer": f"a human has {state['question']}"})
    graph.add_edge(START, "conductor").add_edge("conductor", END)
    compiled = graph.compile(checkpointer=InMemorySaver())
    state = await compiled.ainvoke({"question": "How many?"}, CONFIG)
    if approve:
        state = await compiled.ainvoke(decided(), CONFIG)
    assert (state["answer"], calls.names) == ("a human has handed over", ["A", "B"])


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
    question: str
    questions: list[str]
    answers: Annotated[list[str], operator.add]
    podium: Annotated[list[dict[str, Any]], operator.add]


@EXECUTORS
async def test_each_send_adds_an_answer_and_a_run(executor: Executor, calls: Calls) -> None:
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = StateGraph(Reports)
    node = conductor_node(conductor, input="question", output="answers", executor=executor)
    graph.add_node("conductor", node)
    sends = lambda state: [Send("conductor", {"question": text}) for text in state["questions"]]  # noqa: E731
    graph.add_conditional_edges(START, sends, ["conductor"])
    app = graph.compile(checkpointer=InMemorySaver())
    state = await app.ainvoke({"questions": ["one", "two", "three"]}, CONFIG)
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
    question: str
    documents: list[Any]
    rules: str
    answer: str


@EXECUTORS
async def test_each_step_of_a_map_is_shown_its_own_document(executor: Executor) -> None:
    """Twelve documents cost the tokens of twelve documents, and not of a hundred and forty-four."""
    documents = [Document(f"page {number}: " + f"word{number} " * 200) for number in range(1, 13)]
    steps = [Step(0, f"Sum up {{{{document_{number}}}}}.") for number in range(1, 13)]
    plan = Plan((*steps, Step(0, "Join them by {{rules}}.", access=tuple(range(12)))))
    clerk = ScriptedWorker("clerk", "summed up")
    options: Any = {"input": "question", "context": {"document": "documents", "rules": "rules"}}
    graph = around(Conductor(FixedPlanner(plan), [clerk]), executor=executor, state=Desk, **options)
    await graph.ainvoke({"question": "What is in them?", "documents": documents, "rules": "Be short."})
    shown = ["\n".join(message.text for message in request.messages) for request in clerk.requests]
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


OpenAI = Callable[..., ChatOpenAI]

PLAN = '{"worker": 0, "subtask": "look", "access": []}\n{"worker": 0, "subtask": "write", "access": [0]}\n'


def _reply(call: Call) -> Reply:
    prompt = str(call.body["messages"])
    if "Worker 0: clerk" in prompt:
        return says(call, PLAN)
    return says(call, "It is forty two." if "write" in prompt else "some notes here")


def _conductor(url: str, openai: OpenAI) -> Conductor:
    model = openai(url)
    return Conductor(as_planner(model, name="chief"), [as_worker(model, name="clerk")])


def _saver(*, kept: bool) -> tuple[Any, Any]:
    return (InMemorySaver(), CONFIG) if kept else (None, {})


async def _messages(graph: Any, config: Any, *, subgraphs: bool) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the streamed messages with their metadata, and the state at the end."""
    found, state = list[Any](), None
    modes: Any = {"stream_mode": ["messages", "values"], "subgraphs": subgraphs}
    async for part in graph.astream(ASKED, config, **modes):
        mode, data = part[-2:]
        if mode == "messages":
            found.append(data)
        elif not subgraphs or part[0] == ():
            state = data
    return found, state


@pytest.mark.parametrize(("executor", "kept"), [("podium", True), ("langgraph", False)])
async def test_the_answer_alone_is_streamed_as_the_message_of_the_state(
    *, executor: Executor, kept: bool, openai: OpenAI
) -> None:
    """Once, under one id; what the planner and the other steps write is not a message."""
    saver, config = _saver(kept=kept)
    async with ChatServer(_reply) as server:
        graph = around(_conductor(server.url, openai), executor=executor, checkpointer=saver)
        found, state = await _messages(graph, config, subgraphs=kept)
    assert "".join(message.text for message, _ in found) == "It is forty two."
    assert len(found) > 2
    last = state["messages"][-1].id
    assert ({message.id for message, _ in found}, state["podium"]["message_id"]) == ({last}, last)
    roles = {(facts["langgraph_node"], facts["podium_role"]) for _, facts in found}
    assert roles == {("conductor", "answer")}


@pytest.mark.parametrize(("executor", "kept"), [("podium", False), ("langgraph", True)])
async def test_each_text_as_a_message_of_its_step(*, executor: Executor, kept: bool, openai: OpenAI) -> None:
    saver, config = _saver(kept=kept)
    async with ChatServer(_reply) as server:
        graph = around(_conductor(server.url, openai), executor=executor, checkpointer=saver, show_steps=True)
        found, state = await _messages(graph, config, subgraphs=False)
    texts, ids = defaultdict[Any, str](str), defaultdict[Any, set[str]](set)
    for message, facts in found:
        key = facts["podium_role"], facts.get("podium_step"), facts["podium_worker"]
        texts[key] += message.text
        ids[key].add(message.id)
    assert texts == {
        ("planner", None, "chief"): PLAN,
        ("worker", 0, "clerk"): "some notes here",
        ("answer", 1, "clerk"): "It is forty two.",
    }
    assert all(len(each) == 1 for each in ids.values())
    assert len(set[str].union(*ids.values())) == 3
    assert ids["answer", 1, "clerk"] == {state["messages"][-1].id}
