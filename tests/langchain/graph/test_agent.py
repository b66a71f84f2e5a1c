"""A graph that is ready to run, and LangGraph's own agents and graphs as workers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from graphs.conducted import DIAMOND, LATER, Calls, Plans, decided
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium.graph import create_conductor_agent
from langchain_podium.graph.conducted import Executor
from langchain_podium.workers import as_worker
from podium import Conductor, Limits, Plan, Step
from podium.errors import ConfigError
from podium.planners import FixedPlanner
from podium.workers import ScriptedWorker

OpenAI = Callable[..., ChatOpenAI]
pytestmark = pytest.mark.anyio

EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])
CONFIG: Any = {"configurable": {"thread_id": "1"}}


def _asked(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


@EXECUTORS
async def test_a_thread_is_remembered_and_no_other(executor: Executor, calls: Calls) -> None:
    """The conversation so far is part of the question."""
    conductor = Conductor(FixedPlanner(Plan((Step(0, "answer"),))), calls.workers("A"))
    agent = create_conductor_agent(conductor, executor=executor, checkpointer=InMemorySaver())
    await agent.ainvoke(_asked("My name is Ada."), CONFIG)
    state = await agent.ainvoke(_asked("What is my name?"), CONFIG)
    await agent.ainvoke(_asked("Who am I?"), {"configurable": {"thread_id": "2"}})
    assert [message.type for message in state["messages"]] == ["human", "ai", "human", "ai"]
    told = [[message.text for message in step_input.query] for step_input in calls.briefs]
    assert told == [
        ["My name is Ada."],
        ["My name is Ada.", "A()", "What is my name?"],
        ["Who am I?"],
    ]


@EXECUTORS
async def test_two_runs_after_each_other_on_one_thread_share_no_step(
    executor: Executor, calls: Calls
) -> None:
    """A step is shown steps of its own plan."""
    planner = Plans(Plan((Step(0, "a"), Step(1, "b", (0,)))), Plan((Step(1, "b"), Step(0, "a", (0,)))))
    options: Any = {"planner": planner, "workers": calls.workers("AB"), "executor": executor}
    agent = create_conductor_agent(**options, checkpointer=InMemorySaver())
    first = await agent.ainvoke(_asked("one"), CONFIG)
    second = await agent.ainvoke(_asked("two"), CONFIG)
    assert first["messages"][-1].content == "B(A())"
    assert second["messages"][-1].content == "A(B())"
    assert first["podium"]["run_id"] != second["podium"]["run_id"]
    assert [step.output for step_input in calls.briefs[2:] for step in step_input.visible] == ["B()"]


@EXECUTORS
async def test_two_runs_at_once_on_one_thread_do_not_mix(executor: Executor, calls: Calls) -> None:
    """Each has an id, steps and an answer of its own."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    agent = create_conductor_agent(conductor, executor=executor, checkpointer=InMemorySaver())
    states: dict[str, Any] = {}

    async def ask(text: str) -> None:
        states[text] = await agent.ainvoke(_asked(text), CONFIG)

    async with anyio.create_task_group() as tasks:
        for text in ("one", "two"):
            tasks.start_soon(ask, text)
    for text, other in (("one", "two"), ("two", "one")):
        assert states[text]["messages"][-1].content == "D(B(A()),C(A()))"
        assert states[text]["podium"]["run_id"] != states[other]["podium"]["run_id"]
    assert len(calls.names) == 8
    assert {step_input.query[-1].text for step_input in calls.briefs} == {"one", "two"}


async def test_a_new_question_leaves_a_plan_that_waits_behind(calls: Calls) -> None:
    """What is approved then is the new plan."""
    planner = Plans(Plan((Step(0, "a"),)), Plan((Step(1, "b"),)))
    options: Any = {"planner": planner, "workers": calls.workers("AB"), "policy": LATER}
    agent = create_conductor_agent(**options, checkpointer=InMemorySaver())
    await agent.ainvoke(_asked("one"), CONFIG)
    state = await agent.ainvoke(_asked("two"), CONFIG)
    assert state["__interrupt__"][0].value["podium"]["plan"]["steps"][0]["subtask"] == "b"
    state = await agent.ainvoke(decided(), CONFIG)
    assert state["messages"][-1].content == "B()"
    assert calls.names == ["B"]


@EXECUTORS
async def test_workers_find_the_store(executor: Executor, calls: Calls) -> None:
    """By LangGraph's own `get_store`."""
    store = InMemoryStore()
    await store.aput(("facts",), "colour", {"is": "blue"})

    def look(step_input: Any) -> str:
        found = get_store().get(("facts",), "colour")
        return str(found.value["is"])

    agent = create_conductor_agent(
        planner=FixedPlanner(Plan((Step(0, "look"),))),
        workers=[calls.worker("looker", look)],
        executor=executor,
        store=store,
    )
    assert (await agent.ainvoke(_asked("What colour?")))["messages"][-1].content == "blue"


def _reply(call: Call) -> Reply:
    conducts = "You are the conductor" in json.dumps(call.body["messages"])
    return says(call, '{"worker": 0, "subtask": "Answer it.", "access": []}\n' if conducts else "Forty-two.")


