"""Runs of LangChain's faces that wait for a decision: alone, with an id, and in a thread of LangGraph."""

from collections.abc import Sequence
from typing import Any, TypedDict
from uuid import UUID

import pytest
from contracts.conversation_contract import ConversationContract
from contracts.waiting_contract import QUESTION, Ask, check_waiting
from graphs.conducted import LATER, Calls, Executor, Plans, around, decided
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from langchain_podium import ChatPodium, ConductorRunnable, create_conductor_agent
from podium import Conductor, Plan, Step
from podium.journal import MemoryJournal

pytestmark = pytest.mark.anyio
THREAD: Any = {"configurable": {"thread_id": "7"}}
NAMED: Any = {"run_id": UUID(int=42)}


async def _runnable(conductor: Conductor, config: Any = None) -> object:
    return await ConductorRunnable(conductor).ainvoke(QUESTION, config)


async def _streamed(conductor: Conductor, config: Any = None) -> object:
    return "".join([piece async for piece in ConductorRunnable(conductor).astream(QUESTION, config)])


async def _chat_model(conductor: Conductor, config: Any = None) -> object:
    return (await ChatPodium(conductor=conductor).ainvoke(QUESTION, config)).content


@pytest.mark.parametrize("ask", [_runnable, _streamed, _chat_model])
@pytest.mark.parametrize("config", [None, NAMED])
async def test_a_plan_may_wait_and_go_on_later(ask: Any, config: Any) -> None:
    await check_waiting(lambda conductor: ask(conductor, config), is_named=config is not None)


class Asked(TypedDict, total=False):
    answer: object


def _in_node(ask: Any) -> Ask:
    """Return what asks in a node of a graph, always in the same thread."""
    saver = InMemorySaver()

    async def run(conductor: Conductor) -> object:
        async def node(state: Asked) -> Asked:
            return {"answer": await ask(conductor)}

        graph = StateGraph(Asked).add_node("ask", node).add_edge(START, "ask")
        return (await graph.compile(checkpointer=saver).ainvoke({}, THREAD))["answer"]

    return run


@pytest.mark.parametrize("ask", [_in_node(_runnable), _in_node(_chat_model), lambda c: _runnable(c, THREAD)])
async def test_a_thread_finds_the_run_that_waits(ask: Ask) -> None:
    await check_waiting(ask, is_named=True)


@pytest.mark.long
@pytest.mark.parametrize("executor", ["podium", "langgraph"])
@pytest.mark.parametrize("is_agent", [True, False])
async def test_a_thread_at_an_interrupt_is_asked_again(executor: Executor, *, is_agent: bool) -> None:
    """The interrupt has the same run; another question has a run of its own, and so has another thread.

    LangGraph drops the state of a node that is asked again, so only a journal has the run.
    """
    calls, journal = Calls(), MemoryJournal()
    planner = Plans(Plan((Step(0, "Say it."),)))
    conductor = Conductor(planner, calls.workers("A"), journal=journal)
    options: Any = {"executor": executor, "policy": LATER, "checkpointer": InMemorySaver()}
    graph = create_conductor_agent(conductor, **options) if is_agent else around(conductor, **options)

    async def asked(question: str, thread: str) -> str:
        config: Any = {"configurable": {"thread_id": thread}}
        state = await graph.ainvoke({"messages": [("user", question)]}, config)
        run_id: str = state["__interrupt__"][0].value["podium"]["run_id"]
        return run_id

    first = await asked(QUESTION, "1")
    assert ([await asked(QUESTION, "1") for _ in range(2)], planner.asked) == ([first, first], 1)
    assert await asked(QUESTION, "2") != first
    state = await graph.ainvoke(decided(), {"configurable": {"thread_id": "1"}})
    assert (state["messages"][-1].content, calls.names) == ("A()", ["A"])
    assert await asked(QUESTION, "1") != first
    assert await asked("And seven times seven?", "1") != first
    assert len(await journal.runs()) == 4


class TestChatPodium(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        kinds: tuple[type[BaseMessage], ...] = (HumanMessage, AIMessage)
        said = [kinds[index % 2](text) for index, text in enumerate(texts)]
        return (await ChatPodium(conductor=used).ainvoke(said)).text
