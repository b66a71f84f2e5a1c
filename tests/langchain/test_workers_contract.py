"""What LangChain's things are made into keeps the contract of workers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest
from contracts.worker_contract import WorkerContract
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from servers.chat_server import STALL, Call, ChatServer, Reply, says

from langchain_podium import as_worker
from podium import Price
from podium.workers import Worker

Make = Callable[..., Any]
PRICE = Price(input=1.0, output=5.0)


def echo(call: Call) -> Reply:
    """Repeat what was asked."""
    return says(call, f"You asked: {call.body['messages'][-1]['content']}")


def hang(call: Call) -> Reply:
    """Never answer."""
    return Reply((STALL,))


class TestChatModel(WorkerContract):
    """A chat model with a price, over a socket."""

    @pytest.fixture
    async def worker(self, openai: Make) -> AsyncIterator[Worker]:
        """Answer with the question."""
        async with ChatServer(echo) as server:
            yield as_worker(openai(server.url), price=PRICE)

    @pytest.fixture
    async def slow_worker(self, openai: Make) -> AsyncIterator[Worker]:
        """Never answer."""
        async with ChatServer(hang) as server:
            yield as_worker(openai(server.url))


class TestFallbacks(WorkerContract):
    """A model that is down, with another behind it."""

    @pytest.fixture
    async def worker(self, openai: Make) -> AsyncIterator[Worker]:
        """Answer with the question."""
        async with ChatServer(echo) as server:
            down = openai("http://127.0.0.1:9/v1")
            yield as_worker(down.with_fallbacks([openai(server.url)]))

    @pytest.fixture
    async def slow_worker(self, openai: Make) -> AsyncIterator[Worker]:
        """Never answer."""
        async with ChatServer(hang) as server:
            yield as_worker(openai(server.url).with_retry())


class TestChain(WorkerContract):
    """A chain that ends in a model."""

    @pytest.fixture
    async def worker(self, openai: Make) -> AsyncIterator[Worker]:
        """Answer with the question."""
        async with ChatServer(echo) as server:
            chain = RunnableLambda(lambda text: f"Say {text}") | openai(server.url)
            yield as_worker(chain, name="chain", price=PRICE)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        """Never answer."""

        async def wait(text: str) -> str:
            await anyio.sleep_forever()
            return text

        return as_worker(RunnableLambda(wait))


class TestGraph(WorkerContract):
    """A compiled graph."""

    @pytest.fixture
    async def worker(self, openai: Make) -> AsyncIterator[Worker]:
        """Answer with the question."""
        async with ChatServer(echo) as server:
            model = openai(server.url)

            async def ask(state: MessagesState) -> dict[str, Any]:
                return {"messages": [await model.ainvoke(state["messages"])]}

            yield as_worker(graph_of(ask), name="agent", price=PRICE)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        """Never answer."""

        async def wait(state: MessagesState) -> dict[str, Any]:
            await anyio.sleep_forever()
            return {"messages": [AIMessage("late")]}

        return as_worker(graph_of(wait), name="agent")


class TestTool(WorkerContract):
    """A tool that takes one text."""

    @pytest.fixture
    def worker(self) -> Worker:
        """Answer with the question."""

        @tool
        async def repeat(text: str) -> str:
            """Repeats a text."""
            await asyncio.sleep(0)
            return f"Heard {text}"

        return as_worker(repeat)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        """Never answer."""

        @tool
        async def wait(text: str) -> str:
            """Waits."""
            await anyio.sleep_forever()
            return text

        return as_worker(wait)


class Library(BaseRetriever):
    """Finds one document about anything."""

    waits: bool = False

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(f"All about {query}", metadata={"source": "a.md"})]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.waits:
            await anyio.sleep_forever()
        return self._get_relevant_documents(query, run_manager=run_manager.get_sync())


class TestRetriever(WorkerContract):
    """A retriever."""

    @pytest.fixture
    def worker(self) -> Worker:
        """Find something about the question."""
        return as_worker(Library())

    @pytest.fixture
    def slow_worker(self) -> Worker:
        """Never find anything."""
        return as_worker(Library(waits=True))


def graph_of(node: Callable[[MessagesState], Any]) -> Any:
    """Return a graph of one node."""
    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile()