@pytest.mark.long
@EXECUTORS
async def test_a_chat_model_can_be_the_planner_and_a_worker(executor: Executor, openai: OpenAI) -> None:
    """One of LangChain's, called once as each."""
    async with ChatServer(_reply) as server:
        model = openai(server.url)
        agent = create_conductor_agent(
            planner=model, workers=[model], executor=executor, limits=Limits(rounds=1)
        )
        state = await agent.ainvoke(_asked("How many?"))
        assert len(server.calls) == 2
    assert state["messages"][-1].content == "Forty-two."
    assert state["podium"]["usage"]["output_tokens"] > 0


@EXECUTORS
async def test_steps_have_typed_outputs(executor: Executor) -> None:
    """A misfit is put right, and a part of the output is filled into the next step."""
    replies = {"Your last answer": '{"n": 42}', "Say 42.": "Forty-two.", "Count.": "many"}
    plan = Plan((Step(0, "Count.", returns={"n": "integer"}), Step(0, "Say {{0.n}}.", (0,))))
    conductor = Conductor(FixedPlanner(plan), [ScriptedWorker("A", replies)])
    agent = create_conductor_agent(conductor, executor=executor)
    state = await agent.ainvoke(_asked("How many?"))
    assert state["messages"][-1].content == "Forty-two."


def test_a_conductor_has_its_workers_already(calls: Calls) -> None:
    """What would not count is refused."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    with pytest.raises(ConfigError, match="it has its own"):
        create_conductor_agent(conductor, workers=calls.workers("E"))
    with pytest.raises(ConfigError, match=r"planner=.* or a podium.Conductor"):
        create_conductor_agent(workers=calls.workers("E"))


def test_it_can_be_drawn(calls: Calls) -> None:
    """Before it has run, too; the plan does not exist then."""
    agent = create_conductor_agent(
        Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD")), executor="langgraph", policy=LATER
    )
    assert "__start__ --> conductor" in agent.get_graph().draw_mermaid()
    assert "steps" in agent.get_graph(xray=True).draw_mermaid()


class Notes(TypedDict, total=False):
    """The state of a graph that is a worker."""

    messages: Annotated[list[Any], add_messages]


def _clerk(*, asks: bool, **options: Any) -> Any:
    """Return a graph that answers with all it has been told, after asking somebody if it must."""

    def write(state: Notes) -> Notes:
        said = f", {interrupt('may I?')}" if asks else ""
        return {"messages": [("ai", f"{len(state['messages'])} told{said}")]}

    graph = StateGraph(Notes)
    graph.add_node("write", write)
    graph.add_edge(START, "write")
    return graph.compile(name="clerk", **options)


@pytest.mark.long
@EXECUTORS
@pytest.mark.parametrize("saver", [None, True, "own"])
async def test_graphs_as_workers_remember_nothing_of_other_steps_and_threads(
    executor: Executor, saver: Any
) -> None:
    """Whichever checkpointer they were compiled with."""
    own = InMemorySaver() if saver == "own" else saver
    clerk = as_worker(_clerk(asks=False, checkpointer=own))
    plan = Plan((Step(0, "a"), Step(0, "b"), Step(0, "c", (0, 1))))
    agent = create_conductor_agent(
        Conductor(FixedPlanner(plan), [clerk]), executor=executor, checkpointer=InMemorySaver()
    )
    told = []
    for thread in ("1", "1", "2"):
        state = await agent.ainvoke(_asked("Write."), {"configurable": {"thread_id": thread}})
        told.append([outcome["text"] for outcome in state["podium"]["outcomes"]])
    # The second time, the conversation of the thread itself is part of the question.
    assert told == [["1 told"] * 3, ["3 told"] * 3, ["1 told"] * 3]


async def test_a_graphs_own_interrupt_waits_in_its_step_and_goes_on_there(calls: Calls) -> None:
    """Other steps are not called again."""
    plan = Plan((Step(0, "a"), Step(1, "b", (0,)), Step(0, "c", (1,))))
    conductor = Conductor(FixedPlanner(plan), [calls.worker("A"), as_worker(_clerk(asks=True))])
    agent = create_conductor_agent(conductor, executor="langgraph", checkpointer=InMemorySaver())
    state = await agent.ainvoke(_asked("Write."), CONFIG)
    assert state["__interrupt__"][0].value == "may I?"
    state = await agent.ainvoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content.startswith("A(")
    assert "told, yes" in state["messages"][-1].content
    assert calls.names == ["A", "A"]


@EXECUTORS
@pytest.mark.parametrize("asks", [False, True])
def test_graphs_are_workers_where_neither_graph_nor_checkpointer_is_async(
    *, executor: Executor, asks: bool, calls: Calls, tmp_path: Path
) -> None:
    """They are called as the graph around them is."""
    plan = Plan((Step(0, "a"), Step(1, "b", (0,))))
    clerk = as_worker(_clerk(asks=asks))
    conductor = Conductor(FixedPlanner(plan), [calls.worker("A"), clerk])
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        agent = create_conductor_agent(conductor, executor=executor, checkpointer=saver)
        state = agent.invoke(_asked("Write."), CONFIG)
        if asks:
            state = agent.invoke(Command(resume="yes"), CONFIG)
    assert state["messages"][-1].content == ("1 told, yes" if asks else "1 told")
    assert calls.names == ["A"]
