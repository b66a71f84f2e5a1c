"""The keys of a graph's state that a conductor's node writes to."""

import operator
from typing import Annotated, Any, TypedDict

import pytest
from graphs.conducted import DIAMOND, Calls, around
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from langchain_podium.graph import conductor_node
from langchain_podium.graph.conducted import Executor
from podium import Conductor
from podium.errors import ConfigError
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio

EXECUTORS = pytest.mark.parametrize("executor", ["podium", "langgraph"])


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
    """Answers and runs stand in the same order."""
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


@EXECUTORS
async def test_two_conductors_side_by_side_write_to_keys_of_their_own(
    executor: Executor, calls: Calls
) -> None:
    """A key without a reducer takes one run, so `podium` has one."""

    class State(TypedDict, total=False):
        question: str
        left: str
        right: str
        podium: Annotated[list[dict[str, Any]], operator.add]

    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = StateGraph(State)
    for side in ("left", "right"):
        keys: Any = {"input": "question", "output": side}
        graph.add_node(f"ask_{side}", conductor_node(conductor, executor=executor, **keys))
        graph.add_edge(START, f"ask_{side}")
    state = await graph.compile().ainvoke({"question": "How many?"})
    assert state["left"] == state["right"] == "D(B(A()),C(A()))"
    first, second = state["podium"]
    assert first["run_id"] != second["run_id"]


@EXECUTORS
@pytest.mark.parametrize("keys", [{"output": "anwser"}])
async def test_a_key_that_the_state_does_not_have_is_refused_before_anything_is_called(
    executor: Executor, keys: dict[str, str], calls: Calls
) -> None:
    """LangGraph drops what a node writes to such a key without a word."""
    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, state=Reports, input="question", executor=executor, **keys)
    argument, key = list(keys.items())[-1]
    with pytest.raises(ConfigError, match=f"no key '{key}'.*{argument}="):
        await graph.ainvoke({"question": "How many?"})
    assert calls.names == []


@EXECUTORS
async def test_a_list_of_messages_of_another_name_gets_a_message(executor: Executor, calls: Calls) -> None:
    """Text would be added as one more question of the user."""

    class State(TypedDict, total=False):
        chat: Annotated[list[AnyMessage], add_messages]

    conductor = Conductor(FixedPlanner(DIAMOND), calls.workers("ABCD"))
    graph = around(conductor, state=State, input="chat", output="chat", executor=executor)
    state = await graph.ainvoke({"chat": [("user", "How many?")]})
    assert isinstance(state["chat"][-1], AIMessage)
    assert state["chat"][-1].content == "D(B(A()),C(A()))"
